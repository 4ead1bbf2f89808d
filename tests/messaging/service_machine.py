"""A stateful model of the service."""

import asyncio
from collections.abc import Coroutine, Iterator
from itertools import islice
from typing import Any, TypeVar, cast

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule
from prometheus_client import CollectorRegistry

from cleanup.cleaner import Cleaner
from cleanup.ranges import Step
from tables.store import Store
from tables.store_tables import StoreTables
from tests.cleanup.nobody import NoServices
from tests.core.framed_messages import SMALL
from tests.core.naive_filters import matches
from tests.manual_clock import ManualClock
from tests.messaging.at_once import Gate, asked_at_once
from tests.messaging.deleted_rows import take_in_what_was_deleted
from tests.messaging.model import ModelTopic
from tms.core.errors import QueueFull, RollbackRefused, TopicExists, TopicMoved, TopicNotFound
from tms.core.limits import Limits
from tms.core.runtime.trusted_clock import TrustedClock
from tms.core.services.messaging import NO_ENTRIES, Page, Published, RollbackRange
from tms.core.values.filter_parser import parse
from tms.core.values.filters import Filter
from tms.core.values.frame import bodies_of
from tms.core.values.message import (
    FIRST_ID,
    KEY,
    NO_PAYLOAD_KEY,
    Message,
    MessageId,
    id_after,
    position_of,
)
from tms.core.values.reading import Isolation, Reading
from tms.core.values.topic import TopicId
from tms.core.values.transaction import ALL_VISIBLE_LATEST, Transaction
from tms.messaging.service import Service
from tms.messaging.store_runtime import StoreRuntime
from tms.messaging.write_requests import Writing

T = TypeVar("T")
START_MS = 1_800_000_000_000
NAMES = st.sampled_from(["a", "a", "a", "b"])
MESSAGES = st.lists(st.binary(max_size=40).map(Message) | SMALL, min_size=1, max_size=4)


TTLS_S = st.sampled_from([5, 604_800])


POINTERS = tuple(START_MS * 1_000_000 + offset for offset in range(6))


WRITE_POINTERS = st.sampled_from(POINTERS)


LIMITS = st.sampled_from([1, 2, 3, 1000])
FILTERS = st.sampled_from(
    ["key exists", "not key exists", 'header.n exists or key ^= "\\x00"', "header.none exists"]
)


@st.composite
def transactions(draw: st.DrawFn) -> Transaction:
    outcome = {p: draw(st.sampled_from(["seen", "invalid", "in progress"])) for p in POINTERS}
    own = draw(WRITE_POINTERS)
    return Transaction(
        read_pointer=draw(st.sampled_from([POINTERS[3], POINTERS[5]])),
        transaction_id=own,
        write_pointer=own,
        invalids=tuple(p for p in POINTERS if outcome[p] == "invalid"),
        in_progress=tuple(p for p in POINTERS if outcome[p] == "in progress"),
    )


def bodies(messages: list[Message]) -> list[bytes]:
    return bodies_of([message.body() for message in messages])


def items_of(page: Page) -> bytes:
    return b"".join(block.items for block in page.blocks)


class ServiceMachine(RuleBasedStateMachine):
    """One service, one model."""

    def __init__(self) -> None:
        super().__init__()
        self.loop = asyncio.new_event_loop()
        self.source = ManualClock(START_MS)
        self.topics: dict[str, ModelTopic] = {}
        self.ranges: list[tuple[str, RollbackRange]] = []
        self.store = self.open_store()

    def open_store(self) -> Store:
        raise AssertionError("a subclass gives the store")

    def await_(self, work: Coroutine[Any, Any, T]) -> T:
        return self.loop.run_until_complete(work)

    @initialize(
        cache_bytes=st.sampled_from([0, 3_000, 1_000_000]),
        page_bytes=st.sampled_from([1, 60, 100_000]),
        topics_in_memory=st.sampled_from([1, 100]),
        ttl_s=TTLS_S,
        queue_requests=st.sampled_from([1, 2, 1_000]),
        hold_s=st.sampled_from([0, 3_600]),
    )
    def start(
        self,
        *,
        cache_bytes: int,
        page_bytes: int,
        topics_in_memory: int,
        ttl_s: int,
        queue_requests: int,
        hold_s: int,
    ) -> None:
        self.clock = TrustedClock(self.source, hold_s=hold_s)
        self.limits = Limits(
            cache_bytes_max=cache_bytes,
            poll_block_bytes=page_bytes,
            topics_in_memory_max=topics_in_memory,
            cleanup_slice_rows=2,
            transaction_lifetime_s_max=10**9,
            queue_requests_max=queue_requests,
        )
        self.open()
        for name in ("a", "b"):
            self.create(name, ttl_s)

    def open(self) -> None:
        async def make() -> Service:
            tables, registry = StoreTables(gated), CollectorRegistry()
            return Service(Writing(StoreRuntime(tables, self.limits, self.clock, registry)))

        self.gate = Gate(self.store)
        gated = cast("Store", self.gate)
        self.service = self.await_(make())
        self.cleaner = Cleaner(self.store, NoServices(), self.limits, self.clock)
        self.passing: Iterator[Step] | None = None

    @rule(steps=st.integers(1, 20), breaks_off=st.booleans())
    def clean(self, steps: int, *, breaks_off: bool) -> None:
        self.passing = self.passing or self.cleaner.steps()
        if sum(1 for _ in islice(self.passing, steps)) < steps:
            self.passing = None
        take_in_what_was_deleted(self.topics, self.store, self.clock.deleted_ms)
        if breaks_off:
            self.restart()  # so that later reads are from the table

    @rule()
    def restart(self) -> None:
        self.await_(self.service.close())
        self.store = self.open_store()
        self.open()

    @rule(by_ms=st.sampled_from([1, 1, 700, 2_000, 4_000, -1, -2_500]))
    def move_the_clock(self, by_ms: int) -> None:
        self.source.advance(by_ms)

    @rule(by_s=st.sampled_from([1, 59, 61, 300, 93_600, 691_200]), sign=st.sampled_from([1, -1]))
    def the_clock_steps(self, by_s: int, sign: int) -> None:
        self.source.step(sign * by_s * 1_000)

    @rule()
    def the_clock_is_right_again(self) -> None:
        self.source.step(START_MS + self.source.steady_ms() - self.source.now_ms())

    @rule(change=st.sampled_from(["delete", "create", "ttl", "trim"]), name=NAMES, ttl_s=TTLS_S)
    def change_a_topic(self, change: str, name: str, ttl_s: int) -> None:
        if change == "delete":  # one rule for all, so that most steps are about messages
            self.delete(name)
        elif change == "create":
            self.create(name, ttl_s)
        elif change == "trim":
            self.trim(name, self.clock.keys_ms() - ttl_s % 1_000)
        else:
            self.change_ttl(name, ttl_s)

    def create(self, name: str, ttl_s: int) -> None:
        topic = self.topics.get(name)
        work = self.service.create_topic(TopicId("default", name), {"ttl": ttl_s})
        if topic is not None and topic.exists:
            with pytest.raises(TopicExists):
                self.await_(work)
            return
        self.await_(work)
        if topic is None:
            self.topics[name] = ModelTopic(1, ttl_s)
        else:
            topic.recreate(ttl_s)

    def of(self, name: str) -> ModelTopic | None:
        topic = self.topics.get(name)
        return topic if topic is not None and topic.exists else None

    def expect(self, name: str, work: Coroutine[Any, Any, T]) -> T | None:
        """Run a request on a topic; if the topic does not exist, it must be refused."""
        if self.of(name) is None:
            with pytest.raises(TopicNotFound):
                self.await_(work)
            return None
        return self.await_(work)

    def delete(self, name: str) -> None:
        self.expect(name, self.service.delete_topic(TopicId("default", name)))
        topic = self.of(name)
        if topic is not None:
            topic.delete()

    def change_ttl(self, name: str, ttl_s: int) -> None:
        self.expect(name, self.service.update_topic(TopicId("default", name), {"ttl": ttl_s}))
        topic = self.of(name)
        if topic is not None:
            topic.change_ttl(ttl_s, max(self.clock.expiry_ms(), self.clock.deleted_ms))

    def trim(self, name: str, before_ms: int) -> None:
        self.expect(name, self.service.trim_topic(TopicId("default", name), before_ms))
        topic = self.of(name)
        if topic is not None:
            topic.trim(before_ms)

    @rule(name=NAMES, messages=MESSAGES, data=st.data())
    def publish_if_last(self, name: str, messages: list[Message], data: st.DataObject) -> None:
        topic = self.of(name)
        entries = [] if topic is None else topic.data.entries
        now_ms = self.clock.expiry_ms()
        told = [] if topic is None else topic.poll(FIRST_ID, 10_000, None, now_ms)
        ids = [id_ for id_, _ in told]
        keys = [MessageId(*entry.key).encode() for entry in entries]
        if_last = data.draw(st.sampled_from([NO_ENTRIES, *ids, *keys[-1:], *ids[-1:]]))
        work = self.service.publish(TopicId("default", name), bodies(messages), if_last=if_last)
        if topic is not None and topic.has_moved(if_last, now_ms):
            with pytest.raises(TopicMoved):
                self.await_(work)
            return
        self.expect(name, work)
        if topic is not None:
            topic.publish(messages, None, self.clock.keys_ms())

    @rule(name=NAMES, messages=MESSAGES)
    def publish(self, name: str, messages: list[Message]) -> None:
        work = self.service.publish(TopicId("default", name), bodies(messages))
        published, topic = self.expect(name, work), self.of(name)
        if topic is not None:
            new = topic.publish(messages, None, self.clock.keys_ms())
            assert published is not None
            assert list(published) == [KEY.pack(*entry.key) + NO_PAYLOAD_KEY for entry in new]
            assert published.rollback_range is None

    @rule(name=NAMES, messages=st.just([]) | MESSAGES, pointer=WRITE_POINTERS)
    def publish_in_transaction(self, name: str, messages: list[Message], pointer: int) -> None:
        if not messages and pointer > self.service._writing.references._known_after:
            return  # refused: the transaction's id is ahead of our clock at the start
        work = self.service.publish(TopicId("default", name), bodies(messages), pointer)
        published = self.expect(name, work)
        topic = self.of(name)
        if topic is not None:
            now_ms, expiry_ms = self.clock.keys_ms(), self.clock.expiry_ms()
            new = topic.publish(messages, pointer, now_ms, expiry_ms)
            assert published is not None
            written = published.rollback_range
            assert written == RollbackRange(pointer, *new[0].key, *new[-1].key)
            self.ranges.append((name, written))

    @rule(name=NAMES, messages=MESSAGES, pointer=WRITE_POINTERS)
    def store_payloads(self, name: str, messages: list[Message], pointer: int) -> None:
        self.expect(name, self.service.store(TopicId("default", name), bodies(messages), pointer))
        topic = self.of(name)
        if topic is not None:
            topic.store(messages, pointer, self.clock.keys_ms())

    @precondition(lambda self: self.ranges)
    @rule(data=st.data(), forged=st.none() | WRITE_POINTERS)
    def roll_back(self, data: st.DataObject, forged: int | None) -> None:
        name, published = data.draw(st.sampled_from(self.ranges))
        pointer = forged or published.write_pointer
        first = (published.start_timestamp, published.start_sequence_id)
        last = (published.end_timestamp, published.end_sequence_id)
        topic = self.of(name)
        if topic is not None and first[0] < topic.first_live_ms(self.clock.deleted_ms):
            return  # cleanup may have deleted some of these entries
        work = self.service.rollback(
            TopicId("default", name), RollbackRange(pointer, *first, *last)
        )
        if topic is None or topic.rollback(first, last, pointer):
            self.expect(name, work)
        else:
            with pytest.raises(RollbackRefused):
                self.await_(work)

    @rule(name=NAMES, messages=MESSAGES, pointer=WRITE_POINTERS)
    def more_at_once_than_the_queue_takes(
        self, name: str, messages: list[Message], pointer: int
    ) -> None:
        """Roll back and store while publishes wait; refused requests change nothing."""
        self.publish_in_transaction(name, messages, pointer)
        topic, topic_id = self.of(name), TopicId("default", name)
        if topic is None:
            return
        _, undone = self.ranges[-1]
        pointers = (pointer, None, pointer)
        works = (
            *(self.service.publish(topic_id, bodies(messages), each) for each in pointers),
            self.service.rollback(topic_id, undone),
            self.service.store(topic_id, bodies(messages), undone.write_pointer),
        )
        outcomes = self.await_(asked_at_once(self.service, self.gate, topic_id, works))
        *published, rolled_back, stored = outcomes
        now_ms = self.clock.now_ms()
        for at in (0, 2, 1):  # a flush appends plain messages after the others
            if not isinstance(published[at], QueueFull):
                new = topic.publish(messages, pointers[at], now_ms)
                assert published[at] == Published(KEY.pack(*new[0].key), len(new), pointers[at])
        if not isinstance(rolled_back, QueueFull):
            first = (undone.start_timestamp, undone.start_sequence_id)
            last = (undone.end_timestamp, undone.end_sequence_id)
            is_accepted = topic.rollback(first, last, undone.write_pointer)
            assert isinstance(rolled_back, RollbackRefused) != is_accepted
        if not isinstance(stored, QueueFull):
            assert stored is None
            topic.store(messages, undone.write_pointer, now_ms)

    async def polled(
        self, name: str, position: bytes, limit: int, transaction: Transaction | None
    ) -> list[tuple[bytes, Message]]:
        topic_id = TopicId("default", name)
        asked = Reading(position, limit, transaction or Isolation.ALL)
        at_once = self.service.page_in_memory(topic_id, asked)
        if at_once is not None:
            page = await self.service.page(topic_id, asked)
            assert items_of(at_once) == items_of(page)
            assert (at_once.count, at_once.next_position) == (page.count, page.next_position)
        blocks = self.service.poll(topic_id, asked)
        return [(m.id, m._replace(id=b"")) async for block in blocks for m in block]

    @rule(
        name=NAMES,
        data=st.data(),
        inclusive=st.booleans(),
        limit=LIMITS,
        transaction=st.none() | transactions(),
    )
    def poll(
        self,
        name: str,
        data: st.DataObject,
        inclusive: bool,  # noqa: FBT001
        limit: int,
        transaction: Transaction | None,
    ) -> None:
        topic = self.of(name)
        if topic is None:
            self.expect(name, self.polled(name, FIRST_ID, limit, transaction))
            return
        now_ms = self.clock.expiry_ms()
        ids = [id_ for id_, _ in topic.poll(FIRST_ID, 10_000, None, now_ms)]
        keys = [MessageId(*entry.key).encode() for entry in topic.data.entries]
        places: list[bytes | int] = [*ids, *keys, START_MS, START_MS + 1, now_ms]
        starts = st.none() | st.sampled_from(places)
        start = data.draw(starts)
        position = position_of(start, inclusive=inclusive)
        expected = topic.poll(position, limit, transaction, now_ms)
        assert self.await_(self.polled(name, position, limit, transaction)) == expected

    @rule(name=NAMES, limit=LIMITS, transaction=st.none() | transactions(), text=FILTERS)
    def poll_on_and_on(
        self, name: str, limit: int, transaction: Transaction | None, text: str
    ) -> None:
        topic = self.of(name)
        if topic is None:
            return
        self.check_a_filter(name, limit, transaction, text)
        expected = topic.poll(FIRST_ID, 10_000, transaction, self.clock.expiry_ms())
        found: list[tuple[bytes, Message]] = []
        position = FIRST_ID
        while batch := self.await_(self.polled(name, position, limit, transaction)):
            found += batch
            position = id_after(batch[-1][0])
        assert found == expected

    def check_a_filter(
        self, name: str, limit: int, transaction: Transaction | None, text: str
    ) -> None:
        """Read a topic with a filter, from where the reader before says to continue."""
        expression = parse(text)
        everything = self.topics[name].poll(FIRST_ID, 10_000, transaction, self.clock.expiry_ms())
        expected = [each for each in everything if matches(expression, each[1])]
        reading = Reading(FIRST_ID, limit, transaction or Isolation.ALL, filter=Filter(text))
        found, position = self.await_(self.chosen(name, reading))
        assert found == expected[:limit]
        while found and len(found) < len(expected):
            batch, position = self.await_(self.chosen(name, reading._replace(position=position)))
            assert batch
            found += batch
        assert found == expected

    async def chosen(
        self, name: str, reading: Reading
    ) -> tuple[list[tuple[bytes, Message]], bytes]:
        """Return the messages that a reader with a filter gets, and where it continues."""
        topic_id = TopicId("default", name)
        assert self.service.page_in_memory(topic_id, reading) is None
        passed: list[bytes] = [reading.position]
        blocks = self.service.poll(topic_id, reading, passed=passed.append)
        found = [(m.id, m._replace(id=b"")) async for block in blocks for m in block]
        assert passed == sorted(passed)
        assert not found or id_after(found[-1][0]) <= passed[-1]
        return found, passed[-1]

    @invariant()
    def topics_are_those_of_the_model(self) -> None:
        if not hasattr(self, "service"):
            return
        expected = sorted(name for name, topic in self.topics.items() if topic.exists)
        assert self.await_(self.service.topics("default")) == expected

    @invariant()
    def the_log_is_that_of_the_model(self) -> None:
        for name in ("a", "b"):
            topic = self.of(name)
            if topic is not None:
                for transaction in (None, ALL_VISIBLE_LATEST):
                    now_ms = self.clock.expiry_ms()
                    expected = topic.poll(FIRST_ID, 10_000, transaction, now_ms)
                    found = self.await_(self.polled(name, FIRST_ID, 10_000, transaction))
                    assert found == expected
                self.check_a_filter(name, 2, None, "not key exists")

    def teardown(self) -> None:
        if hasattr(self, "service"):
            self.await_(self.service.close())
        self.loop.close()
