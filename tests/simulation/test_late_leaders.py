"""Leaders that follow one another, each of whose last call may come at any later moment, or never.

Readers of all of them are given one log: it only ever grows at its end, ids ascend, and all that
was acknowledged is there. Clocks differ, and go back.
"""

import asyncio
from collections.abc import Coroutine
from typing import Any

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, precondition, rule
from prometheus_client import CollectorRegistry

from tables.memory import MemoryBatch, MemoryStore
from tables.sealing.seal import seal_of
from tables.sealing.store import SealedStore, SealedTables
from tables.store import METADATA
from tms.cluster.lease import Lease, ceiling_ms
from tms.core.clock import ManualClock
from tms.core.errors import OutcomeUnknown, StoreUnavailable, Unavailable
from tms.core.limits import Limits
from tms.core.message import position_of
from tms.core.reading import Reading, isolation_of
from tms.core.tables import Batch
from tms.core.topic import TopicId
from tms.core.transactions import StartRequest
from tms.node import OpenServices, services_on

START_MS = 1_800_000_000_000
LEASE_S = 1.0
TOPICS = [TopicId("default", name) for name in ("a", "b")]
TOPIC = st.sampled_from(TOPICS)
HOLDS = st.sampled_from([False, False, False, True])
"""Seldom: nothing more can be done before another leads."""


class Steady:
    """The time that a lease is measured by, which does not matter here."""

    def now_s(self) -> float:
        return 0.0


class OneOfMany(MemoryStore):
    """A leader's way to the rows that all share. One call may be held on the way, and is the last.

    It comes as a whole or its beginning; what is to be whole was written down before, or not sent.
    """

    def __init__(self, shared: MemoryStore, lease: Lease) -> None:
        super().__init__()
        self._tables = shared._tables
        self._lease = lease
        self.holds = False
        self.held: list[tuple[Any, ...]] = []

    def _check(self) -> None:
        if self._lease.left_s == 0 or self.held:
            raise StoreUnavailable(reason="the lease is over, or an earlier call has no answer")

    def check_writable(self) -> None:
        super().check_writable()
        if self.held:
            raise StoreUnavailable(reason="an earlier call has no answer")

    def batch(self, *, durable: bool = True) -> "WholeBatch":
        return WholeBatch(is_durable=durable)

    def write(self, batch: Batch) -> None:
        assert isinstance(batch, WholeBatch)
        self._check()
        if self.holds:
            self.held.append((batch,))
            raise OutcomeUnknown(reason="no answer")
        super().write(batch)

    def compare_and_put(
        self, table: str, key: bytes, expected: bytes | None, value: bytes | None
    ) -> bool:
        self._check()
        if self.holds:
            self.held.append((table, key, expected, value))
            raise OutcomeUnknown(reason="no answer")
        return super().compare_and_put(table, key, expected, value)


class WholeBatch(MemoryBatch):
    """One that knows whether it is to be kept whole."""

    def __init__(self, *, is_durable: bool) -> None:
        super().__init__()
        self.is_durable = is_durable
        self.is_whole = False

    def require_atomic(self) -> None:
        self.is_whole = True


class Leader:
    """The services of one leadership."""

    def __init__(self, world: "LeadersMachine", before: "Leader | None", skew_ms: int) -> None:
        self.clock = ManualClock(max(1, world.now_ms + skew_ms))
        last: Lease | None = None if before is None else before.lease
        after_ms = 0 if last is None else last.keys_until_ms
        until_ms = ceiling_ms(max(self.clock.now_ms(), after_ms + 1), LEASE_S)
        token = 1 if last is None else last.token + 1
        self.lease: Lease = Lease(
            token, LEASE_S, Steady(), 0.0, keys_after_ms=after_ms, keys_until_ms=until_ms
        )
        self.store = OneOfMany(world.rows, self.lease)

    async def open(self) -> None:
        tables = SealedTables(SealedStore(self.store, self.lease))
        self.services: OpenServices = await services_on(
            tables, Limits(), self.clock, CollectorRegistry(), lease=self.lease
        )


class LeadersMachine(RuleBasedStateMachine):
    """Leaders and their late calls; what was acknowledged, and what readers were shown."""

    def __init__(self) -> None:
        super().__init__()
        self.loop = asyncio.new_event_loop()
        self.rows = MemoryStore()
        self.now_ms = START_MS
        self.late: list[tuple[Any, ...]] = []
        self.leaders: list[Leader] = []
        self.acknowledged: dict[TopicId, list[bytes]] = {topic: [] for topic in TOPICS}
        self.shown: dict[TopicId, list[tuple[bytes, bytes]]] = {topic: [] for topic in TOPICS}
        self.committed: dict[TopicId, list[tuple[bytes, bytes]]] = {topic: [] for topic in TOPICS}
        self.ttl_s: dict[TopicId, int] = {}
        self.count = 0

    @initialize()
    def begin(self) -> None:
        self.take_over(0, set(), writes=False)
        for topic in TOPICS:
            self.await_(self.services.messaging.create_topic(topic))

    @property
    def leader(self) -> Leader:
        return self.leaders[-1]

    @property
    def services(self) -> OpenServices:
        return self.leader.services

    def await_(self, work: Coroutine[Any, Any, Any]) -> Any:
        return self.loop.run_until_complete(work)

    def tried(self, work: Coroutine[Any, Any, Any], *, holds: bool) -> bool:
        """Do something, the first call of which is held; return whether it was acknowledged."""
        self.leader.store.holds = holds
        try:
            self.await_(work)
        except (Unavailable, OutcomeUnknown):
            return False
        finally:
            self.leader.store.holds = False
        return True

    @rule(
        skew_ms=st.sampled_from([0, 0, 5, -700, 2_000, -100_000]),
        used=st.sets(TOPIC),
        writes=st.booleans(),
    )
    def take_over(self, skew_ms: int, used: set[TopicId], *, writes: bool) -> None:
        before = self.leaders[-1] if self.leaders else None
        if before is not None:
            before.lease.end()
            self.late += before.store.held
        self.leaders.append(Leader(self, before, skew_ms))
        self.await_(self.leader.open())
        for topic in sorted(used):
            if writes:
                self.publish(topic, 1, holds=False)
            self.read(topic)

    @rule(by_ms=st.sampled_from([0, 1, 300, 1_500, -300]))
    def pass_time(self, by_ms: int) -> None:
        self.now_ms += abs(by_ms)
        leader = self.leader
        leader.clock.advance(by_ms)
        leader.lease.renewed(0.0, leader.lease.ceiling_ms(leader.clock.now_ms()))

    def payloads(self, number: int) -> list[bytes]:
        self.count += number
        return [b"%d" % n for n in range(self.count - number, self.count)]

    @precondition(lambda self: not self.leader.store.held)
    @rule(topic=TOPIC, number=st.integers(1, 3), holds=HOLDS)
    def publish(self, topic: TopicId, number: int, *, holds: bool) -> None:
        payloads = self.payloads(number)
        if self.tried(self.services.messaging.publish(topic, payloads), holds=holds):
            self.acknowledged[topic] += payloads

    @precondition(lambda self: not self.leader.store.held)
    @rule(holds=HOLDS, commits=st.booleans())
    def publish_in_a_transaction(self, *, holds: bool, commits: bool) -> None:
        payloads = self.payloads(2)

        async def run() -> None:
            started = await self.services.transactions.start(StartRequest())
            pointer = started.write_pointer
            for topic in TOPICS:
                await self.services.messaging.publish(topic, payloads, pointer)
            self.leader.store.holds = holds
            if commits:
                await self.services.transactions.commit(started.transaction_id)
            else:
                await self.services.transactions.abort(started.transaction_id)

        if self.tried(run(), holds=False):
            for topic in TOPICS:
                self.acknowledged[topic] += payloads

    @precondition(lambda self: not self.leader.store.held)
    @rule(holds=HOLDS)
    def publish_to_all(self, *, holds: bool) -> None:
        payloads = self.payloads(1)
        work = self.services.messaging.publish_all(dict.fromkeys(TOPICS, payloads))
        if self.tried(work, holds=holds):
            for topic in TOPICS:
                self.acknowledged[topic] += payloads

    @precondition(lambda self: not self.leader.store.held)
    @rule(topic=TOPIC, ttl_s=st.integers(1_000_000, 1_000_003), holds=HOLDS)
    def change(self, topic: TopicId, ttl_s: int, *, holds: bool) -> None:
        work = self.services.messaging.update_topic(topic, {"ttl": ttl_s})
        if holds and ttl_s % 2:
            work.close()
            work = self.services.messaging.delete_topic(topic)
        if self.tried(work, holds=holds):
            self.ttl_s[topic] = ttl_s

    @precondition(lambda self: self.late)
    @rule(data=st.data())
    def come_late(self, data: st.DataObject) -> None:
        """Let a call of a leader before arrive, or its beginning, between two looks."""
        call = data.draw(st.sampled_from(self.late))
        for topic in data.draw(st.sets(TOPIC)):
            self.publish(topic, 1, holds=False)
            self.read(topic)
        self.arrive(call, data)
        for topic in TOPICS:
            self.read(topic)

    def arrive(self, call: tuple[Any, ...], data: st.DataObject) -> None:
        if len(call) > 1:
            # Before the topic is sealed it is carried out, as one without an answer may be.
            if seal_of(self.rows.get(METADATA, call[1]) or b"").token == self.leader.lease.token:
                assert not self.rows.compare_and_put(*call)
            return
        [batch] = call
        if batch.is_whole:
            return
        part = MemoryBatch()
        count = data.draw(st.integers(1, len(batch.writes)))
        part.writes = batch.writes[:count]
        self.rows.write(part)

    async def _poll(self, topic: TopicId, *, committed: bool) -> list[tuple[bytes, bytes]]:
        polled = self.services.messaging.poll(
            topic,
            Reading(
                position_of(None),
                limit=1_000_000,
                view=isolation_of(committed=committed),
            ),
        )
        return [(message.id, message.payload) async for block in polled for message in block]

    @rule(topic=TOPIC)
    def read(self, topic: TopicId) -> None:
        try:
            all_of_it = self.await_(self._poll(topic, committed=False))
            committed = self.await_(self._poll(topic, committed=True))
        except Unavailable:
            return  # a call without an answer is to be settled first
        for before, now in ((self.shown, all_of_it), (self.committed, committed)):
            assert now[: len(before[topic])] == before[topic], "what was shown is not as it was"
            before[topic] = now
        ids = [each for each, _ in all_of_it]
        assert ids == sorted(set(ids))
        payloads = [payload for _, payload in all_of_it]
        assert [each for each in payloads if each in set(self.acknowledged[topic])] == (
            self.acknowledged[topic]
        )
        if topic in self.ttl_s:
            assert self.await_(self.services.messaging.topic(topic)).ttl_s == self.ttl_s[topic]

    def teardown(self) -> None:
        for topic in TOPICS:
            if self.leaders:
                self.read(topic)
        for leader in self.leaders:
            leader.lease.end()
            self.await_(leader.services.close())
        self.loop.close()


TestLeaders = LeadersMachine.TestCase
TestLeaders.settings = settings(max_examples=60, stateful_step_count=40, deadline=None)
