"""Ranges of topics (`ranges.Ranges`), computed from keys: messages are not read for them.

Why nothing is ever added below an end:
1. Keys ascend, so new entries are above all durable ones (`TopicState.end`).
2. Below the first entry of any transaction in progress, every entry is decided.
3. Messages can be added to a reference as long as its transaction accepts writes. So a reader of
   all messages is held back at such a reference too.

If transactions are managed elsewhere, the third is not known: there a reference counts as soon as
it is published. Used from the event loop's thread alone.
"""

from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from typing import NamedTuple

from tms.core.errors import TopicNotFound, TransactionsElsewhere
from tms.core.runtime.loop_turns import LoopTurns
from tms.core.services.messaging import Page
from tms.core.values.message import (
    ID_BYTES,
    KEY_BYTES,
    LAST_ID,
    NO_PAYLOAD_KEY,
    MessageBlock,
    first_id_at,
    id_after,
)
from tms.core.values.ranges import (
    Reach,
    Split,
    TopicRange,
    TopicRanges,
    check_count,
    check_range,
    check_topics_count,
)
from tms.core.values.reading import Isolation, Reading
from tms.core.values.topic import TopicId
from tms.messaging.loaded_topics import TopicState
from tms.messaging.ranges.entries_before_restart import PAGES_AT_ONCE, EntriesBeforeRestart
from tms.messaging.ranges.splits import PARTS_MAX, Splitting
from tms.messaging.store_runtime import StoreRuntime
from tms.messaging.unfinished_publications import Generation
from tms.transactions.journal import TransactionJournal

_LOOKED_UP_AT_ONCE = 256
"""First keys looked up in the table at a time, so that other calls get their turn in between."""
_PAGE_MESSAGES = 10_000

ReadPage = Callable[..., Awaitable[Page]]
"""`MessagingService.page`."""


class RangeService:
    """The ranges of one store's topics."""

    def __init__(
        self, engine: StoreRuntime, transactions: TransactionJournal | None, page: ReadPage
    ) -> None:
        """Read with `page`; write pointers are those of `transactions`, or another manager's."""
        self._tables = engine.tables
        self._threads = engine.threads
        self._clock = engine.clock
        self._states = engine.states
        self._publications = engine.publications
        self._transactions = transactions
        self._page = page
        self._before_restart = EntriesBeforeRestart(engine.tables, engine.threads)

    async def ranges(
        self, topic_ids: Collection[TopicId], isolation: Isolation = Isolation.COMMITTED
    ) -> TopicRanges:
        """Return the range of each topic, None for one that does not exist."""
        if isolation is Isolation.COMMITTED and self._transactions is None:
            raise TransactionsElsewhere
        check_topics_count(len(topic_ids))
        states = {topic_id: await self._state(topic_id) for topic_id in topic_ids}
        existing = {topic_id: state for topic_id, state in states.items() if state is not None}
        # Read before the transactions in progress: those that start later publish above them.
        ends = {topic_id: state.end for topic_id, state in existing.items()}
        await self._hold_back(ends, existing, isolation)
        now_ms = self._clock.now_ms()
        expiry_ms = self._clock.expiry_ms()
        starts = await self._first_keys(existing, expiry_ms)
        ranges = {
            topic_id: None
            if state is None
            else TopicRange(
                min(starts[topic_id] or LAST_ID[:KEY_BYTES], ends[topic_id]) + NO_PAYLOAD_KEY,
                ends[topic_id] + NO_PAYLOAD_KEY,
                state.topic.generation,
            )
            for topic_id, state in states.items()
        }
        expired = {
            topic_id: first_id_at(state.topic.first_live_ms(expiry_ms))
            for topic_id, state in existing.items()
        }
        return TopicRanges(ranges, now_ms, expired)

    async def _state(self, topic_id: TopicId) -> TopicState | None:
        try:
            return self._states.loaded(topic_id) or await self._states.get(topic_id)
        except TopicNotFound:
            return None

    async def _hold_back(
        self, ends: dict[TopicId, bytes], states: Mapping[TopicId, TopicState], isolation: Isolation
    ) -> None:
        """Lower the ends to the first entries that are not decided."""
        if self._transactions is None:
            return
        of_all = isolation is Isolation.ALL
        knows_publications_after = self._transactions.knows_publications_after
        in_progress = self._transactions.latest().in_progress
        from_before = frozenset(
            pointer for pointer in in_progress if pointer <= knows_publications_after
        )
        if from_before:
            pages = PAGES_AT_ONCE
            from_ms = self._transactions.searched_from_ms(from_before)
            for topic_id, state in states.items():
                held, read = await self._before_restart.first(
                    state, from_before, from_ms, references=of_all, pages=pages
                )
                pages -= read
                ends[topic_id] = min(ends[topic_id], held or ends[topic_id])
            in_progress = self._transactions.latest().in_progress
        else:
            self._before_restart.forget()
        noted = self._publications
        first = noted.first_references(in_progress) if of_all else noted.first_keys(in_progress)
        for topic_id, state in states.items():
            key = first.get(Generation.of(state.topic))
            if key is not None:
                ends[topic_id] = min(ends[topic_id], key)

    async def _first_keys(
        self, states: Mapping[TopicId, TopicState], expiry_ms: int
    ) -> dict[TopicId, bytes | None]:
        """Return the key of each topic's first entry that has not expired, None without one."""
        first: dict[TopicId, bytes | None] = {}
        in_table: list[tuple[TopicId, bytes, bytes]] = []
        for topic_id, state in states.items():
            key = first_id_at(state.topic.first_live_ms(expiry_ms))[:KEY_BYTES]
            if key >= state.cached_from(self._clock):
                entries, start, stop, _ = state.cache.slice(key, limit=1, bytes_max=1)
                first[topic_id] = entries.key(start) if start < stop else None
            else:
                in_table.append((topic_id, state.prefix, key))
        for at in range(0, len(in_table), _LOOKED_UP_AT_ONCE):
            part = in_table[at : at + _LOOKED_UP_AT_ONCE]
            keys = await self._threads.read(self._look_up, part)
            first.update(zip((topic_id for topic_id, _, _ in part), keys, strict=True))
        return first

    def _look_up(self, places: Sequence[tuple[TopicId, bytes, bytes]]) -> list[bytes | None]:
        return [self._tables.messages.first_key(prefix, key) for _, prefix, key in places]

    async def splits(
        self, topic_id: TopicId, start: bytes, end: bytes, parts: int
    ) -> Sequence[Split]:
        """Return at most `parts` ranges of about equal size that make up start <= id < end."""
        check_range(start, end)
        check_count("parts", parts)
        state = await self._states.get(topic_id)
        if parts == 1 or start == end:
            return [Split(start, end, 0)]
        splitting = Splitting(self._tables, state.prefix, start, end, min(parts, PARTS_MAX))
        cache = state.cache
        try:
            pieces = await self._threads.read(splitting.pieces, cache.floor, cache.pieces())
            stored = self._states.stored
            noted = {
                pointer: stored.runs(state.prefix, pointer)
                for piece in pieces or ()
                if (pointer := piece.write_pointer) is not None
            }
            return await self._threads.read(splitting.splits, pieces, noted)
        finally:
            splitting.stopped.set()

    async def reach(
        self,
        topic_id: TopicId,
        start: bytes,
        end: bytes,
        *,
        messages: int | None = None,
        payload_bytes: int | None = None,
        isolation: Isolation = Isolation.COMMITTED,
    ) -> Reach:
        """Return the furthest end, at most `end`, within that number of messages and bytes."""
        check_range(start, end)
        check_count("messages", messages)
        check_count("bytes", payload_bytes)
        log = (await self.ranges((topic_id,), isolation)).topics[topic_id]
        if log is None:
            raise TopicNotFound(topic=str(topic_id))
        end = max(start, min(end, log.end))
        position, turns = start, LoopTurns()
        count = size = 0
        while position < end and (messages is None or count < messages):
            limit = _PAGE_MESSAGES if messages is None else min(_PAGE_MESSAGES, messages - count)
            page = await self._page(topic_id, Reading(position, limit, isolation, end))
            await turns.give()
            for block in page.blocks:
                bytes_left = None if payload_bytes is None else payload_bytes - size
                fitting = _fitting(block, bytes_left, at_least_one=count == 0)
                count += fitting.messages
                size += fitting.size
                if fitting.last_id is not None:
                    position = id_after(fitting.last_id)
                if fitting.messages < block.count:
                    return Reach(position, count, size)
            position = end if page.next_position is None else page.next_position
        return Reach(position, count, size)


class _Fitting(NamedTuple):
    """The first messages of a block, as many as fit."""

    messages: int
    size: int
    last_id: bytes | None


def _fitting(block: MessageBlock, bytes_max: int | None, *, at_least_one: bool) -> _Fitting:
    count = size = item_start = 0
    last_start = None
    for start, end in zip(*block.payload_spans(), strict=True):
        size += end - start
        if bytes_max is not None and size > bytes_max and (count or not at_least_one):
            size -= end - start
            break
        count += 1
        last_start, item_start = item_start, end
    last_id = (
        None if last_start is None else block.items[last_start + 1 : last_start + 1 + ID_BYTES]
    )
    return _Fitting(count, size, last_id)
