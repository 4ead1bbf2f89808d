"""Two stores that are used alike, one of which compacts: readers find the same for each key.

For each key a reader finds the last message that it gets. That must be the same on both stores,
except for an old tombstone: for it, the reader must find nothing, or the tombstone. There must be a
reason for each message that is missing from the compacted store.
"""

import asyncio
from collections.abc import Callable, Mapping
from contextlib import suppress
from functools import partial
from typing import Any

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from tests.cleanup.twins import LIMITS, NOW_MS, Twin
from tests.manual_clock import ManualClock
from tms.core.errors import TmsError
from tms.core.limits import Limits
from tms.core.services.messaging import RollbackRange
from tms.core.services.transactions import StartRequest
from tms.core.values.frame import bodies_of, encode_body
from tms.core.values.message import FIRST_ID, Message
from tms.core.values.reading import Reading, View, isolation_of
from tms.core.values.topic import TopicId

TOPIC = TopicId("ns", "compact")
TOMBSTONE_S = 5
MINUTE_MS = 60_000
PROPERTIES: Mapping[str, object] = {
    "ttl": 604_800,
    "cleanup": "compact",
    "tombstone_s": TOMBSTONE_S,
}
KEYS = st.sampled_from([b"a", b"b", b"c", b"long" * 10, b"long" * 11, b""])
VALUES = st.none() | st.binary(max_size=3)
WRITES = st.lists(st.tuples(KEYS, VALUES), min_size=1, max_size=4)
PICK = st.integers(0, 1_000)

Write = tuple[bytes, bytes | None]


def bodies(writes: list[Write]) -> list[bytes]:
    return bodies_of([encode_body(payload, key) for key, payload in writes])


class Compacting(RuleBasedStateMachine):
    make: Callable[..., Twin] = Twin
    limits: Limits = LIMITS
    tombstone_s = TOMBSTONE_S
    """How long a tombstone stays."""
    pace = 1
    """The factor by which time passes faster."""

    def __init__(self) -> None:
        super().__init__()
        self.loop = asyncio.new_event_loop()
        self.clock = ManualClock(NOW_MS)
        self.stepped_ms = self.followed_ms = 0
        """The error of the wall clock, and the largest part of it that may be followed."""
        self.greatest_ms = NOW_MS
        """The latest time that expiry was decided by."""
        self.ttl_s = 604_800
        self.expired_ms = 0
        """Earlier messages have expired before; a clock that is set back may show them again."""
        self.compacted, self.plain = (
            self.make(self.loop, self.clock, self.limits) for _ in range(2)
        )
        self.open: dict[int, list[RollbackRange]] = {}
        self.written: dict[int, set[bytes]] = {}
        """Ids of the messages published under each pointer."""
        self.seen: set[bytes] = set()
        """Ids of messages of no transaction, or of a committed one."""
        self.both(lambda twin: twin.services.messaging.create_topic(TOPIC, PROPERTIES))

    def both(self, ask: Callable[[Twin], Any]) -> Any:
        """Send both the same request; both must give the same answer or refusal."""
        answers = []
        for twin in (self.compacted, self.plain):
            try:
                answers.append(twin.await_(ask(twin)))
            except TmsError as error:
                answers.append(error.problem.code)
        assert answers[0] == answers[1]
        return answers[0]

    @rule(by_ms=st.sampled_from([1, 1, 700, 2_000, 7_000, 7_000, 61_000]))
    def time_passes(self, by_ms: int) -> None:
        self.clock.advance(by_ms * self.pace)
        self.expires()
        for twin in (self.compacted, self.plain):
            twin.await_(twin.transactions._expire())
        for pointer in list(self.open):
            status = self.both(partial(status_of, pointer=pointer))
            if status != "in_progress":
                del self.open[pointer]

    @property
    def expiry_ms(self) -> int:
        """The time by which messages expire: the part of the wall's time that is not in doubt.

        If the wall was set back until only a minute of a step remains, that minute is followed.
        """
        times = [twin.services.engine.clock.expiry_ms() for twin in (self.compacted, self.plain)]
        assert times[0] == times[1] <= NOW_MS + self.clock.steady_ms() + self.followed_ms
        found: int = times[0]
        return found

    def expires(self) -> None:
        self.greatest_ms = max(self.greatest_ms, self.expiry_ms)
        self.expired_ms = max(self.expired_ms, self.expiry_ms - self.ttl_s * 1_000)

    @rule(by_ms=st.sampled_from([1, 5_000]))
    def clock_is_set_back(self, by_ms: int) -> None:
        self.clock.set(self.clock.now_ms() - by_ms)
        if self.stepped_ms:
            self.followed_ms += MINUTE_MS
        for twin in (self.compacted, self.plain):
            twin.services.engine.clock.now_ms()
            twin.put_mark()  # otherwise only one might go back after a crash

    @rule(by_s=st.sampled_from([61, 300, 93_600, 34_560_000]), sign=st.sampled_from([1, -1]))
    def the_clock_steps(self, by_s: int, sign: int) -> None:
        """Step the wall, which is not believed: nothing expires by it, not even a tombstone."""
        self.clock.step(sign * by_s * 1_000)
        self.stepped_ms += sign * by_s * 1_000
        self.expires()

    @rule()
    def the_clock_is_right_again(self) -> None:
        self.clock.step(-self.stepped_ms)
        self.stepped_ms = 0
        self.expires()

    @rule(writes=WRITES)
    def publish(self, writes: list[Write]) -> None:
        self.seen |= {
            *self.both(lambda twin: twin.services.messaging.publish(TOPIC, bodies(writes)))
        }

    @rule()
    def start(self) -> None:
        async def start(twin: Twin) -> int:
            return (await twin.transactions.start(StartRequest())).transaction_id

        self.open[self.both(start)] = []

    def picked(self, pick: int) -> int:
        return list(self.open)[pick % len(self.open)]

    @precondition(lambda self: self.open)
    @rule(pick=PICK, writes=WRITES)
    def publish_in_one(self, pick: int, writes: list[Write]) -> None:
        pointer = self.picked(pick)
        published = self.both(
            lambda twin: twin.services.messaging.publish(TOPIC, bodies(writes), pointer)
        )
        assert published.rollback_range is not None
        self.open[pointer].append(published.rollback_range)
        self.written.setdefault(pointer, set()).update(published)

    @rule(writes=WRITES)
    def commit_while_another_reads(self, writes: list[Write]) -> None:
        self.publish(writes)
        self.start()
        writer = list(self.open)[-1]
        self.start()
        self.publish_in_one(list(self.open).index(writer), writes)
        self.end(list(self.open).index(writer), "commit")

    @precondition(lambda self: self.open)
    @rule(pick=PICK, how=st.sampled_from(["commit", "commit", "abort", "invalidate"]))
    def end(self, pick: int, how: str) -> None:
        pointer = self.picked(pick)
        if how == "abort":
            for published in self.open[pointer]:
                self.both(partial(Twin.rolled_back, topic_id=TOPIC, published=published))
        self.both(lambda twin: getattr(twin.transactions, how)(pointer))
        del self.open[pointer]
        if how == "commit":
            self.seen |= self.written.get(pointer, set())

    @rule(steps=st.sampled_from([1, 2, 5, 20, 1_000_000]), is_on_demand=st.booleans())
    def compact(self, steps: int, *, is_on_demand: bool) -> None:
        self.compacted.is_on_demand = is_on_demand
        self.compacted.go_on_cleaning(steps)

    @rule(crashes=st.booleans())
    def restart(self, *, crashes: bool) -> None:
        self.compacted.reopen(crashes=crashes)
        self.plain.reopen(crashes=crashes)

    @rule(ttl_s=st.sampled_from([5, 100, 604_800]))
    def change_the_ttl(self, ttl_s: int) -> None:
        properties = {**PROPERTIES, "ttl": ttl_s}
        self.both(lambda twin: twin.services.messaging.update_topic(TOPIC, properties))
        self.ttl_s = ttl_s
        self.expires()

    def read(self, twin: Twin, view: View) -> list[Message]:
        async def read() -> list[Message]:
            blocks = twin.services.messaging.poll(TOPIC, Reading(FIRST_ID, 10_000, view))
            return [message async for block in blocks for message in block]

        return twin.await_(read())

    def is_old(self, message: Message) -> bool:
        """Whether a message has been old at some time."""
        return message.publish_timestamp < self.greatest_ms - self.tombstone_s * 1_000

    def may_be_gone(self, message: Message) -> bool:
        """Whether a message that all readers see may be gone although no other supersedes it."""
        has_expired = message.publish_timestamp < self.expired_ms
        return has_expired or (message.is_tombstone and self.is_old(message))

    @invariant()
    def transactional_readers_find_the_same(self) -> None:
        views: list[View] = [isolation_of(committed=True), *self.open]
        for view in views:
            found = {message.key: message for message in self.read(self.compacted, view)}
            for key, message in by_key(self.read(self.plain, view)).items():
                expected = (message, None) if self.may_be_gone(message) else (message,)
                assert found.pop(key, None) in expected
            assert not found

    @invariant()
    def what_is_missing_is_so_for_a_reason(self) -> None:
        everything = isolation_of(committed=False)
        left, whole = self.read(self.compacted, everything), self.read(self.plain, everything)
        there = {message.id: message for message in left}
        newer: set[bytes | None] = set()
        for message in reversed(whole):
            found = there.pop(message.id, None)
            assert found in (message, None)
            if found is None:
                assert message != whole[-1] or message.publish_timestamp < self.expired_ms
                is_rolled_back = message.id not in self.seen and self.is_old(message)
                assert message.key in newer or is_rolled_back or self.may_be_gone(message)
            if message.id in self.seen:
                newer.add(message.key)
        assert not there

    @precondition(lambda self: not self.open)
    @rule()
    def all_is_compacted(self) -> None:
        self.compacted.leave_pass()
        self.compacted.clean()
        self.compacted.clean()  # the first pass may only have inverted invalid entries
        found = self.read(self.compacted, isolation_of(committed=True))
        keys = [message.key for message in found]
        assert len(keys) == len(set(keys))
        everything = self.read(self.compacted, isolation_of(committed=False))
        old_ms = self.expiry_ms - self.tombstone_s * 1_000
        for message in everything[:-1]:
            is_young = message.publish_timestamp >= old_ms
            assert is_young or (message in found and not message.is_tombstone)

    def teardown(self) -> None:
        for twin in (self.compacted, self.plain):
            with suppress(TmsError):
                twin.close()
        self.loop.close()


def by_key(messages: list[Message]) -> dict[bytes | None, Message]:
    return {message.key: message for message in messages}


async def status_of(twin: Twin, pointer: int) -> str:
    return (await twin.transactions.info(pointer)).status.value
