"""Messages below an end never change, whatever happens later, even after restarts."""

import asyncio
from collections.abc import Callable, Coroutine
from contextlib import aclosing
from typing import Any, TypeVar

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule
from prometheus_client import CollectorRegistry

from tables.memory import MemoryStore
from tables.store_tables import StoreTables
from tests.manual_clock import ManualClock
from tms.core.limits import TTL_S_MAX, Limits
from tms.core.services.commits import CommitRequest, Stored
from tms.core.services.messaging import RollbackRange
from tms.core.services.transactions import StartRequest
from tms.core.values.message import FIRST_ID, Message
from tms.core.values.reading import Reading, isolation_of
from tms.core.values.topic import TopicId
from tms.server.node import OpenServices, services_on

NOW_MS = 1_800_000_000_000
TOPIC = TopicId("default", "t")
PICK = st.integers(0, 1_000)

Result = TypeVar("Result")


class Lasting(MemoryStore):
    """A memory store that can be opened again."""

    def close(self) -> None:
        """Keep the content for the next services."""


class Ends(RuleBasedStateMachine):
    """Random histories of one topic."""

    def __init__(self) -> None:
        super().__init__()
        self.runner = asyncio.Runner()
        self.clock = ManualClock(NOW_MS)
        self.store = Lasting()
        self.services = self.opened()
        self.run(lambda s: s.messaging.create_topic(TOPIC, {"ttl": TTL_S_MAX}))
        self.number = 0
        self.open: list[int] = []
        self.pointers: dict[int, list[int]] = {}
        self.ranges: dict[int, list[RollbackRange]] = {}
        self.seen: list[tuple[bool, bytes, list[Message]]] = []
        self.latest = {True: FIRST_ID, False: FIRST_ID}

    def opened(self) -> OpenServices:
        limits = Limits(poll_block_bytes=64, cache_bytes_max=2000, clock_hold_s=0)
        registry = CollectorRegistry()
        tables = StoreTables(self.store)
        return self.runner.run(services_on(tables, limits, self.clock, registry))

    def run(self, call: Callable[[OpenServices], Coroutine[Any, Any, Result]]) -> Result:
        return self.runner.run(call(self.services))

    def payload(self) -> bytes:
        self.number += 1
        return b"%d" % self.number

    async def read(self, end: bytes, *, committed: bool) -> list[Message]:
        blocks = self.services.messaging.poll(
            TOPIC,
            Reading(
                FIRST_ID,
                limit=100_000,
                view=isolation_of(committed=committed),
                end=end,
            ),
        )
        async with aclosing(blocks) as found:  # type: ignore[type-var]
            return [message async for block in found for message in block]

    def pick(self, pick: int) -> int:
        return self.open[pick % len(self.open)]

    @rule(count=st.integers(1, 4))
    def publish(self, count: int) -> None:
        payloads = [self.payload() for _ in range(count)]
        self.run(lambda s: s.messaging.publish(TOPIC, payloads))

    @rule(by_ms=st.sampled_from([0, 1, 1000, -10_000]))
    def tick(self, by_ms: int) -> None:
        self.clock.advance(by_ms)

    @rule(by_s=st.sampled_from([61, 300, 93_600, 691_200]), sign=st.sampled_from([1, -1]))
    def the_clock_steps(self, by_s: int, sign: int) -> None:
        """Step the clock, which is believed at once: that is the hardest case."""
        self.clock.step(sign * by_s * 1_000)

    @precondition(lambda self: len(self.open) < 3)
    @rule()
    def start(self) -> None:
        started = self.run(lambda s: s.transactions.start(StartRequest(timeout_s=80_000)))
        self.open.append(started.transaction_id)
        self.pointers[started.transaction_id] = [started.write_pointer]
        self.ranges[started.transaction_id] = []

    @precondition(lambda self: len(self.open) < 3)
    @rule(by_s=st.sampled_from([300, 691_200]))
    def start_by_a_wrong_clock(self, by_s: int) -> None:
        self.clock.step(by_s * 1_000)
        self.start()
        self.clock.step(-by_s * 1_000)

    @precondition(lambda self: self.open)
    @rule(pick=PICK)
    def checkpoint(self, pick: int) -> None:
        one = self.pick(pick)
        pointer = self.run(lambda s: s.transactions.checkpoint(one)).write_pointer
        self.pointers[one].append(pointer)

    @precondition(lambda self: self.open)
    @rule(pick=PICK, is_stored=st.booleans())
    def write(self, pick: int, *, is_stored: bool) -> None:
        pointers = self.pointers[self.pick(pick)]
        pointer, payloads = pointers[pick % len(pointers)], [self.payload(), self.payload()]
        if is_stored:
            self.run(lambda s: s.messaging.store(TOPIC, payloads, pointer))
            return
        written = self.run(lambda s: s.messaging.publish(TOPIC, payloads, pointer)).rollback_range
        assert written is not None
        self.ranges[self.pick(pick)].append(written)

    @precondition(lambda self: self.open)
    @rule(pick=PICK)
    def refer(self, pick: int) -> None:
        pointers = self.pointers[self.pick(pick)]
        pointer = pointers[pick % len(pointers)]
        written = self.run(lambda s: s.messaging.publish(TOPIC, [], pointer)).rollback_range
        assert written is not None
        self.ranges[self.pick(pick)].append(written)

    @precondition(lambda self: self.open)
    @rule(pick=PICK)
    def roll_back(self, pick: int) -> None:
        ranges = self.ranges[self.pick(pick)]
        if ranges:
            written = ranges.pop(pick % len(ranges))
            self.run(lambda s: s.messaging.rollback(TOPIC, written))

    @precondition(lambda self: self.open)
    @rule(pick=PICK, how=st.sampled_from(["commit", "publish", "abort", "invalidate"]))
    def end(self, pick: int, how: str) -> None:
        one = self.pick(pick)
        self.open.remove(one)
        match how:
            case "commit":
                self.run(lambda s: s.transactions.commit(one))
            case "publish":
                stored = [Stored(TOPIC, pointer) for pointer in self.pointers[one]]
                self.run(lambda s: s.transactions.commit(one, CommitRequest(publish=stored)))
            case "abort":
                self.run(lambda s: s.transactions.abort(one))
            case _:
                self.run(lambda s: s.transactions.invalidate(one))

    @rule()
    def restart(self) -> None:
        self.run(OpenServices.close)
        self.services = self.opened()
        self.latest = {True: FIRST_ID, False: FIRST_ID}

    @invariant()
    def what_was_seen_is_still_so(self) -> None:
        for committed, end, rows in self.seen[-4:]:
            assert self.runner.run(self.read(end, committed=committed)) == rows
        for committed in (True, False):
            self.look(committed=committed)

    def look(self, *, committed: bool) -> None:
        isolation = isolation_of(committed=committed)
        known = self.run(lambda s: s.ranges.ranges([TOPIC], isolation)).topics[TOPIC]
        assert known is not None
        assert known.start <= known.end
        assert known.end >= self.latest[committed], "in one process it does not go back"
        self.latest[committed] = known.end
        rows = self.runner.run(self.read(known.end, committed=committed))
        assert all(known.start <= row.id < known.end for row in rows)
        self.seen.append((committed, known.end, rows))
        if not self.open:
            everything = self.runner.run(self.read(b"\x7f" * 20, committed=committed))
            assert rows == everything, "with nothing in progress nothing is held back"

    @rule(pick=PICK, messages=st.integers(1, 5))
    def reach(self, pick: int, messages: int) -> None:
        committed, end, rows = self.seen[pick % len(self.seen)]
        isolation = isolation_of(committed=committed)
        reached = self.run(
            lambda s: s.ranges.reach(TOPIC, FIRST_ID, end, messages=messages, isolation=isolation)
        )
        before = [row for row in rows if row.id < reached.end]
        assert reached.end <= end
        assert reached.messages == len(before)
        assert reached.payload_bytes == sum(len(row.payload) for row in before)
        assert before == rows[:messages] or reached.end < end

    @rule(pick=PICK, parts=st.integers(1, 5))
    def split(self, pick: int, parts: int) -> None:
        committed, end, rows = self.seen[pick % len(self.seen)]
        found = self.run(lambda s: s.ranges.splits(TOPIC, FIRST_ID, end, parts))
        assert len(found) <= parts
        assert (found[0].start, found[-1].end) == (FIRST_ID, end)
        there = [[row for row in rows if split.start <= row.id < split.end] for split in found]
        assert [row for part in there for row in part] == rows
        for split, expected in zip(found, there, strict=True):
            assert self.runner.run(self.part(split.start, split.end, committed)) == expected

    async def part(self, start: bytes, end: bytes, committed: bool) -> list[Message]:  # noqa: FBT001
        blocks = self.services.messaging.poll(
            TOPIC,
            Reading(
                start,
                limit=100_000,
                view=isolation_of(committed=committed),
                end=end,
            ),
        )
        async with aclosing(blocks) as found:  # type: ignore[type-var]
            return [message async for block in found for message in block]

    def teardown(self) -> None:
        for committed, end, rows in self.seen[::5]:
            assert self.runner.run(self.read(end, committed=committed)) == rows
        self.run(OpenServices.close)
        self.runner.close()
