"""Rows of the tables to the items of a block (`tms.core.message`), bounded in count and bytes.

This is the inner loop of a poll that is served from disk.
"""

from collections.abc import Iterable, Iterator
from itertools import accumulate

from tables.keys import POINTER_END, REFERENCE_KIND, write_pointer_of
from tables.store import Row
from tms.core.entries import PLAIN, Entries
from tms.core.errors import StoreCorrupt
from tms.core.message import (
    ITEM_START,
    ITEM_TAILS,
    KEY_BYTES,
    MessageBlock,
    avro_length,
    item_tail,
    key_after,
)

_PARTS = 4
"""An item's start, key, tail and payload."""
_KEY = slice(-KEY_BYTES, None)
_PAYLOAD = slice(1, None)
"""How a row's key and a plain value are cut: to make the slice takes as long as to cut by it."""


def read_entries(
    rows: Iterable[Row], *, limit: int, bytes_max: int
) -> tuple[Entries, bytes | None]:
    """Return rows of the Message table, at most `limit`, as entries, and the key to go on from."""
    parts: list[bytes] = []
    pointers: dict[int, int] = {}
    references: set[int] = set()
    left = bytes_max
    start, tails, tails_count = ITEM_START, ITEM_TAILS, len(ITEM_TAILS)
    for key, value in rows:
        if not value:
            raise StoreCorrupt(table="message", key=key.hex())
        if value[0]:
            index = len(parts) // _PARTS
            pointers[index] = write_pointer_of(value)
            if value[0] == REFERENCE_KIND:
                references.add(index)
            payload = value[POINTER_END:]
        else:
            payload = value[_PAYLOAD]
        length = len(payload)
        tail = tails[length] if length < tails_count else item_tail(length)
        parts += start, key[_KEY], tail, payload
        left -= length
        if left <= 0:
            break
    else:
        if len(parts) < limit * _PARTS:
            return _entries_of(parts, pointers, references), None
    return _entries_of(parts, pointers, references), key_after(parts[-_PARTS + 1])


def _entries_of(parts: list[bytes], pointers: dict[int, int], references: set[int]) -> Entries:
    count = len(parts) // _PARTS
    items = b"".join(parts)
    if not pointers:
        return Entries(count, items)
    fixed = len(ITEM_START) + KEY_BYTES
    tails_and_payloads = zip(parts[2::_PARTS], parts[3::_PARTS], strict=True)
    ends = accumulate(fixed + len(tail) + len(payload) for tail, payload in tails_and_payloads)
    return Entries(
        count, items, [0, *ends], [pointers.get(i, PLAIN) for i in range(count)], references
    )


def read_payloads(
    rows: Iterator[Row], message_key: bytes, *, limit: int, bytes_max: int
) -> tuple[MessageBlock, bytes | None]:
    """Return the first rows of the Payload table as messages, and the key of the first one left."""
    start = ITEM_START + message_key
    parts: list[bytes] = []
    count = size = 0
    for key, payload in rows:
        if count == limit or size >= bytes_max:
            return MessageBlock(count, b"".join(parts)), key[_KEY]
        parts += (start, key[_KEY], avro_length(len(payload)), payload)
        count += 1
        size += len(payload)
    return MessageBlock(count, b"".join(parts)), None
