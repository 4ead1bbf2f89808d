"""Leaders in quick succession: what they publish, and what readers get.

`leaders_machine` adds transactions and positions.
"""

import asyncio
from collections.abc import Awaitable, Coroutine
from contextlib import suppress
from typing import Any

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, precondition, rule

from tests.simulation.gateway import Call, Mode, Rows, simulate
from tests.simulation.leaders import (
    End,
    Leader,
    PositionModel,
    Work,
    changes_a_topic,
    is_refused_by_seals,
)
from tests.simulation.oracle import Log, Oracle
from tests.store_calls import PausingCalls
from tests.virtual_loop import VirtualLoop
from tms.core.errors import (
    OutcomeUnknown,
    SubscriptionNotFound,
    Unavailable,
)
from tms.core.services.transactions import TransactionStatus
from tms.core.values.frame import bodies_of, encode_body
from tms.core.values.message import position_of
from tms.core.values.reading import Reading, isolation_of
from tms.core.values.subscriptions import SubscriptionPosition
from tms.core.values.topic import TopicId
from tms.server.node import OpenServices

START_MS = 1_800_000_000_000
TOPICS = [TopicId("default", name) for name in ("a", "b")]
TOPIC = st.sampled_from(TOPICS)
FATES = st.tuples(
    st.sampled_from([*[Mode.ANSWERED] * 4, Mode.REPEATED, Mode.HELD, Mode.STANDS_STILL]),
    st.integers(0, 4),
)
"""The fate of a call, and how many precede it. A held call stops all until another leads."""
HELD = st.tuples(st.just(Mode.HELD), st.integers(0, 2))
_LATEST = 8
"""About this number of the latest calls in flight belong to the current work."""
NAME = "s"


def with_keys(payloads: list[bytes]) -> list[bytes]:
    """Return message bodies, every second one with a key."""
    keys = (b"k" if payload[-1] % 2 else None for payload in payloads)
    return bodies_of([encode_body(*each) for each in zip(payloads, keys, strict=True)])


async def _done(work: Awaitable[Any]) -> Any:
    return await work


class LeadersWorld(RuleBasedStateMachine):
    """Leaders and their late calls; the acknowledged messages, and those that readers got."""

    def __init__(self) -> None:
        super().__init__()
        self.loop = VirtualLoop()
        self.patch = pytest.MonkeyPatch()
        self.calls = PausingCalls(lambda: self.leader.gateway.mode is Mode.STANDS_STILL)
        simulate(self.patch, self.loop, self.calls.call)
        self.rows = Rows()
        self.now_ms = START_MS
        self.late: list[Call] = []
        self.leaders: list[Leader] = []
        self.oracle = Oracle(TOPICS)
        self.acknowledged, self.works = self.oracle.acknowledged, self.oracle.works
        self.committed = self.oracle.committed
        self.whole: list[bytes] = []
        """The publications to all topics at once, acknowledged or not."""
        self.positions = {topic: PositionModel() for topic in TOPICS}
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

    @property
    def is_cut(self) -> bool:
        """Whether the leader can no longer do anything."""
        return self.leader.gateway.is_cut

    def await_(self, work: Coroutine[Any, Any, Any]) -> Any:
        return self.loop.run_until_complete(work)

    def tried(self, work: Coroutine[Any, Any, Any], fate: tuple[Mode, int]) -> tuple[bool, Any]:
        """Run `work`, giving one call that fate; return whether it was done, and its result."""
        gateway = self.leader.gateway
        stands_still = fate[0] is Mode.STANDS_STILL
        if stands_still and any(p.is_open_under(self.leader) for p in self.positions.values()):
            stands_still, fate = False, (Mode.ANSWERED, 0)
        gateway.mode, gateway.skip = fate
        try:
            return True, self.stood_still(work) if stands_still else self.await_(work)
        except (Unavailable, OutcomeUnknown):
            return False, None
        finally:
            gateway.mode = Mode.ANSWERED

    def stood_still(self, work: Coroutine[Any, Any, Any]) -> Any:
        """Return the result of `work` while the machine and its clock pause within it.

        In the meantime another server leads, and reads. Then the earlier leader continues as if
        nothing had happened, until its metadata store notifies it.
        """
        before, standing = self.leader, asyncio.Event()
        before.gateway.pause = self.calls.pause
        self.calls.on_pause = standing.set

        async def begun() -> asyncio.Task[Any]:
            doing = asyncio.ensure_future(work)
            waiting = asyncio.ensure_future(standing.wait())
            await asyncio.wait({doing, waiting}, return_when=asyncio.FIRST_COMPLETED)
            waiting.cancel()
            return doing

        doing = self.await_(begun())
        if not standing.is_set():
            return self.await_(_done(doing))
        try:
            self.leaders.append(Leader(self.rows, before, self.now_ms))
            self.open_leader()
            for topic in TOPICS[
                : self.count % 3
            ]:  # a topic not read here is sealed at its first use
                self.glance(topic)
        finally:
            self.calls.resume()
            self.await_(asyncio.wait({doing}))
        self.go_on_beside(before)
        self.end_leader(before)
        for each in self.works.values():
            self.find_out(each)
        return self.await_(_done(doing))

    def glance(self, topic: TopicId) -> None:
        """Read a topic whose latest requests are not decided yet."""
        polled = (self.await_(self._poll(topic, committed=each)) for each in (False, True))
        self.oracle.show(topic, *polled)
        with suppress(SubscriptionNotFound):
            self.await_(self.services.subscriptions.subscription(topic, NAME))

    def go_on_beside(self, before: Leader) -> None:
        """Let a leader continue while another leads: nothing acknowledged is lost."""
        for topic in TOPICS:
            payloads = self.payloads(1)
            with suppress(Unavailable, OutcomeUnknown):
                self.await_(before.services.messaging.publish(topic, with_keys(payloads)))
                self.acknowledged[topic] += payloads

    @rule(
        skew_ms=st.sampled_from([0, 0, 5, -700, 2_000, -100_000]),
        used=st.sets(TOPIC),
        writes=st.booleans(),
    )
    def take_over(self, skew_ms: int, used: set[TopicId], *, writes: bool) -> None:
        before = self.leaders[-1] if self.leaders else None
        if before is not None:
            self.end_leader(before)
        self.leaders.append(Leader(self.rows, before, self.now_ms + skew_ms))
        self.open_leader()
        for work in self.works.values():
            self.find_out(work)
        for topic in TOPICS:
            if self.positions[topic].mover is not None:
                self.position(topic)  # before that transaction continues
        for topic in sorted(used):
            if writes:
                self.publish(topic, 1, (Mode.ANSWERED, 0))
            self.look(topic)

    def end_leader(self, leader: Leader) -> None:
        """Make a leader lead no more."""
        self.await_(leader.end())
        self.late += leader.gateway.late

    def open_leader(self) -> None:
        """Make the last leader lead."""
        self.await_(self.leader.open())

    def find_out(self, work: Work) -> None:
        """Find out the outcome of a transaction."""
        transactions = self.services.transactions
        if work.end not in (End.UNKNOWN, End.UNDOING):
            return
        status = self.await_(transactions.info(work.transaction_id)).status
        if work.end is End.UNKNOWN and status is TransactionStatus.IN_PROGRESS:
            work.end = End.OPEN
        elif status is TransactionStatus.IN_PROGRESS:
            self.await_(transactions.invalidate(work.transaction_id))
            work.end = End.UNDONE
        else:
            is_committed = status is TransactionStatus.COMMITTED
            assert not (is_committed and work.end is End.UNDOING)
            work.end = End.COMMITTED if is_committed else End.UNDONE

    @rule(by_ms=st.sampled_from([0, 1, 300, 1_500, -300]))
    def pass_time(self, by_ms: int) -> None:
        self.now_ms += abs(by_ms)
        self.leader.clock.advance(by_ms)
        self.renew()

    def renew(self) -> None:
        """Renew the lease, with a ceiling by the trusted time, as members do."""
        lease, clock = self.leader.lease, self.services.engine.clock
        lease.renewed(0.0, lease.ceiling_ms(clock.now_ms()))

    @rule(by_s=st.sampled_from([61, 3_000, 691_200]), sign=st.sampled_from([1, -1]))
    def the_clock_of_one_steps(self, by_s: int, sign: int) -> None:
        """Step the leader's clock; the ceiling, and so later leaders' keys, follow true time."""
        clock, before_ms = self.services.engine.clock, self.leader.lease.keys_until_ms
        before_now_ms = clock.now_ms()
        self.leader.clock.step(sign * by_s * 1_000)
        self.renew()
        least_ms = max(before_ms, before_now_ms, self.leader.lease.requested_ms)
        assert self.leader.lease.keys_until_ms <= least_ms + 60_000

    def payloads(self, number: int, work: int = 0) -> list[bytes]:
        self.count += number
        return [b"%d.%d" % (work, n) for n in range(self.count - number, self.count)]

    @precondition(lambda self: not self.is_cut)
    @rule(topic=TOPIC, number=st.integers(1, 3), fate=FATES)
    def publish(self, topic: TopicId, number: int, fate: tuple[Mode, int]) -> None:
        payloads = self.payloads(number)
        if self.tried(self.services.messaging.publish(topic, with_keys(payloads)), fate)[0]:
            self.acknowledged[topic] += payloads

    @precondition(lambda self: not self.is_cut)
    @rule(fate=FATES)
    def publish_to_all(self, fate: tuple[Mode, int]) -> None:
        payloads = self.payloads(1)
        self.whole += payloads
        work = self.services.messaging.publish_all(dict.fromkeys(TOPICS, with_keys(payloads)))
        if self.tried(work, fate)[0]:
            for topic in TOPICS:
                self.acknowledged[topic] += payloads

    @precondition(lambda self: not self.is_cut)
    @rule(topic=TOPIC, ttl_s=st.integers(1_000_000, 1_000_003), fate=FATES)
    def change(self, topic: TopicId, ttl_s: int, fate: tuple[Mode, int]) -> None:
        work = self.services.messaging.update_topic(topic, {"ttl": ttl_s})
        if fate == (Mode.HELD, 0) and ttl_s % 2:
            work.close()
            work = self.services.messaging.delete_topic(topic)
        if self.tried(work, fate)[0]:
            self.ttl_s[topic] = ttl_s

    @precondition(lambda self: self.late)
    @rule(data=st.data(), looks=st.sets(TOPIC))
    def come_late(self, data: st.DataObject, looks: set[TopicId]) -> None:
        """Let a call of an earlier leader arrive, whole or in part, between two reads."""
        call = data.draw(st.sampled_from(self.late[-_LATEST:]) | st.sampled_from(self.late))
        for topic in sorted(looks):
            self.publish(topic, 1, (Mode.ANSWERED, 0))
            self.look(topic)
        self.arrive(call, data.draw(st.sampled_from([None, 1, 2])))
        self.look_at_all()

    def arrive(self, call: Call, rows: int | None = None) -> None:
        """Let a call of an earlier leader arrive, or its first rows."""
        if is_refused_by_seals(call, self.rows, self.leader.lease.token):
            assert not self.rows.carry_out(call)
        elif not changes_a_topic(call):  # an unanswered call may do so: nothing is recorded
            self.rows.carry_out(call, rows)

    def look_at_all(self) -> None:
        """Read all topics, and compare them."""
        can_be_read = [self.look(topic) for topic in TOPICS]
        if all(can_be_read):
            self.check_whole()

    def position(self, topic: TopicId) -> SubscriptionPosition | None:
        """Return where a topic's position is."""
        found: SubscriptionPosition | None = None
        with suppress(SubscriptionNotFound):
            found = self.await_(self.services.subscriptions.subscription(topic, NAME))
        self.positions[topic].see(found, self.leader)
        return found

    async def _poll(self, topic: TopicId, *, committed: bool) -> Log:
        reading = Reading(
            position_of(None), limit=1_000_000, view=isolation_of(committed=committed)
        )
        polled = self.services.messaging.poll(topic, reading)
        return [(message.id, message.payload) async for block in polled for message in block]

    @rule(topic=TOPIC)
    def read(self, topic: TopicId) -> None:
        self.look(topic)

    def look(self, topic: TopicId) -> bool:
        """Compare the messages that readers of a topic get; return whether it can be read now."""
        try:
            all_of_it = self.await_(self._poll(topic, committed=False))
            committed = self.await_(self._poll(topic, committed=True))
            self.position(topic)
        except Unavailable:
            return False  # the outcome of an unanswered call must be known first
        self.oracle.see(topic, all_of_it, committed)
        if topic in self.ttl_s:
            assert self.await_(self.services.messaging.topic(topic)).ttl_s == self.ttl_s[topic]
        return True

    def check_whole(self) -> None:
        """Check the publications to all topics at once, just after all topics were read."""
        for payload in () if self.oracle.is_stopped else self.whole:
            count = sum(payload in [p for _, p in self.oracle.committed[each]] for each in TOPICS)
            assert count in (0, len(TOPICS))

    def teardown(self) -> None:
        try:
            if self.leaders and not self.is_cut:
                self.look_at_all()
        finally:
            self.close()

    def close(self) -> None:
        """End the last leader, whatever state it is in."""
        try:
            if self.leaders and self.leader.is_open:
                self.await_(self.leader.end())
        finally:
            self.loop.close()
            self.patch.undo()
