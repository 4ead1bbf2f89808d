"""Tables of int64 and lists of texts, encoded by columns, because Python is slow row by row.

    numbers := uint32 count, count x int64
    texts   := numbers (lengths in bytes), UTF-8

Big-endian. DO NOT CHANGE: on disk.
"""

import struct
from collections.abc import Iterable, Iterator, Sequence

from tms.transactions.edits import text_bytes, text_of

_COUNT = struct.Struct(">I")
_BYTES = 8
NOTHING = -1
"""Stands for no text, in place of its index, or for no number, if that is never negative."""


def encode_numbers(values: Iterable[int]) -> bytes:
    """Return int64 numbers."""
    numbers = tuple(values)
    return struct.pack(f">I{len(numbers)}q", len(numbers), *numbers)


def encode_rows(rows: Iterable[Sequence[int]], width: int) -> bytes:
    """Return the first `width` numbers of each row, as columns."""
    columns = list(zip(*rows, strict=True))[:width] or [()] * width
    return b"".join(map(encode_numbers, columns))


class Texts:
    """Distinct texts; other columns refer to them by index."""

    def __init__(self) -> None:
        self._indexes: dict[str, int] = {}

    def index(self, text: str | None) -> int:
        """Return the index of a text, NOTHING for None."""
        if text is None:
            return NOTHING
        return self._indexes.setdefault(text, len(self._indexes))

    def encoded(self) -> bytes:
        """Return the texts in the order of their indexes."""
        texts = [text_bytes(text) for text in self._indexes]
        return encode_numbers(map(len, texts)) + b"".join(texts)


class ColumnReader:
    """Reads what this file encodes. Raises `ValueError`, `struct.error` for other bytes."""

    def __init__(self, data: bytes, at: int) -> None:
        self.at = at
        self._data = data

    def bytes(self, length: int) -> bytes:
        """Return the next bytes."""
        start, self.at = self.at, self.at + length
        if not start <= self.at <= len(self._data):
            raise ValueError
        return self._data[start : self.at]

    def numbers(self) -> tuple[int, ...]:
        """Return numbers."""
        [count] = _COUNT.unpack(self.bytes(_COUNT.size))
        encoded = self.bytes(count * _BYTES)
        return struct.unpack(f">{count}q", encoded)

    def rows(self, width: int) -> Iterator[tuple[int, ...]]:
        """Yield rows of `width` numbers."""
        return zip(*[self.numbers() for _ in range(width)], strict=True)

    def texts(self) -> list[str]:
        """Return texts."""
        return [text_of(self.bytes(length)) for length in self.numbers()]
