"""Reads a part of a topic for a poll: from the cache where it is complete, else from the table.

A part is bounded in messages and bytes, so the memory of a poll is bounded whatever it requests.
Entries older than the topic's time to live are not returned, even before they are pruned. A part
that is cut off says where to continue, even within a batch of the Payload table. The stored batches
that a part refers to are read together, and cached.
"""

import asyncio
from collections import deque
from itertools import islice
from typing import TYPE_CHECKING

from tms.core.limits import Limits
from tms.core.runtime.clock import Clock
from tms.core.services.messaging import Page
from tms.core.values.entries import EMPTY, Entries
from tms.core.values.message import (
    KEY_BYTES,
    NO_PAYLOAD_KEY,
    MessageBlock,
    first_id_at,
    key_after,
)
from tms.core.values.reading import Reading
from tms.core.values.stored_runs import Reference
from tms.core.values.transaction import Transaction
from tms.messaging.cache import Slice
from tms.messaging.loaded_topics import TopicState
from tms.messaging.metrics import MessagingMetrics
from tms.messaging.page_builder import READ_MAX, FilteredPageBuilder, PageBuilder
from tms.messaging.store_threads import StoreThreads
from tms.messaging.stored_reader import StoredReader
from tms.messaging.visibility import View, visible_in

if TYPE_CHECKING:
    from tables.store_tables import StoreTables


class Reader:
    """Reads pages."""

    def __init__(
        self,
        tables: "StoreTables",
        threads: StoreThreads,
        clock: Clock,
        limits: Limits,
        metrics: MessagingMetrics,
    ) -> None:
        self._tables = tables
        self._threads = threads
        self._clock = clock
        self._limits = limits
        self._metrics = metrics

    def page_in_memory(self, state: TopicState, reading: Reading) -> Page | None:
        """Return what `page` would without a snapshot, or None if the cache does not have it all.

        Only whole entries are returned: no part of a stored batch.
        """
        expiry_ms = self._clock.expiry_ms()
        oldest = first_id_at(state.topic.first_live_ms(expiry_ms))
        position = max(reading.position, oldest)
        next_key: bytes | None
        next_key, limit = position[:KEY_BYTES], reading.limit
        cache = state.cache
        if (
            limit is None
            or reading.end is not None
            or reading.filter is not None
            or next_key < cache.floor
            or (self._clock.deleted_ms > expiry_ms and next_key < state.cached_from(self._clock))
            or position[KEY_BYTES:] != NO_PAYLOAD_KEY
        ):
            return None
        blocks: list[MessageBlock] = []
        count, size, bytes_max = 0, 0, self._limits.poll_block_bytes
        while True:
            entries, start, stop, next_key = cache.slice(
                next_key, limit=limit - count, bytes_max=bytes_max - size
            )
            if entries.references:
                return None
            if start < stop:
                block = entries.block(start, stop)
                blocks.append(block)
                count += block.count
                size += len(block.items)
            if next_key is None or count >= limit or size >= bytes_max:
                break
        self._metrics.cache_hits += 1
        self._count(state, count, size)
        return Page(blocks, count, None if next_key is None else next_key + NO_PAYLOAD_KEY)

    async def page(
        self, state: TopicState, reading: Reading, snapshot: Transaction | None, expiry_ms: int
    ) -> Page:
        """Return the first part of `reading`, as `snapshot` sees it; None sees everything.

        Entries that have expired by `expiry_ms` are left out.
        """
        oldest = first_id_at(state.topic.first_live_ms(expiry_ms))
        limit = self._limits.poll_messages_default if reading.limit is None else reading.limit
        position = max(reading.position, oldest)
        is_all_shown = self._clock.deleted_ms <= expiry_ms
        runs = state.cache.runs if is_all_shown else None
        stored = StoredReader(self._tables, self._threads, state.prefix, runs)
        bytes_max, chosen = self._limits.poll_block_bytes, reading.filter
        if chosen is None:
            draft = PageBuilder(position, limit, bytes_max, stored, reading.end)
        else:
            await asyncio.sleep(0)  # a page in memory that nothing matches is read without a wait
            draft = FilteredPageBuilder(
                position,
                READ_MAX,
                bytes_max,
                stored,
                reading.end,
                filter=chosen,
                remaining=limit,
                read_to=reading.position,
                start=position,
            )
        if not is_all_shown:
            draft.cached_from = state.cached_from(self._clock)
        view = View(snapshot)
        while not draft.done and not draft.full:
            await self._add_slice(state, draft, view, oldest[:KEY_BYTES])
        self._count(state, draft.count, draft.size)
        return draft.page()

    def _count(self, state: TopicState, messages: int, size: int) -> None:
        """Count the messages returned."""
        metrics, traffic = self._metrics, state.traffic
        metrics.polled_messages += messages
        metrics.polled_bytes += size
        traffic.polled_messages += messages
        traffic.polled_bytes += size

    async def _add_slice(
        self, state: TopicState, draft: PageBuilder, view: View, oldest_key: bytes
    ) -> None:
        """Add the reader's part of the next run of entries, and move past the run."""
        entries, start, stop, next_key = await self._slice(state, draft)
        runs, stopped_at = visible_in(entries, start, stop, view)
        references: deque[int] = deque()
        if entries.references:
            references.extend(run[0] for run in runs if run[0] in entries.references)
        for run in runs:
            if draft.full:
                draft.position = entries.key(run[0]) + NO_PAYLOAD_KEY
                return
            if run[0] in entries.references:
                if await self._is_cut_in_batch(state, draft, entries, references, oldest_key):
                    return
                references.popleft()
                continue
            part = run[: draft.limit - draft.count]
            draft.add(entries.block(part.start, part.stop))
            if len(part) < len(run):
                draft.position = key_after(entries.key(part[-1])) + NO_PAYLOAD_KEY
                return
        if stopped_at is not None:
            assert entries.pointers is not None
            draft.stopped_at = self._metrics.last_stopped_at = entries.pointers[stopped_at]
            self._metrics.stopped_polls += 1
        if stopped_at is not None or next_key is None:
            draft.done = True
        else:
            draft.position = next_key + NO_PAYLOAD_KEY

    async def _slice(self, state: TopicState, draft: PageBuilder) -> Slice:
        """Return entries from the draft's position on, at least one if there is one."""
        key, limit = draft.position[:KEY_BYTES], draft.limit - draft.count
        inside_batch = draft.position[KEY_BYTES:] != NO_PAYLOAD_KEY
        bytes_max = draft.bytes_max - draft.size
        stop_key = draft.stop_key
        if stop_key is not None and key >= stop_key:
            return Slice(EMPTY, 0, 0, None)
        if key >= state.cache.floor and key >= draft.cached_from:
            self._metrics.cache_hits += 1
            cached = state.cache.slice(key, limit=limit, bytes_max=bytes_max, stop_key=stop_key)
        else:
            self._metrics.cache_misses += 1
            entries, next_key = await self._threads.read(
                self._tables.messages.read,
                state.prefix,
                key,
                limit=limit,
                bytes_max=bytes_max,
                stop_key=stop_key,
            )
            cached = Slice(entries, 0, entries.count, next_key)
        return _without_first(cached, key) if inside_batch else cached

    async def _is_cut_in_batch(
        self,
        state: TopicState,
        draft: PageBuilder,
        entries: Entries,
        references: deque[int],
        oldest_key: bytes,
    ) -> bool:
        """Add the first reference's stored messages; return whether the page ends among them.

        The other `references` are those that follow it.
        """
        assert entries.pointers is not None
        key = entries.key(references[0])
        is_resumed = key == draft.position[:KEY_BYTES]
        first_key = draft.position[KEY_BYTES:] if is_resumed else NO_PAYLOAD_KEY
        first_key = max(first_key, oldest_key)
        end_key = None if draft.end is None else draft.end[:KEY_BYTES]
        if draft.end is not None and key == end_key:
            block, next_key = await self._threads.read(
                self._tables.payloads.read,
                state.prefix,
                entries.pointers[references[0]],
                key,
                first_key,
                limit=draft.limit - draft.count,
                bytes_max=draft.bytes_max - draft.size,
                stop_key=draft.end[KEY_BYTES:],
            )
        else:
            first = Reference(key, entries.pointers[references[0]], first_key)

            def following() -> list[Reference]:
                assert entries.pointers is not None
                return [
                    Reference(entries.key(index), entries.pointers[index], oldest_key)
                    for index in islice(references, 1, None)
                    if entries.key(index) != end_key
                ]

            block, next_key = await draft.stored.read(
                first,
                following,
                limit=draft.limit - draft.count,
                bytes_max=draft.bytes_max - draft.size,
            )
        draft.add(block)
        if next_key is None:
            return False
        draft.position = key + next_key
        return True


def _without_first(part: Slice, key: bytes) -> Slice:
    """Return `found` without its first entry, if that is at `key` and not a reference."""
    entries, start, stop, next_key = part
    if start == stop or start in entries.references or entries.key(start) != key:
        return part
    if entries.offsets is not None:
        return Slice(entries, start + 1, stop, next_key)
    rest = MessageBlock.of(list(entries.block(0, entries.count))[1:])
    return Slice(Entries(rest.count, rest.items, framed=rest.framed), 0, rest.count, next_key)
