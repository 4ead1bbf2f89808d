"""What the service holds in memory of a topic that is in use, and the directory of all of them.

A state belongs to one generation. It is loaded when the topic is first used: its metadata, and the
greatest key of its tables, from which new keys go on. At most `topics_in_memory_max` states are
kept; the one unused for longest goes first. A state that is in use stays, so that a topic never has
two sequences at once.

A write that failed may have been done, which the store settles before it takes the next one. Until
then states stay as they are, for readers; then all are loaded anew, and what still waits to be
written to an old one fails.

Used from the event loop's thread alone.
"""

import asyncio
from collections import OrderedDict
from itertools import islice

from cachetools import LRUCache

from tms.core.errors import StoreUnavailable, TopicNotFound
from tms.core.tables import Batch, Tables
from tms.core.topic import Topic, TopicId
from tms.messaging.cache import CacheBudget, TopicCache
from tms.messaging.lanes import Lanes
from tms.messaging.sequence import KeySequence
from tms.messaging.stored_sizes import StoredSizes

_PAYLOAD_SEQUENCES_MAX = 50_000
"""Far more than can be queued, so that no sequence goes while its keys are being written."""


class TopicState:
    """One generation of a topic that exists."""

    def __init__(
        self, topic: Topic, prefix: bytes, last_key: bytes | None, budget: CacheBudget
    ) -> None:
        self.topic = topic
        self.prefix = prefix
        self.sequence = KeySequence(last_key)
        self.end = self.sequence.next_floor()
        """The key above all durable entries: what comes has this or a greater one."""
        self.cache = TopicCache(budget, self.end)
        self.in_use = 0
        """Requests between being accepted and being written: while there are any, it stays."""
        self.changes = 0
        """Goes up whenever a reader that found nothing should look again."""
        self.gone = False
        """Whether the topic was deleted after this state was loaded."""
        self.stale = False
        """Whether what it says may no longer hold: see `TopicStates.settle`."""
        self._waiters: set[asyncio.Future[None]] = set()

    def check_current(self) -> None:
        """Raise `TopicNotFound` if the topic is gone, `StoreUnavailable` if that is not known."""
        if self.gone:
            raise TopicNotFound(topic=str(self.topic.id))
        if self.stale:
            raise StoreUnavailable(reason="the topic was loaded anew meanwhile; try again")

    def changed(self) -> None:
        """Wake the readers that wait for something new."""
        self.changes += 1
        for waiter in self._waiters:
            if not waiter.done():
                waiter.set_result(None)
        self._waiters.clear()

    async def wait_for_change(self, seen: int, timeout_s: float) -> None:
        """Return when `changes` is no longer `seen`, or after `timeout_s` seconds."""
        if self.changes != seen:
            return
        waiter = asyncio.get_running_loop().create_future()
        self._waiters.add(waiter)
        try:
            async with asyncio.timeout(timeout_s):
                await waiter
        except TimeoutError:
            return
        finally:
            self._waiters.discard(waiter)

    def retire(self, *, deleted: bool) -> None:
        """Take no more part: the topic was deleted, or the state makes room for others."""
        self.gone = self.gone or deleted
        self.cache.retire()
        self.changed()


class TopicStates:
    """The states of the topics in use. Takes part in each flush (`group_commit.Participant`)."""

    def __init__(self, tables: Tables, lanes: Lanes, budget: CacheBudget, count_max: int) -> None:
        self._tables = tables
        self._lanes = lanes
        self._budget = budget
        self._count_max = count_max
        self._states: OrderedDict[TopicId, TopicState] = OrderedDict()
        self._loading: dict[TopicId, asyncio.Task[TopicState]] = {}
        self._replacements = 0
        self._is_unsettled = False
        self._touched: set[TopicState] = set()
        self._payload_sequences: LRUCache[tuple[bytes, int], KeySequence] = LRUCache(
            _PAYLOAD_SEQUENCES_MAX
        )
        self.stored = StoredSizes()

    def __len__(self) -> int:
        return len(self._states)

    def loaded(self, topic_id: TopicId) -> TopicState | None:
        """Return the state of a topic if it is in memory."""
        if self._is_unsettled:
            self.settle()
        state = self._states.get(topic_id)
        if state is not None:
            self._states.move_to_end(topic_id)
        return state

    async def get(self, topic_id: TopicId) -> TopicState:
        """Return the state of a topic, loading it where need be. Raises `TopicNotFound`."""
        while (state := self.loaded(topic_id)) is None:
            loading = self._loading.get(topic_id)
            if loading is None:
                loading = asyncio.create_task(self._load(topic_id))
                self._loading[topic_id] = loading
                loading.add_done_callback(lambda _: self._loading.pop(topic_id, None))
            # Shielded: a caller that is cancelled must not take it from those who wait with it.
            state = await asyncio.shield(loading)
            # It may have made room for others before its turn came here.
            if not state.stale:
                break
        return state

    async def _load(self, topic_id: TopicId) -> TopicState:
        def read() -> tuple[Topic, bytes | None]:
            topic = self._tables.metadata.get(topic_id)
            if topic is None or not topic.exists:
                raise TopicNotFound(topic=str(topic_id))
            return topic, self._tables.messages.last_key(topic_id, topic.generation)

        while True:
            replacements = self._replacements
            topic, last_key = await self._lanes.read(read)
            # What was read before a topic was replaced may be older than that: read it again.
            if replacements == self._replacements:
                break
        prefix = self._tables.prefix(topic_id, topic.generation)
        state = TopicState(topic, prefix, last_key, self._budget)
        self._states[topic_id] = state
        self._make_room()
        return state

    def _make_room(self) -> None:
        surplus = len(self._states) - self._count_max
        if surplus <= 0:
            return
        idle = (topic_id for topic_id, state in self._states.items() if not state.in_use)
        for topic_id in list(islice(idle, surplus)):
            evicted = self._states.pop(topic_id)
            evicted.stale = True
            evicted.retire(deleted=False)

    async def payload_sequence(self, state: TopicState, write_pointer: int) -> KeySequence:
        """Return the sequence of what is stored in a topic under `write_pointer`."""
        name = (state.prefix, write_pointer)
        sequence = self._payload_sequences.get(name)
        if sequence is None:
            last_key = await self._lanes.read(
                self._tables.payloads.last_key, state.prefix, write_pointer
            )
            # Another request may have loaded it meanwhile, and used it.
            sequence = self._payload_sequences.setdefault(name, KeySequence(last_key))
        return sequence

    def replaced(self, topic: Topic) -> None:
        """Take over a topic's new properties, its deletion or its creation."""
        self._replacements += 1
        state = self._states.get(topic.id)
        if state is None:
            return
        if topic.generation == state.topic.generation:
            state.topic = topic
        else:
            del self._states[topic.id]
            state.retire(deleted=True)

    def in_memory(self) -> list[TopicState]:
        """Return the states of the topics in memory, in the order of their names."""
        return [self._states[topic_id] for topic_id in sorted(self._states, key=str)]

    def touch(self, state: TopicState) -> None:
        """Have the readers of a topic woken once the flush has taken effect."""
        self._touched.add(state)

    def complete(self, batch: Batch) -> None:
        """Add nothing to a flush: its requests have all rows of topics."""

    def applied(self) -> None:
        """Wake the readers of what a flush has changed."""
        for state in self._touched:
            state.changed()
        self._touched.clear()

    def unsettle(self) -> None:
        """Take note that a write failed, which may have been done."""
        self._touched.clear()
        self._is_unsettled = True

    def settle(self) -> None:
        """Once the store takes writes again after one failed, load all states anew."""
        if not self._is_unsettled:
            return
        try:
            self._tables.check_writable()
        except StoreUnavailable:
            return
        self._is_unsettled = False
        self._replacements += 1
        for state in self._states.values():
            state.stale = True
            state.retire(deleted=False)
        self._states.clear()
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
