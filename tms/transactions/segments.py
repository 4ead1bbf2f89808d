"""Segments of the log: one for each leader, whose first row says where the previous one ends.

    number of a row := token << 40 | number within the segment
    first row       := version byte (2), crc32 uint32 over what follows, end int64

So late rows of an earlier leader are after the end of its segment, where nobody reads, and never
overwrite rows of another. The end is the number of the first row that does not count; it also
identifies the previous segment. The segment of token 0 has no first row: it is that of a store that
never had leaders. A snapshot's number shows its segment; an earlier leader's snapshot contains only
rows that counted while it led, so it does no harm.

A leader begins its segment after it has read the log, before it decides anything. A late first row
has a smaller token than the latest one, which does not refer to it.

Big-endian. DO NOT CHANGE: stored. Pure, except for reading the table.
"""

import struct
from collections.abc import Iterator
from typing import TYPE_CHECKING
from zlib import crc32

from tms.core.errors import StoreCorrupt, StoreUnavailable

if TYPE_CHECKING:
    from tables.transaction_table import StoreTransactionTable

_BITS = 40
_START = struct.Struct(">BI")
_END = struct.Struct(">q")
_VERSION = 2


def first_of(token: int) -> int:
    """Return the number of the first row of a segment."""
    return token << _BITS


def token_of(sequence: int) -> int:
    """Return the token of a row's segment."""
    return sequence >> _BITS


def within(sequence: int) -> int:
    """Return the number of a row within its segment."""
    return sequence - first_of(token_of(sequence))


def is_first(sequence: int) -> bool:
    """Whether a row is the first of a leader's segment, which has no edits."""
    return sequence > 0 and sequence == first_of(token_of(sequence))


def encode_first(end: int) -> bytes:
    """Return the first row of a segment, with the end of the previous one."""
    body = _END.pack(end)
    return _START.pack(_VERSION, crc32(body)) + body


def decode_first(sequence: int, row: bytes) -> int:
    """Return the end of the previous segment. Raises `StoreCorrupt`."""
    body = row[_START.size :]
    if row[: _START.size] != _START.pack(_VERSION, crc32(body)) or len(body) != _END.size:
        raise StoreCorrupt(
            table="transaction", sequence=sequence, reason="it is not the start of a segment"
        )
    return int(_END.unpack(body)[0])


def check_token(token: int, last: int) -> None:
    """Raise `StoreUnavailable` if a later leader has begun a segment."""
    if 0 < token < last:
        raise StoreUnavailable(
            reason="a later leader has used this store: was the metadata store replaced?",
            token=token,
            later_token=last,
        )


def pieces(table: "StoreTransactionTable", first: int) -> list[tuple[int, int | None]]:
    """Return the ranges of rows that count, from row `first` on: the first number, and the end.

    The last range has no end: all its rows count. Raises `StoreCorrupt`.
    """
    begun = dict(_begun(table, token_of(first)))
    ranges: list[tuple[int, int | None]] = []
    token, end = max(begun, default=token_of(first)), None
    while token > token_of(first):
        ranges.append((first_of(token), end))
        end = begun.get(token)
        if end is None:
            raise StoreCorrupt(table="transaction", sequence=first_of(token), reason="missing")
        token = token_of(end)
    if token < token_of(first):
        raise StoreCorrupt(table="transaction", snapshot=first, reason="its segment does not count")
    return [(first, end), *reversed(ranges)]


def _begun(table: "StoreTransactionTable", token: int) -> Iterator[tuple[int, int]]:
    """Yield the segments after that of `token`, with the ends in their first rows."""
    while True:
        first_row = next(table.rows(first_of(token + 1)), None)
        if first_row is None:
            return
        sequence, row = first_row
        token = token_of(sequence)
        if is_first(sequence):
            yield token, decode_first(sequence, row)
