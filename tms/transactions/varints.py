"""Zig-zag variable-length integers, lists and maps as in Tephra's snapshots (and Avro)."""

import struct
from collections.abc import Collection, Iterable, Mapping, Sequence

from tms.core.values.varints import LOW, MORE_FOLLOWS, read_varint, varint

_PAIR = (1 << 14) - 1
_PAIRS = [(i & LOW | MORE_FOLLOWS) | (i >> 7 | MORE_FOLLOWS) << 8 for i in range(_PAIR + 1)]
"""Two bytes of a longer number, for each value of their 14 bits."""
_NINE = struct.Struct("<HHHHB")
_LAST_SHIFT = 56


def encode_long(value: int) -> bytes:
    """Return an int64."""
    rest = (value << 1) ^ (value >> 63)
    if 0 < rest >> _LAST_SHIFT <= LOW:
        # The length of write pointers, of which there are many.
        return _NINE.pack(
            _PAIRS[rest & _PAIR],
            _PAIRS[rest >> 14 & _PAIR],
            _PAIRS[rest >> 28 & _PAIR],
            _PAIRS[rest >> 42 & _PAIR],
            rest >> _LAST_SHIFT,
        )
    return varint(rest)


_ZERO = encode_long(0)


def encode_items(items: Collection[bytes]) -> bytes:
    """Return a list or map of encoded items: their number, the items, zero."""
    if not items:
        return _ZERO
    return b"".join((encode_long(len(items)), *items, _ZERO))


def encode_longs(values: Iterable[int]) -> bytes:
    """Return a list of int64."""
    return encode_items([encode_long(value) for value in values])


def encode_change_sets(sets: Mapping[int, Sequence[bytes]]) -> bytes:
    """Return a map of int64 to lists of bytes."""
    return encode_items(
        [
            encode_long(key)
            + encode_items([encode_long(len(change)) + change for change in changes])
            for key, changes in sets.items()
        ]
    )


class VarintReader:
    """Reads what the functions here encode. Raises `ValueError`, `IndexError` for other bytes."""

    def __init__(self, data: bytes) -> None:
        self.at = 0
        """The position of the next byte."""
        self._data = data

    def long(self) -> int:
        """Return the next int64."""
        rest, self.at = read_varint(self._data, self.at)
        return (rest >> 1) ^ -(rest & 1)

    def counts(self) -> Iterable[None]:
        """Yield None for each item of the list or map here; the caller reads the item."""
        while count := self.long():
            if count < 0:
                raise ValueError
            for _ in range(count):
                yield None

    def longs(self) -> list[int]:
        """Return a list of int64."""
        return [self.long() for _ in self.counts()]

    def change_sets(self) -> dict[int, tuple[bytes, ...]]:
        """Return a map of int64 to lists of bytes."""
        return {self.long(): self._changes() for _ in self.counts()}

    def _changes(self) -> tuple[bytes, ...]:
        return tuple([self._bytes() for _ in self.counts()])

    def _bytes(self) -> bytes:
        length = self.long()
        start, self.at = self.at, self.at + length
        if not start <= self.at <= len(self._data):
            raise ValueError
        return self._data[start : self.at]
