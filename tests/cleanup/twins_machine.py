"""Two stores that are used alike, one of which is cleaned up: readers see no difference."""

import asyncio
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import Any

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from tests.cleanup.twins import NOW_MS, Twin
from tests.manual_clock import ManualClock
from tms.core.errors import TmsError
from tms.core.services.messaging import Published, RollbackRange
from tms.core.services.transactions import StartRequest
from tms.core.values.topic import TopicId
from tms.core.values.transaction import TransactionType

TOPICS = tuple(TopicId("ns", name) for name in ("a", "a-b"))
TOPIC = st.sampled_from(TOPICS)
TTLS_S = (5, 100, 604_800)
PAYLOADS = st.lists(st.binary(max_size=3), min_size=1, max_size=5)
PICK = st.integers(0, 1_000)
FORGOTTEN = ("transaction_unknown", "transaction_expired")


"""An invalid transaction that was removed from the list is unknown, or reported as expired."""


class Twins(RuleBasedStateMachine):
    make: type[Twin] = Twin

    def __init__(self) -> None:
        super().__init__()
        self.loop = asyncio.new_event_loop()
        self.clock = ManualClock(NOW_MS)
        self.ahead_ms = 0
        self.cleaned, self.plain = (self.make(self.loop, self.clock) for _ in range(2))
        self.topics: set[TopicId] = set()
        self.open: dict[int, list[tuple[TopicId, RollbackRange]]] = {}
        for topic_id in TOPICS:
            self.create(topic_id, 604_800)

    def both(self, ask: Callable[[Twin], Any]) -> Any:
        """Send both the same request; both must give the same answer or refusal."""
        answers = []
        for twin in (self.cleaned, self.plain):
            try:
                answers.append(twin.await_(ask(twin)))
            except TmsError as error:
                answers.append(error.problem.code)
        assert answers[0] in (answers[1], *FORGOTTEN), answers
        return answers[0]

    def create(self, topic_id: TopicId, ttl_s: int) -> None:
        self.both(lambda twin: twin.services.messaging.create_topic(topic_id, {"ttl": ttl_s}))
        self.topics.add(topic_id)

    @precondition(lambda self: self.clock.now_ms() % 4 == 0)
    @rule(topic_id=TOPIC, ttl_s=st.sampled_from(TTLS_S))
    def create_or_delete(self, topic_id: TopicId, ttl_s: int) -> None:
        if topic_id not in self.topics:
            self.create(topic_id, ttl_s)
        else:
            self.topics.remove(topic_id)
            self.both(lambda twin: twin.services.messaging.delete_topic(topic_id))

    @precondition(lambda self: self.clock.now_ms() % 4 == 1)
    @rule(topic_id=TOPIC, ttl_s=st.sampled_from(TTLS_S))
    def change_the_ttl(self, topic_id: TopicId, ttl_s: int) -> None:
        if topic_id in self.topics:
            properties = {"ttl": ttl_s}
            self.both(lambda twin: twin.services.messaging.update_topic(topic_id, properties))

    @rule(by_ms=st.sampled_from([1, 1, 700, 7_000, 31_000, 61_000, 200_000]))
    def time_passes(self, by_ms: int) -> None:
        self.clock.advance(by_ms)
        for twin in (self.cleaned, self.plain):
            twin.await_(twin.transactions._expire())

    @rule(topic_id=TOPIC, payloads=PAYLOADS)
    def publish(self, topic_id: TopicId, payloads: list[bytes]) -> None:
        self.both(lambda twin: twin.services.messaging.publish(topic_id, payloads))

    @rule(long=st.booleans())
    def start(self, *, long: bool) -> None:
        kind = TransactionType.LONG if long else TransactionType.SHORT

        async def start(twin: Twin) -> int:
            return (await twin.transactions.start(StartRequest(type=kind))).transaction_id

        self.open[self.both(start)] = []

    @precondition(lambda self: self.open)
    @rule(pick=PICK, topic_id=TOPIC, payloads=PAYLOADS, stored=st.booleans())
    def publish_in_one(
        self, pick: int, topic_id: TopicId, payloads: list[bytes], *, stored: bool
    ) -> None:
        pointer = self.picked(pick)
        if stored:
            self.both(lambda twin: twin.services.messaging.store(topic_id, payloads, pointer))
            payloads = []
        published = self.both(
            lambda twin: twin.services.messaging.publish(topic_id, payloads, pointer)
        )
        if isinstance(published, Published):
            assert published.rollback_range is not None
            self.open[pointer].append((topic_id, published.rollback_range))

    @rule(topic_id=TOPIC, payloads=PAYLOADS, reads_before=st.booleans())
    def publish_what_becomes_invalid(
        self, topic_id: TopicId, payloads: list[bytes], *, reads_before: bool
    ) -> None:
        self.start(long=False)
        pointer = list(self.open)[-1]
        self.both(lambda twin: twin.services.messaging.publish(topic_id, payloads, pointer))
        self.both(lambda twin: twin.services.messaging.publish(topic_id, payloads))
        if reads_before:
            self.start(long=False)
        self.both(lambda twin: twin.transactions.invalidate(pointer))
        del self.open[pointer]

    def picked(self, pick: int) -> int:
        return list(self.open)[pick % len(self.open)]

    @precondition(lambda self: self.open)
    @rule(pick=PICK, how=st.sampled_from(["commit", "abort", "invalidate", "invalidate"]))
    def end(self, pick: int, how: str) -> None:
        pointer = self.picked(pick)
        self.both(lambda twin: getattr(twin.transactions, how)(pointer))
        del self.open[pointer]

    @precondition(lambda self: self.open)
    @rule(pick=PICK, all_of_it=st.booleans())
    def roll_back(self, pick: int, *, all_of_it: bool) -> None:
        ranges = self.open[self.picked(pick)]
        for topic_id, published in ranges if all_of_it else ranges[-1:]:
            self.both(partial(Twin.rolled_back, topic_id=topic_id, published=published))

    @rule(steps=st.sampled_from([1, 2, 4, 1_000_000]))
    def clean(self, steps: int) -> None:
        self.cleaned.go_on_cleaning(steps)

    @rule(
        by_s=st.sampled_from([61, 300, 93_600, 34_560_000]),
        sign=st.sampled_from([1, -1]),
        steps=st.sampled_from([1, 4, 1_000_000]),
    )
    def clean_by_a_wrong_clock(self, by_s: int, sign: int, steps: int) -> None:
        """Clean up under a wrong clock: this deletes only messages that nobody gets any more."""
        self.clock.step(sign * by_s * 1_000)
        self.cleaned.go_on_cleaning(steps)
        self.clock.step(-sign * by_s * 1_000)

    @rule(by_s=st.sampled_from([61, 300, 93_600, 34_560_000]))
    def the_clock_steps_ahead(self, by_s: int) -> None:
        """Step both clocks ahead; neither server believes it, and nothing expires by it."""
        self.clock.step(by_s * 1_000)
        self.ahead_ms += by_s * 1_000

    @rule()
    def the_clock_is_right_again(self) -> None:
        self.clock.step(-self.ahead_ms)
        self.ahead_ms = 0

    @rule(crashes=st.booleans())
    def restart(self, *, crashes: bool) -> None:
        self.cleaned.reopen(crashes=crashes)
        self.plain.reopen(crashes=crashes)

    @invariant()
    def readers_see_the_same(self) -> None:
        for topic_id in TOPICS:
            self.both(partial(Twin.polled, topic_id=topic_id))
            self.both(partial(Twin.polled, topic_id=topic_id, committed=True))
            for pointer in self.open:
                self.both(partial(Twin.polled, topic_id=topic_id, transaction=pointer))

    def teardown(self) -> None:
        for twin in (self.cleaned, self.plain):
            with suppress(TmsError):
                twin.close()
        self.loop.close()
