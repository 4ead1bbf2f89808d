"""The state of a topic in use in memory, and the directory of all of them.

A state belongs to one generation. It is loaded when the topic is first used: its metadata, and the
greatest key of its tables, after which new keys continue. At most `topics_in_memory_max` idle
states are kept; the one unused for longest is dropped first. States in use are never dropped,
however many there are, so that a topic never has two sequences at once, and nobody waits for room.
In use are the topics of requests under way, each of which names a bounded number of them, and of
waiting polls.

A write that failed may have been done. The store finds that out before it accepts the next one.
Until then readers use the states as they are; then all are loaded again, and requests that still
wait to be written to an old one fail.

Used from the event loop's thread alone.
"""

import asyncio
from collections import OrderedDict
from collections.abc import Callable, Collection
from typing import TYPE_CHECKING, Any

from cachetools import LRUCache

from tms.core.errors import StoreUnavailable, TopicMoved, TopicNotFound
from tms.core.limits import UINT16_COUNT
from tms.core.runtime.clock import Clock
from tms.core.runtime.shared_work import shared
from tms.core.services.group_commit import Participant
from tms.core.services.messaging import NO_ENTRIES, too_many_topics_at_once
from tms.core.values.message import KEY, KEY_BYTES, NO_PAYLOAD_KEY
from tms.core.values.table_rows import LastKeys
from tms.core.values.topic import TopicId, TopicMetadata
from tms.messaging.cache import CacheBudget, TopicCache
from tms.messaging.recent_store_sizes import StoredSizes
from tms.messaging.store_threads import StoreThreads
from tms.messaging.traffic import Traffic, TrafficByTopic

if TYPE_CHECKING:
    from tables.store_tables import StoreTables

_PAYLOAD_SEQUENCES_MAX = 50_000
"""Far more than can be queued, so that no sequence is dropped while its keys are being written."""

_SEQUENCE_IDS = tuple(number.to_bytes(2) for number in range(UINT16_COUNT))


class KeySequence:
    """Generates the keys of one topic's entries, or of one write pointer's payloads. Pure.

    A key is ten bytes of timestamp and sequence id, and keys always ascend. Within a millisecond
    the sequence id increases; after its 65,536 values, the next millisecond is borrowed. A clock
    that stops or goes back is not followed: the timestamp is the greater of the clock's and the
    last one used.
    """

    def __init__(self, last_key: bytes | None) -> None:
        """Continue after `last_key`, the greatest one in the table; None if there is none."""
        self._timestamp, self._next = -1, 0
        if last_key is not None:
            self._timestamp, last = KEY.unpack(last_key)
            self._next = last + 1

    @property
    def last_ms(self) -> int:
        """The time in the last key, in ms since 1970; negative if there is none."""
        return self._timestamp

    def next_floor(self) -> bytes:
        """Return a key above all earlier ones, and not above any later one."""
        if self._timestamp < 0:
            return KEY.pack(0, 0)
        if self._next == UINT16_COUNT:
            return KEY.pack(self._timestamp + 1, 0)
        return KEY.pack(self._timestamp, self._next)

    def take(self, count: int, now_ms: int) -> list[bytes]:
        """Return the next `count` keys, none before the time `now_ms`, none returned before."""
        if now_ms > self._timestamp:
            self._timestamp, self._next = now_ms, 0
        keys: list[bytes] = []
        while len(keys) < count:
            if self._next == UINT16_COUNT:
                self._timestamp, self._next = self._timestamp + 1, 0
            stop = min(self._next + count - len(keys), UINT16_COUNT)
            timestamp = self._timestamp.to_bytes(8)
            keys += [timestamp + number for number in _SEQUENCE_IDS[self._next : stop]]
            self._next = stop
        return keys


def _wake(waiter: asyncio.Future[None]) -> None:
    if not waiter.done():
        waiter.set_result(None)


class TopicState:
    """One generation of a topic that exists."""

    def __init__(
        self,
        topic: TopicMetadata,
        prefix: bytes,
        last: LastKeys,
        budget: CacheBudget,
        traffic: Traffic,
    ) -> None:
        self.topic = topic
        self.traffic = traffic
        """Counts the publishes and polls."""
        self.prefix = prefix
        self.sequence = KeySequence(last.greatest)
        self.last_key = last.own
        """The greatest key of the generation after the flush that is being assembled."""
        self.end = self.sequence.next_floor()
        """The key above all durable entries: new entries have this key or a greater one."""
        self.cache = TopicCache(budget, self.end)
        self.in_use = 0
        """How often it is held (`LoadedTopics.hold`); a held state stays in memory."""
        self.changes = 0
        """Increases whenever a reader that found nothing should look again."""
        self.gone = False
        """Whether the topic was deleted after this state was loaded."""
        self.stale = False
        """Whether it made room for others, or may be out of date (`before_flush`)."""
        self._waiters: set[asyncio.Future[None]] = set()
        self.on_retired: dict[Any, Callable[[Any], None]] = {}
        """For each thing that is kept only as long as the state, the call that forgets it."""

    def check_current(self) -> None:
        """Raise `TopicNotFound` if the topic is gone, `StoreUnavailable` if that is not known."""
        if self.gone:
            raise TopicNotFound(topic=str(self.topic.id))
        if self.stale:
            raise StoreUnavailable(reason="the topic was loaded again in the meantime; try again")

    def check_last(self, if_last: bytes) -> None:
        """Raise `TopicMoved` if there is an entry after the id `if_last`.

        With `NO_ENTRIES`: if there is any entry. A generation without entries always passes.
        """
        last = self.last_key
        if last is None and if_last == NO_ENTRIES:
            return
        if last is None or last > if_last[:KEY_BYTES]:
            raise TopicMoved(
                topic=str(self.topic.id),
                last_id=None if last is None else (last + NO_PAYLOAD_KEY).hex(),
            )

    def cached_from(self, clock: Clock) -> bytes:
        """Return the key from which on the cache has all that the table has.

        The time may go back after entries were deleted by it: the cache does not show those.
        """
        line: bytes = KEY.pack(self.topic.first_live_ms(clock.deleted_ms), 0)
        return max(self.cache.floor, line)

    def changed(self) -> None:
        """Wake the readers that wait for something new."""
        self.changes += 1
        for waiter in self._waiters:
            _wake(waiter)
        self._waiters.clear()

    def next_change(self) -> asyncio.Future[None]:
        """Return a future of the next change; `forget_waiter` drops it."""
        waiter = asyncio.get_running_loop().create_future()
        self._waiters.add(waiter)
        return waiter

    def forget_waiter(self, waiter: asyncio.Future[None]) -> None:
        """Drop a future that `next_change` returned."""
        self._waiters.discard(waiter)

    async def wait_for_change(self, seen: int, timeout_s: float) -> None:
        """Return when `changes` is no longer `seen`, or after `timeout_s` seconds.

        The caller holds the state: one that made room for others gets no changes.
        """
        if self.changes != seen:
            return
        waiter = self.next_change()
        timer = asyncio.get_running_loop().call_later(timeout_s, _wake, waiter)
        try:
            await waiter
        finally:
            timer.cancel()
            self.forget_waiter(waiter)

    def retire(self, *, deleted: bool) -> None:
        """End the state: the topic was deleted, or the state makes room for others."""
        self.gone = self.gone or deleted
        self.cache.retire()
        for kept, forget in tuple(self.on_retired.items()):
            forget(kept)
        self.on_retired.clear()
        self.changed()


class _Loading:
    """A load under way, and the number of callers that wait for it."""

    def __init__(self) -> None:
        self.callers = 0
        self.task: asyncio.Task[TopicState] | None = None
        self.state: TopicState | None = None
        """The loaded state, held once for each caller."""


class LoadedTopics(Participant):
    """The states of the topics in use. Takes part in each flush."""

    def __init__(
        self,
        tables: "StoreTables",
        threads: StoreThreads,
        budget: CacheBudget,
        traffic: TrafficByTopic,
        count_max: int,
    ) -> None:
        self._tables = tables
        self._traffic = traffic
        self._threads = threads
        self._budget = budget
        self._count_max = count_max
        self._states: dict[TopicId, TopicState] = {}
        self._idle: OrderedDict[TopicState, None] = OrderedDict()
        """The states that nobody holds; the one used last is the last."""
        self._loading: dict[TopicId, _Loading] = {}
        self.on_deleted: Callable[[TopicMetadata], object] | None = None
        """Is called after a topic was deleted."""
        self._replacements = 0
        self._must_reload = False
        self._touched: set[TopicState] = set()
        self._payload_sequences: LRUCache[tuple[bytes, int], KeySequence] = LRUCache(
            _PAYLOAD_SEQUENCES_MAX
        )
        self.stored = StoredSizes()

    def __len__(self) -> int:
        return len(self._states)

    def loaded(self, topic_id: TopicId) -> TopicState | None:
        """Return the state of a topic if it is in memory; it is current until the caller waits."""
        if self._must_reload:
            self.before_flush()
        state = self._states.get(topic_id)
        if state is not None and not state.in_use:
            self._idle.move_to_end(state)
        return state

    def peek(self, topic_id: TopicId) -> TopicState | None:
        """Return the state of a topic if it is in memory and current, without counting as a use."""
        return None if self._must_reload else self._states.get(topic_id)

    async def get(self, topic_id: TopicId) -> TopicState:
        """Return the state of a topic, loading it if necessary. Raises `TopicNotFound`.

        As with `loaded`, a caller that waits before using it for more than a read must have it
        `held`.
        """
        while (state := self.loaded(topic_id)) is None:
            loading = self._loading.get(topic_id)
            if loading is None:
                loading = self._loading[topic_id] = _Loading()
                loading.task = asyncio.create_task(self._load(topic_id, loading))
            assert loading.task is not None
            loading.callers += 1
            try:
                # Shielded: a cancelled caller must not cancel the load for the others.
                state = await shared(loading.task)
            finally:
                loading.callers -= 1
                if loading.state is not None:
                    self.release(loading.state)
            # The state may have become stale before this caller resumed.
            if not state.stale:
                break
        return state

    def held(self, topic_ids: Collection[TopicId]) -> "HeldTopics":
        """Hold the states of topics, in their order, so that none makes room for others.

        Raises `TopicNotFound`, and `TooLarge` (too_many_topics_at_once).
        """
        count = len(set(topic_ids))
        if count > self._count_max:
            raise too_many_topics_at_once(count, self._count_max)
        return HeldTopics(self, topic_ids)

    def hold(self, state: TopicState) -> None:
        """Keep a current state in memory until each hold is released."""
        state.in_use += 1
        self._idle.pop(state, None)

    def release(self, state: TopicState) -> None:
        """Release a hold on a state."""
        state.in_use -= 1
        if not state.in_use and not state.stale and not state.gone:
            self._idle[state] = None
            self._make_room()

    async def _load(self, topic_id: TopicId, loading: _Loading) -> TopicState:
        try:
            topic, last = await self._read(topic_id)
        finally:
            del self._loading[topic_id]
            loading.task = None  # its error keeps this frame, which must not keep the task
        prefix = self._tables.prefix(topic_id, topic.generation)
        state = loading.state = TopicState(
            topic, prefix, last, self._budget, self._traffic.of(topic_id)
        )
        self._states[topic_id] = state
        # Held until each caller has resumed, or other loads could drop it before that.
        state.in_use = loading.callers
        if not state.in_use:
            self._idle[state] = None
        self._make_room()
        return state

    async def _read(self, topic_id: TopicId) -> tuple[TopicMetadata, LastKeys]:
        def read() -> tuple[TopicMetadata, LastKeys] | None:
            topic = self._tables.metadata.get(topic_id)
            if topic is None or not topic.exists:
                return None
            return topic, self._tables.messages.last_keys(topic_id, topic.generation)

        while True:
            replacements = self._replacements
            loaded = await self._threads.read(read)
            # If a topic was replaced during the read, the result may be out of date: read again.
            # Later requests wait for this load too, perhaps since the topic was created.
            if replacements == self._replacements:
                break
        if loaded is None:
            raise TopicNotFound(topic=str(topic_id))
        return loaded

    def _make_room(self) -> None:
        # The one used last stays: it was just returned to a caller that does not hold it yet.
        while len(self._states) > self._count_max and len(self._idle) > 1:
            evicted, _ = self._idle.popitem(last=False)
            del self._states[evicted.topic.id]
            evicted.stale = True
            evicted.retire(deleted=False)

    async def payload_sequence(self, state: TopicState, write_pointer: int) -> KeySequence:
        """Return the key sequence of a topic's messages stored under `write_pointer`."""
        name = (state.prefix, write_pointer)
        sequence = self._payload_sequences.get(name)
        if sequence is None:
            last_key = await self._threads.read(
                self._tables.payloads.last_key, state.prefix, write_pointer
            )
            # Another request may have loaded it in the meantime, and used it.
            sequence = self._payload_sequences.setdefault(name, KeySequence(last_key))
        return sequence

    def replaced(self, topic: TopicMetadata) -> None:
        """Take over a topic's new properties, its deletion or its creation."""
        self._replacements += 1
        if not topic.exists:
            self._traffic.deleted(topic.id)
            if self.on_deleted is not None:
                self.on_deleted(topic)
        state = self._states.get(topic.id)
        if state is None:
            return
        if topic.generation == state.topic.generation:
            state.topic = topic
        else:
            del self._states[topic.id]
            self._idle.pop(state, None)
            state.retire(deleted=True)

    def in_memory(self) -> list[TopicState]:
        """Return the states of the topics in memory, in the order of their names."""
        return [self._states[topic_id] for topic_id in sorted(self._states, key=str)]

    def touch(self, state: TopicState) -> None:
        """Wake the readers of a topic once the flush has taken effect."""
        self._touched.add(state)

    def after_flush(self) -> None:
        """Wake the readers of the topics that a flush has changed."""
        for state in self._touched:
            state.changed()
        self._touched.clear()

    def flush_failed(self) -> None:
        """Record that a write failed, although it may have been done."""
        self._touched.clear()
        self._must_reload = True

    def before_flush(self) -> None:
        """Reload all states once the store accepts writes again after one failed."""
        if not self._must_reload:
            return
        try:
            self._tables.check_writable()
        except StoreUnavailable:
            return
        self._must_reload = False
        self._replacements += 1
        for state in self._states.values():
            state.stale = True
            state.retire(deleted=False)
        self._states.clear()
        self._idle.clear()
        self._payload_sequences.clear()

    def wake(self, topic_id: TopicId) -> None:
        """Wake the readers of a topic."""
        state = self._states.get(topic_id)
        if state is not None:
            state.changed()

    def wake_all(self) -> None:
        """Wake all readers that wait."""
        for state in self._states.values():
            state.changed()


class HeldTopics:
    """The states of topics, held within an `async with` block. A generator would cost more."""

    __slots__ = ("_states", "_topic_ids", "_topics")

    def __init__(self, topics: LoadedTopics, topic_ids: Collection[TopicId]) -> None:
        self._topics = topics
        self._topic_ids = topic_ids
        self._states: list[TopicState] = []

    async def __aenter__(self) -> list[TopicState]:
        """Load and hold them. Raises `TopicNotFound`."""
        topics, states = self._topics, self._states
        try:
            for topic_id in self._topic_ids:
                states.append(topics.loaded(topic_id) or await topics.get(topic_id))
                topics.hold(states[-1])
        except BaseException:
            self._release()
            raise
        return states

    async def __aexit__(self, *_: object) -> None:
        self._release()

    def _release(self) -> None:
        for state in self._states:
            self._topics.release(state)
