"""Unsigned numbers in bytes of seven bits, the lowest first, and texts and ids made of them.

    number := varint
    text   := length number, UTF-8
    ids    := count of runs, run*                    ids ascend
    run    := 0x00, ms, first sequence, count        ids of one millisecond, with consecutive
              sequences and a second half of zeros; ms is the difference from the last such run
            | 0x01, id (20 bytes)

DO NOT CHANGE: on disk. Decoding returns what was encoded, or raises `ValueError` or `IndexError`.
"""

from collections.abc import Sequence
from struct import Struct

from tms.core.values.message import ID_BYTES, KEY, KEY_BYTES, NO_PAYLOAD_KEY
from tms.core.values.varints import LOW, read_varint, varint

_BYTES_MAX = 9
_MS_BITS_MAX = 63
_PLAIN, _WHOLE = 0, 1
_ID = Struct(f"{KEY.format}{ID_BYTES - KEY_BYTES}s")
_SEQUENCES = 1 << 16


def number_bytes(value: int) -> bytes:
    """Encode a number, which is 0 or more."""
    return bytes((value,)) if value <= LOW else varint(value)


def text_bytes(text: str) -> bytes:
    """Encode a text."""
    raw = text.encode()
    return number_bytes(len(raw)) + raw


def ids_bytes(ids: Sequence[bytes]) -> bytes:
    """Encode ids, which ascend."""
    runs: list[bytes] = []
    last_ms = 0
    start = ms = first = count = 0
    for now, sequence, payload_key in _ID.iter_unpack(b"".join(ids)):
        if payload_key != NO_PAYLOAD_KEY:
            if count:
                runs.append(_run(start, first, count))
                count = 0
            runs.append(b"\x01" + KEY.pack(now, sequence) + payload_key)
            continue
        if count and now == ms and sequence == first + count:
            count += 1
            continue
        if count:
            runs.append(_run(start, first, count))
        start, ms, first, count = now - last_ms, now, sequence, 1
        last_ms = now
    if count:
        runs.append(_run(start, first, count))
    return number_bytes(len(runs)) + b"".join(runs)


def _run(ms: int, first: int, count: int) -> bytes:
    return b"".join((b"\x00", number_bytes(ms), number_bytes(first), number_bytes(count)))


def numbers_bytes(values: Sequence[int]) -> bytes:
    """Encode numbers, without their count."""
    if not values or max(values) <= LOW:
        return bytes(values)
    return b"".join([number_bytes(value) for value in values])


class GroupReader:
    """Decodes what the functions here encode."""

    def __init__(self, data: bytes, at: int = 0) -> None:
        self.at = at
        """The offset of the next byte."""
        self._data = data

    @property
    def is_at_end(self) -> bool:
        """Whether everything was read."""
        return self.at == len(self._data)

    def number(self) -> int:
        """Return the next number."""
        byte = self._data[self.at]
        if byte <= LOW:
            self.at += 1
            return byte
        value, self.at = read_varint(self._data, self.at, _BYTES_MAX)
        return value

    def numbers(self, count: int) -> Sequence[int]:
        """Return the next `count` numbers."""
        short = self._data[self.at : self.at + count]
        if len(short) == count and short.isascii():
            self.at += count
            return short
        return [self.number() for _ in range(count)]

    def fixed(self, length: int) -> bytes:
        """Return the next `length` bytes."""
        start, self.at = self.at, self.at + length
        if self.at > len(self._data):
            raise ValueError
        return self._data[start : self.at]

    def integer(self, length: int) -> int:
        """Return the next `length` bytes, big-endian."""
        return int.from_bytes(self.fixed(length), signed=True)

    def flag(self) -> bool:
        """Return the next byte, 0 or 1."""
        byte = self.fixed(1)[0]
        if byte > 1:
            raise ValueError
        return byte == 1

    def text(self) -> str:
        """Return the next text."""
        return self.fixed(self.number()).decode()

    def ids(self) -> list[bytes]:
        """Return the next ids."""
        ids: list[bytes] = []
        ms = 0
        for _ in range(self.number()):
            if self.flag():
                ids.append(self.fixed(ID_BYTES))
                continue
            ms += self.number()
            first, count = self.number(), self.number()
            if not 0 < count <= _SEQUENCES - first or ms >> _MS_BITS_MAX:
                raise ValueError
            start = ms.to_bytes(8)
            ids += [
                start + sequence.to_bytes(2) + NO_PAYLOAD_KEY
                for sequence in range(first, first + count)
            ]
        return ids
