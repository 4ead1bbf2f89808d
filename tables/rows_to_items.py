"""Converts rows of the tables to the items of a block, bounded in count and bytes.

This is the inner loop of a poll that is served from disk.
"""

from collections.abc import Iterable, Iterator
from itertools import accumulate

from tables.keys import (
    FRAMED_KIND,
    POINTER_END,
    REFERENCE_KIND,
    TRANSACTIONAL_FRAMED_KIND,
    write_pointer_of,
)
from tables.store import Row
from tms.core.errors import StoreCorrupt
from tms.core.values.avro_lengths import avro_length
from tms.core.values.entries import PLAIN, Entries
from tms.core.values.framed_items import framed_item
from tms.core.values.message import (
    ITEM_START,
    ITEM_TAILS,
    KEY_BYTES,
    NO_PAYLOAD_KEY,
    MessageBlock,
    item_tail,
    key_after,
)

_PARTS = 4
"""An item's start, key, tail and body; for a framed one also the part between, and the message."""
_KEY = slice(-KEY_BYTES, None)
_BODY = slice(1, None)
"""Constants, because making a slice takes as long as slicing with it."""
_FRAMED = (FRAMED_KIND, TRANSACTIONAL_FRAMED_KIND)


def read_entries(
    rows: Iterable[Row], *, limit: int, bytes_max: int
) -> tuple[Entries, bytes | None]:
    """Return at most `limit` rows of the Message table as entries, and the key to continue from."""
    parts: list[bytes] = []
    pointers: dict[int, int] = {}
    references: set[int] = set()
    framed: list[int] = []
    bytes_left = bytes_max
    start, tails, tails_count = ITEM_START, ITEM_TAILS, len(ITEM_TAILS)
    for key, value in rows:
        if not value:
            raise StoreCorrupt(table="message", key=key.hex())
        kind = value[0]
        if not kind or kind == FRAMED_KIND:
            body = value[_BODY]
        else:
            index = len(parts) // _PARTS
            pointers[index] = write_pointer_of(value)
            if kind == REFERENCE_KIND:
                references.add(index)
            body = value[POINTER_END:]
        length = len(body)
        if kind in _FRAMED:
            framed.append(len(parts) // _PARTS)
            parts += start, key[_KEY], NO_PAYLOAD_KEY, framed_item(body)
        else:
            tail = tails[length] if length < tails_count else item_tail(length)
            parts += start, key[_KEY], tail, body
        bytes_left -= length
        if bytes_left <= 0:
            break
    else:
        if len(parts) < limit * _PARTS:
            return _entries_of(parts, pointers, references, framed), None
    return _entries_of(parts, pointers, references, framed), key_after(parts[-_PARTS + 1])


def _entries_of(
    parts: list[bytes], pointers: dict[int, int], references: set[int], framed: list[int]
) -> Entries:
    count = len(parts) // _PARTS
    items = b"".join(parts)
    if not pointers:
        return Entries(count, items, framed=framed)
    fixed = len(ITEM_START) + KEY_BYTES
    tails_and_bodies = zip(parts[2::_PARTS], parts[3::_PARTS], strict=True)
    ends = accumulate(fixed + len(tail) + len(body) for tail, body in tails_and_bodies)
    return Entries(
        count, items, [0, *ends], [pointers.get(i, PLAIN) for i in range(count)], references, framed
    )


def read_payloads(
    rows: Iterator[Row], message_key: bytes, run_bytes: int, *, limit: int, bytes_max: int
) -> tuple[MessageBlock, bytes | None]:
    """Return the first rows of the Payload table as messages, and the key of the next one.

    The rows are those of one run, whose payload prefix has `run_bytes`.
    """
    start = ITEM_START + message_key
    key_end = run_bytes + KEY_BYTES
    own_key = slice(run_bytes, key_end)
    parts: list[bytes] = []
    framed: list[int] = []
    count = size = 0
    for key, body in rows:
        if count == limit or size >= bytes_max:
            return MessageBlock(count, b"".join(parts), framed), key[own_key]
        if len(key) > key_end:
            framed.append(count)
            parts += (start, key[own_key], framed_item(body))
        else:
            parts += (start, key[own_key], avro_length(len(body)), body)
        count += 1
        size += len(body)
    return MessageBlock(count, b"".join(parts), framed), None
