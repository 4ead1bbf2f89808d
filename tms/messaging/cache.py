"""The cache of recent messages: the newest entries of each topic, as the Message table has them.

Invariants, for each topic:
1. Every entry with a key >= `floor` that a reader may see is here, in order. So a poll from there
   on needs no table, even if there is nothing new.
2. Only durable entries are here: the writer adds them after the flush that wrote them.
3. A rollback inverts pointers here after it has inverted them in the table. In between, a reader of
   the cache stops where a reader of the table continues: the transaction has not ended.
4. Items are in the form of the wire (`tms.core.values.message`), so returning them is a slice. They
   are encoded when they are first read: once for all readers, many at a time, and never if nobody
   reads them before they are dropped.

All caches share one budget in bytes. If it is exceeded, the oldest block of all topics is dropped
first. The stored messages of references are cached separately (`tms.messaging.run_cache`), in up to
a quarter of the budget. Used only from the event loop's thread.
"""

from array import array
from bisect import bisect_left, bisect_right
from collections import OrderedDict
from collections.abc import Sequence
from itertools import accumulate
from typing import NamedTuple

from tms.core.values.entries import EMPTY, PLAIN, Entries
from tms.core.values.frame import framed_of
from tms.core.values.framed_items import framed_item
from tms.core.values.message import (
    ITEM_START,
    ITEM_TAILS,
    KEY_BYTES,
    LAST_ID,
    NO_PAYLOAD_KEY,
    item_tail,
    key_after,
)
from tms.messaging.run_cache import RunBudget, RunCache

BLOCK_BYTES = 128 * 1024
"""A block takes no more entries once it has this many bytes of items."""
_RUNS_SHARE = 4
"""Stored runs have at most this fraction (1/n) of the budget."""
_BLOCK_OVERHEAD_BYTES = 1024
_ENTRY_OVERHEAD_BYTES = 4
_POINTER_BYTES = 8
_ITEM_OVERHEAD_BYTES = len(ITEM_START) + len(ITEM_TAILS[0]) + KEY_BYTES
_WAITING_OVERHEAD_BYTES = 100
"""The weight of an unencoded entry in addition to its payload: Python's objects and its key."""


class Slice(NamedTuple):
    """Entries from index `start` to before `stop`, and the key to continue from."""

    entries: Entries
    start: int
    stop: int
    next_key: bytes | None
    """None at the topic's end."""


class Piece(NamedTuple):
    """A run of entries that begins at `key`, or the one reference there."""

    key: bytes
    size_bytes: int
    """Approximate; without the stored messages of a reference."""
    write_pointer: int | None = None
    """The write pointer of the reference; None if the entry is not a reference."""


class _Block:
    """A run of entries that grows at its end."""

    def __init__(self) -> None:
        self.items = bytearray()
        self.offsets = array("I", [0])
        self.pointers: array[int] | None = None
        self.references: set[int] = set()
        self.framed: list[int] = []
        self.bounds: tuple[int, int] | None = None
        """The bounds of the write pointers, as `Entries` has them."""
        self._keys: list[bytes] = []
        self._bodies: list[bytes] = []
        self._waiting_bytes = 0
        """The bytes of the last bodies, those not encoded yet."""

    @property
    def count(self) -> int:
        return len(self.offsets) - 1 + len(self._keys)

    @property
    def size_bytes(self) -> int:
        """The approximate bytes of its items, encoded or not."""
        return len(self.items) + self._waiting_bytes + _ITEM_OVERHEAD_BYTES * len(self._keys)

    @property
    def weight(self) -> int:
        pointer_bytes = _POINTER_BYTES * self.count if self.pointers is not None else 0
        pointer_bytes += _POINTER_BYTES * len(self.framed)
        return (
            len(self.items)
            + _ENTRY_OVERHEAD_BYTES * (len(self.offsets) - 1)
            + self._waiting_bytes
            + _WAITING_OVERHEAD_BYTES * len(self._keys)
            + pointer_bytes
            + _BLOCK_OVERHEAD_BYTES
        )

    def entries(self) -> Entries:
        """Return the entries; all must be encoded."""
        assert not self._keys
        return Entries(
            self.count,
            self.items,
            self.offsets,
            self.pointers,
            self.references,
            self.framed,
            self.bounds,
        )

    def last_key(self) -> bytes:
        return self._keys[-1] if self._keys else self.entries().key(self.count - 1)

    def first_at(self, key: bytes) -> int:
        """Return the index of the first entry with a key >= `key`, or the count."""
        items, offsets = self.items, self.offsets

        def key_of(index: int) -> bytearray:
            start = offsets[index] + len(ITEM_START)
            return items[start : start + KEY_BYTES]

        return bisect_left(range(self.count), bytearray(key), key=key_of)

    def append(
        self,
        keys: Sequence[bytes],
        bodies: Sequence[bytes],
        bodies_bytes: int,
        write_pointer: int | None,
    ) -> int:
        """Add entries; return the growth of the block in bytes."""
        count = len(keys)
        weight = bodies_bytes + _WAITING_OVERHEAD_BYTES * count
        framed = framed_of(bodies)
        if framed:
            before = self.count
            self.framed += [before + index for index in framed]
            weight += _POINTER_BYTES * len(framed)
        if write_pointer is not None and self.pointers is None:
            self.pointers = array("q", bytes(_POINTER_BYTES * self.count))
            weight += _POINTER_BYTES * self.count
        if self.pointers is not None:
            self.pointers.extend([write_pointer or PLAIN] * count)
            weight += _POINTER_BYTES * count
        if write_pointer is not None:
            least, greatest = self.bounds or (write_pointer, write_pointer)
            self.bounds = (min(least, write_pointer), max(greatest, write_pointer))
        self._keys += keys
        self._bodies += bodies
        self._waiting_bytes += bodies_bytes
        return weight

    def encode(self) -> None:
        """Encode the entries that are not encoded yet."""
        tails, tails_count = ITEM_TAILS, len(ITEM_TAILS)
        items = [
            ITEM_START
            + key
            + (tails[size] if (size := len(body)) < tails_count else item_tail(size))
            + body
            for key, body in zip(self._keys, self._bodies, strict=True)
        ]
        first = self.count - len(items)
        for index in self.framed[bisect_left(self.framed, first) :]:
            at = index - first
            items[at] = ITEM_START + self._keys[at] + NO_PAYLOAD_KEY + framed_item(self._bodies[at])
        base = self.offsets[-1]
        self.offsets.extend(accumulate(map(len, items[1:]), initial=base + len(items[0])))
        self.items += b"".join(items)
        self._keys, self._bodies, self._waiting_bytes = [], [], 0

    @property
    def is_encoded(self) -> bool:
        return not self._keys


class CacheBudget:
    """The bytes that all topics' caches may take together."""

    def __init__(self, bytes_max: int) -> None:
        self._bytes_max = bytes_max
        self._bytes = 0
        self._blocks: OrderedDict[_Block, TopicCache] = OrderedDict()
        """The blocks of all topics, the oldest first."""
        self.runs = RunBudget(bytes_max // _RUNS_SHARE, self.changed)

    @property
    def used_bytes(self) -> int:
        """The bytes that the caches take now."""
        return self._bytes

    def opened(self, cache: "TopicCache", block: _Block) -> None:
        """Count a new block, the youngest."""
        self._blocks[block] = cache
        self._bytes += block.weight

    def changed(self, by_bytes: int) -> None:
        """Count the bytes that a block gained or lost, and drop the oldest blocks if necessary."""
        self._bytes += by_bytes
        while self._bytes > self._bytes_max and self._blocks:
            next(iter(self._blocks.values())).drop_oldest()

    def dropped(self, block: _Block) -> None:
        """Stop counting a block."""
        self._bytes -= block.weight
        del self._blocks[block]


class TopicCache:
    """The newest entries of one topic's generation."""

    def __init__(self, budget: CacheBudget, floor: bytes) -> None:
        """Start without entries; `floor` is above every key in the table."""
        self._budget = budget
        self.runs = RunCache(budget.runs)
        self._floor = floor
        self._blocks: list[_Block] = []
        self._first_keys: list[bytes] = []

    @property
    def floor(self) -> bytes:
        """The key from which on the cache is complete."""
        return self._floor

    def append(
        self,
        keys: Sequence[bytes],
        bodies: Sequence[bytes],
        bodies_bytes: int,
        write_pointer: int | None,
    ) -> None:
        """Add entries whose keys are above all others here; `bodies_bytes` is their total."""
        block = self._open_block(keys[0])
        self._budget.changed(block.append(keys, bodies, bodies_bytes, write_pointer))

    def append_reference(self, key: bytes, write_pointer: int) -> None:
        """Add a reference whose key is above all others here."""
        block = self._open_block(key)
        block.references.add(block.count)
        self._budget.changed(block.append((key,), (b"",), 0, write_pointer))

    def _open_block(self, first_key: bytes) -> _Block:
        """Return the newest block, or a new one if that is full."""
        if not self._blocks or self._blocks[-1].size_bytes >= BLOCK_BYTES:
            self._blocks.append(_Block())
            self._first_keys.append(first_key)
            self._budget.opened(self, self._blocks[-1])
        return self._blocks[-1]

    def _entries(self, block: _Block) -> Entries:
        """Return a block's entries, encoded."""
        if not block.is_encoded:
            before = block.weight
            block.encode()
            self._budget.changed(block.weight - before)
        return block.entries()

    def drop_oldest(self) -> None:
        """Forget the oldest block; the rest is complete from a higher floor."""
        block = self._blocks.pop(0)
        del self._first_keys[0]
        self._floor = key_after(block.last_key())
        self._budget.dropped(block)

    def forget_below(self, key: bytes) -> None:
        """Raise the floor to `key` at least; entries below it may be deleted from the table."""
        while self._blocks and self._first_keys[0] < key:
            self.drop_oldest()
        self._floor = max(self._floor, key)

    def restart(self, floor: bytes) -> None:
        """Forget everything; the cache is complete from `floor`, above every key in the table."""
        self.runs.clear()
        for block in self._blocks:
            self._budget.dropped(block)
        self._blocks.clear()
        self._first_keys.clear()
        self._floor = floor

    def retire(self) -> None:
        """Forget everything; the cache is never complete again."""
        self.runs.retire()
        self.restart(LAST_ID)

    def pieces(self) -> list[Piece]:
        """Return the entries in pieces of up to a block, each reference as its own, in order."""
        pieces: list[Piece] = []
        for block, first_key in zip(self._blocks, self._first_keys, strict=True):
            if not block.references:
                pieces.append(Piece(first_key, block.size_bytes))
                continue
            entries = self._entries(block)
            offsets, pointers = entries.offsets, entries.pointers
            assert offsets is not None
            assert pointers is not None
            start = 0
            for index in (*sorted(block.references), entries.count):
                if start < index:
                    size = offsets[index] - offsets[start]
                    pieces.append(Piece(entries.key(start), size))
                if index < entries.count:
                    pieces.append(Piece(entries.key(index), 0, abs(pointers[index])))
                start = index + 1
        return pieces

    def slice(
        self, key: bytes, *, limit: int, bytes_max: int, stop_key: bytes | None = None
    ) -> Slice:
        """Return entries from `key` (>= floor) on, within one block, at least one if there is one.

        At most `limit` entries, no more once they have `bytes_max` bytes, and none from `stop_key`
        on.
        """
        assert key >= self._floor
        index = max(0, bisect_right(self._first_keys, key) - 1)
        while index < len(self._blocks):
            entries = self._entries(self._blocks[index])
            # Continuing from the end of a block or a page is common: no search then.
            is_at_start = key <= self._first_keys[index]
            start = 0 if is_at_start else self._blocks[index].first_at(key)
            if start < entries.count:
                stop = self._stop(entries, start, limit, bytes_max)
                if stop_key is not None and entries.key(stop - 1) >= stop_key:
                    stop = max(start, self._blocks[index].first_at(stop_key))
                    return Slice(entries, start, stop, None)
                at_end = index == len(self._blocks) - 1 and stop == entries.count
                next_key = None if at_end else key_after(entries.key(stop - 1))
                return Slice(entries, start, stop, next_key)
            index += 1
        return Slice(EMPTY, 0, 0, None)

    @staticmethod
    def _stop(entries: Entries, start: int, limit: int, bytes_max: int) -> int:
        offsets = entries.offsets
        assert offsets is not None
        enough = bisect_left(offsets, offsets[start] + bytes_max, start + 1)
        return min(start + limit, enough, entries.count)

    def invert(self, first_key: bytes, last_key: bytes, write_pointer: int) -> None:
        """Invert the pointer of the entries in the range, ends inclusive, under `write_pointer`."""
        oldest = max(0, bisect_right(self._first_keys, first_key) - 1)
        newest = bisect_right(self._first_keys, last_key)
        for block in self._blocks[oldest:newest]:
            if block.pointers is None:
                continue
            entries = self._entries(block)
            start = block.first_at(first_key)
            for index in range(start, entries.count):
                if entries.key(index) > last_key:
                    break
                if block.pointers[index] == write_pointer:
                    block.pointers[index] = -write_pointer
                    least, greatest = block.bounds or (0, 0)
                    block.bounds = (min(least, -write_pointer), greatest)
