"""A topic with a bound, and transactions that store, publish and continue during passes.

A twin without a bound has all messages. In the bounded topic no message of a transaction in
progress is missing, and of the committed messages, at least as many of the newest ones as requested
are there.
"""

import asyncio
from collections.abc import Callable
from contextlib import suppress
from typing import Any

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from tests.cleanup.twins import LIMITS, NOW_MS, Twin
from tests.manual_clock import ManualClock
from tms.core.errors import TmsError
from tms.core.limits import Limits
from tms.core.services.commits import CommitRequest, Stored
from tms.core.services.transactions import StartRequest
from tms.core.values.topic import TopicId

TOPIC = TopicId("ns", "bounded")
ELSEWHERE = TopicId("ns", "elsewhere")
BOUND = 5
COUNT = st.sampled_from([1, 1, 2, 7])
PICK = st.integers(0, 1_000)
TTL_S = 604_800


class Bounded(RuleBasedStateMachine):
    make: Callable[..., Twin] = Twin
    limits: Limits = LIMITS

    def __init__(self) -> None:
        super().__init__()
        self.loop = asyncio.new_event_loop()
        self.clock = ManualClock(NOW_MS)
        self.bounded, self.plain = (self.make(self.loop, self.clock, self.limits) for _ in range(2))
        self.number = 0
        """The number of the last payload."""
        self.open: dict[int, list[bytes]] = {}
        """By transaction, the messages that readers get once it is committed."""
        self.stored: dict[int, list[bytes]] = {}
        """The messages that are not published yet."""
        for topic_id, bound in ((TOPIC, BOUND), (ELSEWHERE, BOUND)):
            for twin, properties in (
                (self.bounded, {"ttl": TTL_S, "retention_messages": bound}),
                (self.plain, {"ttl": TTL_S}),
            ):
                twin.await_(twin.services.messaging.create_topic(topic_id, properties))

    def both(self, ask: Callable[[Twin], Any]) -> Any:
        """Send both the same request; both must answer the same."""
        answers = [twin.await_(ask(twin)) for twin in (self.bounded, self.plain)]
        assert answers[0] == answers[1]
        return answers[0]

    def payloads(self, count: int) -> list[bytes]:
        self.number += count
        return [b"%d" % (self.number - each) for each in range(count)]

    @rule(by_ms=st.sampled_from([1, 1, 700, -5, -2_000]))
    def move_the_clock(self, by_ms: int) -> None:
        self.clock.advance(by_ms)

    @rule(count=COUNT)
    def publish(self, count: int) -> None:
        given = self.payloads(count)
        self.clock.advance(1)
        self.both(lambda twin: twin.services.messaging.publish(TOPIC, given))

    @rule()
    def start(self) -> None:
        async def start(twin: Twin) -> int:
            return (await twin.transactions.start(StartRequest())).transaction_id

        pointer = self.both(start)
        self.open[pointer], self.stored[pointer] = [], []

    @precondition(lambda self: self.open)
    @rule(pick=PICK, count=COUNT, topic_id=st.sampled_from([TOPIC, TOPIC, ELSEWHERE]))
    def publish_in_one(self, pick: int, count: int, topic_id: TopicId) -> None:
        pointer, given = self.picked(pick), self.payloads(count)
        self.both(lambda twin: twin.services.messaging.publish(topic_id, given, pointer))
        if topic_id == TOPIC:
            self.open[pointer] += given

    def picked(self, pick: int) -> int:
        return list(self.open)[pick % len(self.open)]

    @precondition(lambda self: self.open)
    @rule(pick=PICK, count=COUNT)
    def store(self, pick: int, count: int) -> None:
        pointer, given = self.picked(pick), self.payloads(count)
        self.both(lambda twin: twin.services.messaging.store(TOPIC, given, pointer))
        self.stored[pointer] += given

    @rule(count=COUNT)
    def store_then_others_publish(self, count: int) -> None:
        self.start()
        self.store(len(self.open) - 1, count)
        for _ in range(BOUND + 1):
            self.publish(1)

    @precondition(lambda self: self.open)
    @rule(pick=PICK)
    def publish_what_is_stored(self, pick: int) -> None:
        pointer = self.picked(pick)
        if self.stored[pointer]:
            self.both(lambda twin: twin.services.messaging.publish(TOPIC, [], pointer))
            self.open[pointer] += self.stored.pop(pointer)
            self.stored[pointer] = []
            self.commit(pick, carries=False)  # a second reference would publish all of it again

    @precondition(lambda self: self.open)
    @rule(pick=PICK, carries=st.booleans())
    def commit(self, pick: int, *, carries: bool) -> None:
        pointer = self.picked(pick)
        written, stored = self.open.pop(pointer), self.stored.pop(pointer)
        publish = [Stored(TOPIC, pointer)] if carries and stored else []
        self.both(lambda twin: twin.transactions.commit(pointer, CommitRequest(publish=publish)))
        given = {payload for _, payload in self.read(self.bounded, committed=False)}
        assert given >= {*written, *(stored if publish else ())}

    @precondition(lambda self: self.open)
    @rule(pick=PICK)
    def invalidate(self, pick: int) -> None:
        pointer = self.picked(pick)
        self.both(lambda twin: twin.transactions.invalidate(pointer))
        del self.open[pointer], self.stored[pointer]

    @rule(steps=st.sampled_from([1, 2, 4, 9, 1_000_000, 1_000_000]))
    def clean(self, steps: int) -> None:
        self.bounded.go_on_cleaning(steps)

    @rule(crashes=st.booleans())
    def restart(self, *, crashes: bool) -> None:
        self.bounded.reopen(crashes=crashes)
        self.plain.reopen(crashes=crashes)

    def read(self, twin: Twin, *, committed: bool) -> list[tuple[bytes, bytes]]:
        return twin.await_(twin.polled(TOPIC, committed=committed))

    @invariant()
    def what_is_in_progress_is_there(self) -> None:
        given = {payload for _, payload in self.read(self.bounded, committed=False)}
        for written in self.open.values():
            assert given.issuperset(written)

    @invariant()
    def the_newest_are_there(self) -> None:
        whole = self.read(self.plain, committed=True)
        left = self.read(self.bounded, committed=True)
        assert set(left) <= set(whole)
        assert left[-BOUND:] == whole[-BOUND:]

    @precondition(lambda self: not self.open)
    @rule()
    def it_is_within_its_bound(self) -> None:
        # Messages of one millisecond are deleted together, so undo any step back of the clock.
        before = self.read(self.plain, committed=False)
        last_ms = int.from_bytes(before[-1][0][:8]) if before else 0
        self.clock.set(max(last_ms, self.clock.now_ms()))
        for _ in range(BOUND):
            self.publish(1)
        self.bounded.leave_pass()
        self.bounded.clean()
        self.bounded.clean()  # the first pass may only have inverted invalid entries
        assert len(self.read(self.bounded, committed=True)) == BOUND

    def teardown(self) -> None:
        for twin in (self.bounded, self.plain):
            with suppress(TmsError):
                twin.close()
        self.loop.close()
