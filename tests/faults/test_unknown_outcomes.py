"""A write that failed may have been done: whichever it was, memory and tables must agree on it.

Each test opens a second service on the same rows, and so sees what a restart would find.
"""

import asyncio
import random
from collections.abc import Awaitable
from typing import Self

import pytest
from prometheus_client import CollectorRegistry

from tables.store_tables import StoreTables
from tests import scale
from tests.faults.ledger import Ledger, Outcome
from tests.faults.moody_store import MoodyStore
from tests.manual_clock import ManualClock
from tests.scale import scaled
from tests.waiting import turns
from tms.core.errors import OutcomeUnknown, StoreUnavailable, TopicExists, TopicNotFound
from tms.core.limits import Limits
from tms.core.values.message import FIRST_ID, Message, id_after
from tms.core.values.reading import Isolation, Reading
from tms.core.values.topic import TopicId
from tms.core.values.transaction import ALL_VISIBLE_LATEST, Transaction
from tms.messaging.service import Service
from tms.messaging.store_runtime import StoreRuntime
from tms.messaging.write_requests import Writing

START_MS = 1_800_000_000_000
TOPICS = [TopicId("default", name) for name in "abc"]
A, B = TOPICS[:2]


def open_on(store: MoodyStore, clock: ManualClock, **limits: int) -> Service:
    engine = StoreRuntime(StoreTables(store), Limits(**limits), clock, CollectorRegistry())
    return Service(Writing(engine))


async def poll(
    service: Service, topic: TopicId, start: bytes = FIRST_ID, tx: Transaction | None = None
) -> list[Message]:
    blocks = service.poll(topic, Reading(start, limit=1_000_000, view=tx or Isolation.ALL))
    return [message async for block in blocks for message in block]


class World:
    """A store, a clock and a service; compares it with what a restart would find."""

    def __init__(self, **limits: int) -> None:
        self.store = MoodyStore()
        self.clock = ManualClock(START_MS)
        self.service = open_on(self.store, self.clock, **limits)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        self.store.settle()
        await self.service.close()

    async def fails(self, work: Awaitable[object], *, is_done: bool) -> None:
        self.store.fail_next(is_done=is_done)
        with pytest.raises(OutcomeUnknown):
            await work

    async def publish(self, topic: TopicId, *payloads: bytes) -> None:
        """Publish at once, or at the second attempt if the store has just settled."""
        try:
            await self.service.publish(topic, payloads)
        except StoreUnavailable:
            await self.service.publish(topic, payloads)

    async def check_as_after_restart(self, topic: TopicId) -> list[bytes]:
        """Check that a second service gives the same; return the payloads."""
        other = open_on(self.store, self.clock)
        try:
            wanted = await poll(other, topic)
            assert await poll(self.service, topic) == wanted
            assert (await self.service.topic(topic)) == (await other.topic(topic))
            if wanted:
                last = id_after(wanted[-2].id) if len(wanted) > 1 else FIRST_ID
                assert await poll(self.service, topic, last) == wanted[-1:]
        finally:
            await other.close()
        return [message.payload for message in wanted]


@pytest.mark.parametrize("is_done", [True, False])
def test_a_publish_that_failed(*, is_done: bool) -> None:
    async def scenario() -> None:
        async with World() as world:
            await world.service.create_topic(A)
            await world.publish(A, b"before")
            await world.fails(world.service.publish(A, [b"unknown"]), is_done=is_done)
            assert await world.check_as_after_restart(A) == [b"before"]
            world.store.settle()
            await world.publish(A, b"after")

            middle = [b"unknown"] if is_done else []
            assert await world.check_as_after_restart(A) == [b"before", *middle, b"after"]

    asyncio.run(scenario())


def test_a_publish_that_turns_out_done_after_its_topic_was_evicted() -> None:
    async def scenario() -> None:
        async with World(topics_in_memory_max=1) as world:
            for topic in (A, B):
                await world.service.create_topic(topic)
            await world.publish(A, b"before")
            await world.fails(world.service.publish(A, [b"unknown"]), is_done=True)
            for topic in (B, A):
                await poll(world.service, topic)
            world.store.settle()

            assert await world.check_as_after_restart(A) == [b"before", b"unknown"]
            await world.publish(A, b"after")
            assert await world.check_as_after_restart(A) == [b"before", b"unknown", b"after"]

    asyncio.run(scenario())


def test_a_delete_that_turns_out_done() -> None:
    """Messages published to the dead generation would be gone after a restart."""

    async def scenario() -> None:
        async with World() as world:
            await world.service.create_topic(A)
            await world.publish(A, b"before")
            await world.fails(world.service.delete_topic(A), is_done=True)
            assert [m.payload for m in await poll(world.service, A)] == [b"before"]
            world.store.settle()

            with pytest.raises(TopicNotFound):
                await world.publish(A, b"after")

    asyncio.run(scenario())


def test_a_delete_that_turns_out_done_while_publishes_wait() -> None:
    async def scenario() -> None:
        async with World() as world:
            await world.service.create_topic(A)
            await world.publish(A, b"before")
            await world.fails(world.service.delete_topic(A), is_done=True)
            waiting = asyncio.gather(
                *(world.service.publish(A, [b"%d" % n]) for n in range(3)), return_exceptions=True
            )
            await turns()  # the requests have found their topic, and are queued
            world.store.settle()

            assert {type(outcome) for outcome in await waiting} <= {StoreUnavailable, TopicNotFound}

    asyncio.run(scenario())


def test_new_properties_that_turn_out_set() -> None:
    async def scenario() -> None:
        async with World() as world:
            await world.service.create_topic(A)
            await world.fails(world.service.update_topic(A, {"ttl": 5}), is_done=True)
            world.store.settle()

            await world.check_as_after_restart(A)
            assert (await world.service.topic(A)).ttl_s == 5

    asyncio.run(scenario())


def test_a_rollback_that_failed_and_was_not_done() -> None:
    async def scenario() -> None:
        async with World() as world:
            await world.service.create_topic(A)
            pointer = START_MS * 1_000_000
            published = (await world.service.publish(A, [b"1", b"2"], pointer)).rollback_range
            assert published is not None
            await world.fails(world.service.rollback(A, published), is_done=False)
            world.store.settle()

            assert len(await poll(world.service, A, tx=ALL_VISIBLE_LATEST)) == 2
            await world.service.rollback(A, published)
            assert await poll(world.service, A, tx=ALL_VISIBLE_LATEST) == []

    asyncio.run(scenario())


class Lives:
    """Random requests against random failures; a ledger for each life of each topic."""

    def __init__(self, seed: int) -> None:
        self.chance = random.Random(seed)
        self.world = World(
            topics_in_memory_max=self.chance.choice((1, 2, 100)),
            cache_bytes_max=self.chance.choice((0, 3_000, 1_000_000)),
            poll_block_bytes=self.chance.choice((1, 100, 100_000)),
        )
        self.ledgers: dict[TopicId, Ledger] = {}
        self.names = 0

    async def step(self) -> None:
        store, chance = self.world.store, self.chance
        self.world.clock.advance(chance.choice((0, 0, 1, 5, -3)))
        match chance.randrange(12):
            case 0 if not store.has_failed:
                store.fail_next(is_done=chance.random() < 0.6)
            case 1 | 2 if store.has_failed:
                store.settle()
                await self.check()
            case 3 if not store.has_failed:
                await self.change_topic(chance.choice(TOPICS))
            case 4 | 5 | 6:
                await self.follow(chance.choice(TOPICS))
            case _:
                chosen = [chance.choice(TOPICS) for _ in range(chance.choice((1, 3)))]
                await asyncio.gather(*(self.publish(topic) for topic in chosen))

    async def change_topic(self, topic: TopicId) -> None:
        service = self.world.service
        try:
            if topic in self.ledgers:
                del self.ledgers[topic]
                await service.delete_topic(topic)
            else:
                await service.create_topic(topic)
                self.ledgers[topic] = Ledger()
        except (TopicExists, TopicNotFound):
            raise AssertionError("an earlier change was not taken in") from None
        except OutcomeUnknown:
            self.world.store.settle()
            try:
                await service.topic(topic)
                self.ledgers[topic] = Ledger()
                # The new life's messages are unknown here, so it begins with an empty ledger.
                await service.delete_topic(topic)
                await service.create_topic(topic)
            except TopicNotFound:
                self.ledgers.pop(topic, None)

    async def follow(self, topic: TopicId) -> None:
        ledger = self.ledgers.get(topic)
        if ledger is None:
            return
        followed = ledger.followed
        start = id_after(followed[-1].id) if followed else FIRST_ID
        followed += await poll(self.world.service, topic, start)

    async def publish(self, topic: TopicId) -> None:
        ledger = self.ledgers.get(topic)
        if ledger is None:
            return
        self.names += 1
        name = f"{topic.name}{self.names}"
        payloads = [f"{name}/{n}".encode() for n in range(self.chance.choice((1, 2, 7)))]
        pointer = None
        if self.chance.random() < 0.5:
            pointer = START_MS * 1_000_000 + self.names
        request = ledger.begin(name, payloads)
        try:
            published = (await self.world.service.publish(topic, payloads, pointer)).rollback_range
            ledger.acknowledge(request)
            if published is not None and self.chance.random() < 0.5:
                request.rolled_back = Outcome.UNKNOWN
                await self.world.service.rollback(topic, published)
                request.rolled_back = Outcome.DONE
        except (StoreUnavailable, OutcomeUnknown) as error:
            ledger.failed(request, error)

    async def check(self) -> None:
        world = self.world
        for topic, ledger in self.ledgers.items():
            await world.check_as_after_restart(topic)
            log = await poll(world.service, topic)
            visible = await poll(world.service, topic, tx=ALL_VISIBLE_LATEST)
            ledger.check(log, visible, settled=not world.store.has_failed)


@pytest.mark.parametrize("seed", range(scaled(25)))
def test_random_failures(seed: int) -> None:
    async def scenario() -> None:
        lives = Lives(scale.seed() + seed)
        async with lives.world:
            for topic in TOPICS:
                await lives.change_topic(topic)
            for _ in range(300):
                await lives.step()
            lives.world.store.settle()
            await lives.check()

    asyncio.run(scenario())
