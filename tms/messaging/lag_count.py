"""Counts what is behind one position, in the cache if that has it, else in the tables.

A message counts if a committed reader has still to be given it, or to wait for it. So does each one
of a stored batch. Messages that are rolled back, invalid or expired do not count, so the lag does
not grow in a topic in which nothing happens.
"""

from typing import NamedTuple

from tms.core.message import KEY_BYTES, NO_PAYLOAD_KEY
from tms.core.tables import Tables
from tms.core.transaction import Visibility
from tms.messaging.cache import Slice
from tms.messaging.loaded_topics import TopicState
from tms.messaging.store_threads import StoreThreads
from tms.messaging.visibility import View

_ROWS_AT_ONCE = 1_000
_BYTES_AT_ONCE = 256 * 1024


class CountBounds(NamedTuple):
    """Where a count ends: after so many messages, bytes or rows that it has read."""

    messages: int
    size: int
    rows: int


class LagCount:
    """One count, and what it has cost."""

    def __init__(
        self,
        tables: Tables,
        threads: StoreThreads,
        topic_prefix: bytes,
        *,
        state: TopicState | None,
        view: View,
        oldest: bytes,
        cached_from: bytes,
    ) -> None:
        """Count in a topic's generation; `state` is there if the topic is in memory.

        Messages before `oldest` have expired. Before `cached_from` the tables are read.
        """
        self._tables = tables
        self._threads = threads
        self._prefix = topic_prefix
        self._state = state
        self._view = view
        self._oldest_key = oldest[:KEY_BYTES]
        self._cached_from = cached_from
        self.messages = 0
        """How many were found."""
        self.first_key: bytes | None = None
        """The key of the first entry that counts."""
        self.rows = 0
        """How many were read of the tables, an empty read as one."""
        self._size = 0

    async def count(self, position: bytes, bounds: CountBounds) -> bool:
        """Count from `position` on; return whether that went to the end, and no bound was met."""
        at: bytes | None = position
        while at is not None:
            if self._is_ended(bounds):
                return False
            found = await self._slice(at[:KEY_BYTES], bounds)
            at = await self._count_slice(found, at, bounds)
        return True

    def _is_ended(self, bounds: CountBounds) -> bool:
        return (
            self.messages >= bounds.messages
            or self._size >= bounds.size
            or self.rows >= bounds.rows
        )

    def _limit(self, bounds: CountBounds) -> int:
        """Return how many rows the next read may have."""
        return min(_ROWS_AT_ONCE, bounds.messages - self.messages, bounds.rows - self.rows)

    async def _slice(self, key: bytes, bounds: CountBounds) -> Slice:
        state = self._state
        from_key = self._cached_from
        if state is not None and not state.stale and key >= max(state.cache.floor, from_key):
            limit = min(_ROWS_AT_ONCE, bounds.messages - self.messages)
            return state.cache.slice(key, limit=limit, bytes_max=_BYTES_AT_ONCE)
        entries, next_key = await self._threads.read(
            self._tables.messages.read,
            self._prefix,
            key,
            limit=self._limit(bounds),
            bytes_max=_BYTES_AT_ONCE,
        )
        self._has_read(entries.count, len(entries.items))
        return Slice(entries, 0, entries.count, next_key)

    async def _count_slice(self, found: Slice, at: bytes, bounds: CountBounds) -> bytes | None:
        """Count entries of a slice; return the position to go on from, None at the topic's end."""
        entries, start, stop, next_key = found
        if entries.pointers is None:
            if start < stop:
                self._add(stop - start, entries.key(start))
        else:
            for index in range(start, stop):
                pointer = entries.pointers[index]
                if not self._counts(pointer):
                    continue
                key = entries.key(index)
                if index not in entries.references:
                    self._add(1, key)
                    continue
                inside = at[KEY_BYTES:] if key == at[:KEY_BYTES] else NO_PAYLOAD_KEY
                rest = await self._count_batch(pointer, key, inside, bounds)
                if rest is not None:
                    return key + rest
        return None if next_key is None else next_key + NO_PAYLOAD_KEY

    def _counts(self, pointer: int) -> bool:
        return pointer >= 0 and self._view.decide(pointer) is not Visibility.SKIP

    async def _count_batch(
        self, pointer: int, key: bytes, first_key: bytes, bounds: CountBounds
    ) -> bytes | None:
        """Count what the reference at `key` stands for; return where within to go on, if ended."""
        at: bytes | None = max(first_key, self._oldest_key)
        while at is not None:
            if self._is_ended(bounds):
                return at
            block, at = await self._threads.read(
                self._tables.payloads.read,
                self._prefix,
                pointer,
                key,
                at,
                limit=self._limit(bounds),
                bytes_max=_BYTES_AT_ONCE,
            )
            self._has_read(block.count, len(block.items))
            self._add(block.count, key)
        return None

    def _has_read(self, rows: int, size: int) -> None:
        self.rows += max(1, rows)
        self._size += size

    def _add(self, count: int, key: bytes) -> None:
        """Count messages, of which the first are in the entry at `key`."""
        if count and self.first_key is None:
            self.first_key = key
        self.messages += count
