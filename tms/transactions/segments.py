"""Segments of the log: one for each leader, who says in its first row where the one before ends.

    number of a row := token << 40 | number within the segment
    first row       := version byte (2), crc32 uint32 over what follows, end int64

So what an earlier leader sends late is put behind the end of its segment, which nobody reads, and
never where another has written. The end is the number of the first row that does not count; it also
says which segment was the one before. That of the token 0 has no first row: it is of a store that
never had leaders. A snapshot's number says of which segment it is; one of an earlier leader has
what counted when that led, so it does no harm.

A leader begins its segment when it has read what is there, before it decides anything. A first row
that comes late is of a smaller token than the latest one, which does not lead to it.

Big-endian. DO NOT CHANGE: stored. Pure, but for what is asked of the table.
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
    """Return the token of the segment that a row is of."""
    return sequence >> _BITS


def within(sequence: int) -> int:
    """Return the number of a row within its segment: what it is where there are no others."""
    return sequence - first_of(token_of(sequence))


def is_first(sequence: int) -> bool:
    """Whether a row is the first of a leader's segment, which has no edits."""
    return sequence > 0 and sequence == first_of(token_of(sequence))


def encode_first(end: int) -> bytes:
    """Return the first row of a segment that follows on one with that end."""
    body = _END.pack(end)
    return _START.pack(_VERSION, crc32(body)) + body


def decode_first(sequence: int, row: bytes) -> int:
    """Return the end of the segment before. Raises `StoreCorrupt`."""
    body = row[_START.size :]
    if row[: _START.size] != _START.pack(_VERSION, crc32(body)) or len(body) != _END.size:
        raise StoreCorrupt(
            table="transaction", sequence=sequence, reason="it is not the start of a segment"
        )
    return int(_END.unpack(body)[0])


def check_token(token: int, last: int) -> None:
    """Raise `StoreUnavailable` where a later leader has begun a segment."""
    if 0 < token < last:
        raise StoreUnavailable(
            reason="a later leader has used this store: was the metadata store replaced?",
            token=token,
            later_token=last,
        )


def pieces(table: "StoreTransactionTable", first: int) -> list[tuple[int, int | None]]:
    """Return what counts of the log from the row `first` on, in order: numbers from, and before.

    The last piece has no end: all that is there counts. Raises `StoreCorrupt`.
    """
    begun = dict(_begun(table, token_of(first)))
    found: list[tuple[int, int | None]] = []
    token, end = max(begun, default=token_of(first)), None
    while token > token_of(first):
        found.append((first_of(token), end))
        end = begun.get(token)
        if end is None:
            raise StoreCorrupt(table="transaction", sequence=first_of(token), reason="missing")
        token = token_of(end)
    if token < token_of(first):
        raise StoreCorrupt(table="transaction", snapshot=first, reason="its segment does not count")
    return [(first, end), *reversed(found)]


def _begun(table: "StoreTransactionTable", token: int) -> Iterator[tuple[int, int]]:
    """Give the segments behind that of `token` that were begun, with the ends that they say."""
    while True:
        found = next(table.rows(first_of(token + 1)), None)
        if found is None:
            return
        sequence, row = found
        token = token_of(sequence)
        if is_first(sequence):
            yield token, decode_first(sequence, row)
