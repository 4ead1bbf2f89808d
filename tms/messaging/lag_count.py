"""Counts the messages after a position, in the cache if it has them, else in the tables.

A message counts if a committed reader has yet to get it, or to wait for it; each message of a
stored batch counts. Messages that are rolled back, invalid or expired do not count, so the lag does
not grow in a topic in which nothing happens. Stored batches are read as polls read them, several
together, and are kept in memory if there is room.
"""

from collections import deque
from collections.abc import Iterable
from typing import TYPE_CHECKING, NamedTuple

from tms.core.values.message import KEY_BYTES, NO_PAYLOAD_KEY
from tms.core.values.stored_runs import Reference
from tms.core.values.transaction import Visibility
from tms.messaging.cache import Slice
from tms.messaging.loaded_topics import TopicState
from tms.messaging.store_threads import StoreThreads
from tms.messaging.stored_reader import StoredReader
from tms.messaging.visibility import View

if TYPE_CHECKING:
    from tables.store_tables import StoreTables

_ROWS_AT_ONCE = 1_000
_BYTES_AT_ONCE = 256 * 1024


class CountBounds(NamedTuple):
    """Where a count ends: the most messages, bytes and rows that it reads."""

    messages: int
    size: int
    rows: int


class LagCount:
    """One count, and its cost."""

    def __init__(
        self,
        tables: "StoreTables",
        threads: StoreThreads,
        topic_prefix: bytes,
        *,
        state: TopicState | None,
        view: View,
        oldest: bytes,
        cached_from: bytes,
        caches_runs: bool,
    ) -> None:
        """Count in a topic's generation; `state` is None if the topic is not in memory.

        Messages before `oldest` have expired. Before `cached_from` the tables are read.
        `caches_runs` says whether stored batches in memory may be used.
        """
        self._tables = tables
        self._threads = threads
        self._prefix = topic_prefix
        self._state = state
        self._view = view
        self._oldest_key = oldest[:KEY_BYTES]
        self._cached_from = cached_from
        self.messages = 0
        """The number of messages counted."""
        self.first_key: bytes | None = None
        """The key of the first entry that counts."""
        runs = state.cache.runs if state is not None and caches_runs else None
        self._stored = StoredReader(tables, threads, topic_prefix, runs, makes_room=False)
        self._rows = self._size = 0

    @property
    def rows(self) -> int:
        """The number of rows read from the tables; an empty read counts as one."""
        return self._rows + self._stored.rows

    async def count(self, position: bytes, bounds: CountBounds) -> bool:
        """Count from `position` on; return whether the end was reached before any bound."""
        at: bytes | None = position
        while at is not None:
            if self._is_ended(bounds):
                return False
            part = await self._slice(at[:KEY_BYTES], bounds)
            at = await self._count_slice(part, at, bounds)
        return True

    def _is_ended(self, bounds: CountBounds) -> bool:
        return (
            self.messages >= bounds.messages
            or self._size + self._stored.size >= bounds.size
            or self.rows >= bounds.rows
        )

    def _limit(self, bounds: CountBounds) -> int:
        """Return the most rows that the next read may return."""
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
        self._rows += max(1, entries.count)
        self._size += len(entries.items)
        return Slice(entries, 0, entries.count, next_key)

    async def _count_slice(self, part: Slice, at: bytes, bounds: CountBounds) -> bytes | None:
        """Count a slice's entries; return the position to continue from, None at the end."""
        entries, start, stop, next_key = part
        references = self._references(part)
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
                first = references.popleft()
                if key == at[:KEY_BYTES]:
                    first = first._replace(first_key=max(at[KEY_BYTES:], first.first_key))
                rest = await self._count_batch(first, references, bounds)
                if rest is not None:
                    return key + rest
        return None if next_key is None else next_key + NO_PAYLOAD_KEY

    def _references(self, part: Slice) -> deque[Reference]:
        """Return the references of a slice that count."""
        entries, start, stop, _ = part
        if entries.pointers is None or not entries.references:
            return deque()
        return deque(
            Reference(entries.key(index), entries.pointers[index], self._oldest_key)
            for index in range(start, stop)
            if index in entries.references and self._counts(entries.pointers[index])
        )

    def _counts(self, pointer: int) -> bool:
        return pointer >= 0 and self._view.decide(pointer) is not Visibility.SKIP

    async def _count_batch(
        self, first: Reference, following: Iterable[Reference], bounds: CountBounds
    ) -> bytes | None:
        """Count a reference's stored messages; if a bound ends it, return where to continue."""
        at: bytes | None = first.first_key
        while at is not None:
            if self._is_ended(bounds):
                return at
            block, at = await self._stored.read(
                first._replace(first_key=at),
                lambda: list(following),
                limit=self._limit(bounds),
                bytes_max=_BYTES_AT_ONCE,
            )
            self._add(block.count, first.message_key)
        return None

    def _add(self, count: int, key: bytes) -> None:
        """Count messages, the first of which are in the entry at `key`."""
        if count and self.first_key is None:
            self.first_key = key
        self.messages += count
