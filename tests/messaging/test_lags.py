"""The lag of subscriptions in metrics, counted from the cache and from the table."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
from prometheus_client import CollectorRegistry

from tables.memory import MemoryStore
from tables.store_tables import StoreTables
from tests.manual_clock import ManualClock
from tests.messaging.conftest import NOW_MS
from tms.core.limits import Limits
from tms.core.services.transactions import StartRequest
from tms.core.values.message import FIRST_ID
from tms.core.values.reading import Isolation, Reading
from tms.core.values.subscriptions import Advance
from tms.core.values.topic import TopicId
from tms.messaging import lags
from tms.messaging.service import Service
from tms.messaging.store_runtime import StoreRuntime
from tms.messaging.subscriptions import SubscriptionService
from tms.messaging.traffic import OTHER
from tms.messaging.write_requests import Writing
from tms.server.node import OpenServices, open_services

pytestmark = pytest.mark.anyio
TOPIC = TopicId("ns", "t")


class Opened:
    """Messaging and subscriptions on a store, and their metrics."""

    def __init__(self, store: MemoryStore, clock: ManualClock, limits: Limits) -> None:
        self.registry = CollectorRegistry()
        engine = StoreRuntime(StoreTables(store), limits, clock, self.registry)
        self.messaging = Service(Writing(engine))
        self.subscriptions = SubscriptionService(engine)

    async def lag(
        self, *names: str, of: TopicId = TOPIC
    ) -> list[tuple[float | None, float | None]]:
        """Measure again; return the lag of subscriptions in messages and seconds."""
        await self.subscriptions.lags.refresh()
        return [self.told(of.namespace, of.name, name) for name in names]

    def told(self, *names: str) -> tuple[float | None, float | None]:
        labels = dict(zip(("namespace", "topic", "subscription"), names, strict=True))
        value = self.registry.get_sample_value
        return (
            value("tms_subscription_lag_messages", labels),
            value("tms_subscription_lag_seconds", labels),
        )

    async def publish(self, count: int, topic_id: TopicId = TOPIC) -> list[bytes]:
        """Publish; return the ids of all messages of the topic."""
        await self.messaging.publish(topic_id, [b"x"] * count)
        blocks = self.messaging.poll(topic_id, Reading(FIRST_ID, limit=1_000_000))
        return [message.id async for block in blocks for message in block]

    async def move(self, name: str, after: bytes) -> None:
        now = await self.subscriptions.subscription(TOPIC, name)
        await self.subscriptions.advance(Advance(TOPIC, name, after, now.version))


@asynccontextmanager
async def opened(
    store: MemoryStore | None = None, clock: ManualClock | None = None, **limits: Any
) -> AsyncIterator[Opened]:
    it = Opened(store or MemoryStore(), clock or ManualClock(NOW_MS), Limits(**limits))
    try:
        yield it
    finally:
        await it.messaging.close()


@pytest.mark.parametrize("cache_bytes_max", [64 * 1024 * 1024, 0])
async def test_what_is_behind_a_position_is_counted(cache_bytes_max: int) -> None:
    clock = ManualClock(NOW_MS)
    async with opened(clock=clock, cache_bytes_max=cache_bytes_max) as it:
        await it.messaging.create_topic(TOPIC, {"ttl": 100})
        await it.subscriptions.create_subscription(TOPIC, "s")
        assert await it.lag("s", "none") == [(0, 0), (None, None)]

        ids = await it.publish(3)
        clock.advance(10_000)
        ids = await it.publish(2)
        assert await it.lag("s") == [(5, 10)]
        await it.move("s", ids[0])
        assert await it.lag("s") == [(4, 10)]
        await it.move("s", ids[2])
        clock.advance(1_000)
        assert await it.lag("s") == [(2, 1)]
        await it.move("s", ids[4])
        assert await it.lag("s") == [(0, 0)]
        await it.move("s", ids[0])
        clock.advance(90_000)  # the first three have expired
        assert await it.lag("s") == [(2, 91)]
        await it.subscriptions.delete_subscription(TOPIC, "s")
        assert await it.lag("s") == [(None, None)]


async def test_a_subscription_whose_consumer_is_gone_is_reported_after_a_restart() -> None:
    store, clock = MemoryStore(), ManualClock(NOW_MS)
    async with opened(store, clock) as it:
        await it.messaging.create_topic(TOPIC)
        await it.subscriptions.create_subscription(TOPIC, "s")
        await it.publish(7)
    clock.advance(5_000)
    again = MemoryStore()
    again._tables = store._tables
    async with opened(again, clock) as it:
        assert await it.lag("s") == [(7, 5)]
        assert len(it.messaging._engine.states) == 0, "no topic is loaded for it"


async def test_those_of_dead_generations_are_not_told_of() -> None:
    async with opened() as it:
        await it.messaging.create_topic(TOPIC)
        await it.subscriptions.create_subscription(TOPIC, "s")
        await it.publish(1)
        await it.messaging.delete_topic(TOPIC)
        assert await it.lag("s") == [(None, None)]
        await it.messaging.create_topic(TOPIC)
        assert await it.lag("s") == [(None, None)]
        await it.subscriptions.create_subscription(TOPIC, "s")
        assert await it.lag("s") == [(0, 0)]


async def test_subscriptions_beyond_the_bound_are_reported_together() -> None:
    clock = ManualClock(NOW_MS)
    async with opened(clock=clock, metric_series_max=2) as it:
        await it.messaging.create_topic(TOPIC)
        for name in ("a", "b", "c", "d"):
            await it.subscriptions.create_subscription(TOPIC, name)
        ids = await it.publish(3)
        await it.move("c", ids[1])
        clock.advance(4_000)

        assert await it.lag("a", "b", "c", "d") == [(3, 4), (3, 4), (None, None), (None, None)]
        assert it.told(OTHER, OTHER, OTHER) == (4, 4)


async def test_a_look_reads_so_many_rows_and_glances_at_the_rest_and_the_next_continues(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(lags, "COUNTED_MAX", 10)
    monkeypatch.setattr(lags, "_GLANCED", 5)
    monkeypatch.setattr(lags, "ROWS_MAX", 25)
    async with opened(cache_bytes_max=0) as it:
        await it.messaging.create_topic(TOPIC)
        names = ("a", "b", "c", "d", "e")
        for name in names:
            await it.subscriptions.create_subscription(TOPIC, name)
        ids = await it.publish(100)
        await it.move("b", ids[-4])

        first = await it.lag(*names)
        assert [messages for messages, _ in first] == [10, 3, 10, 5, 5]
        second = await it.lag(*names)
        assert [messages for messages, _ in second] == [10, 3, 10, 10, 10]


async def test_a_look_ends_in_time_whatever_there_is(monkeypatch: pytest.MonkeyPatch) -> None:
    class Slow(ManualClock):
        """A clock that advances by 200 milliseconds each time it is read."""

        def steady_ms(self) -> int:
            self.advance(200)
            return super().steady_ms()

    clock = Slow(NOW_MS)
    async with opened(clock=clock) as it:
        await it.messaging.create_topic(TOPIC)
        names = ("a", "b", "c", "d", "e")
        for name in names:
            await it.subscriptions.create_subscription(TOPIC, name)
        shown = [
            sum(messages is not None for messages, _ in await it.lag(*names)) for _ in range(3)
        ]
        assert shown == [2, 4, 5]


async def test_what_cannot_be_read_stays_as_it_was(caplog: pytest.LogCaptureFixture) -> None:
    store = MemoryStore()
    async with opened(store) as it:
        await it.messaging.create_topic(TOPIC)
        await it.subscriptions.create_subscription(TOPIC, "s")
        await it.publish(2)
        assert (await it.lag("s"))[0][0] == 2
        batch = store.batch()
        batch.put("subscription", b"damaged", b"")
        store.write(batch)
        await it.publish(1)

        assert (await it.lag("s"))[0][0] == 2
        assert "cannot read the lags" in caplog.text


@pytest.fixture(params=[64 * 1024 * 1024, 0], ids=["cached", "from-the-table"])
async def whole(request: pytest.FixtureRequest) -> AsyncIterator[OpenServices]:
    """A service with transactions, and a subscription `s` on its topic."""
    services = await open_services(
        "memory:",
        limits=Limits(cache_bytes_max=request.param),
        clock=ManualClock(NOW_MS),
        registry=CollectorRegistry(),
    )
    await services.messaging.create_topic(TOPIC)
    await services.subscriptions.create_subscription(TOPIC, "s")
    yield services
    await services.close()


async def behind(services: OpenServices) -> int | None:
    """Return how many messages the subscription is behind, None if there is no first one."""
    await services.subscriptions.lags.refresh()
    [(_, lag)] = services.subscriptions.lags._lags.values()
    assert lag is not None
    assert (lag.first_ms is None) == (lag.messages == 0)
    return None if lag.is_at_least else lag.messages


async def move(services: OpenServices, after: bytes) -> None:
    now = await services.subscriptions.subscription(TOPIC, "s")
    await services.subscriptions.advance(Advance(TOPIC, "s", after, now.version))


async def committed_ids(services: OpenServices) -> list[bytes]:
    reading = Reading(FIRST_ID, limit=1_000_000, view=Isolation.COMMITTED)
    blocks = services.messaging.poll(TOPIC, reading)
    return [message.id async for block in blocks for message in block]


async def test_each_message_of_a_stored_batch_counts(whole: OpenServices) -> None:
    await whole.messaging.publish(TOPIC, [b"first"])
    tx = await whole.transactions.start(StartRequest())
    await whole.messaging.store(TOPIC, [b"x"] * 1000, tx.write_pointer)
    await whole.messaging.store(TOPIC, [b"y"] * 1500, tx.write_pointer)
    await whole.messaging.publish(TOPIC, [], tx.write_pointer)
    await whole.messaging.publish(TOPIC, [b"last"])
    assert await behind(whole) == 2502, "those in progress are waited for"
    await whole.transactions.commit(tx.transaction_id)
    assert await behind(whole) == 2502

    ids = await committed_ids(whole)
    for read in (1, 2, 1001, 1002, 2500, 2501, 2502):
        await move(whole, ids[read - 1])
        assert await behind(whole) == 2502 - read


@pytest.mark.parametrize("end", ["abort", "invalidate"])
async def test_what_is_rolled_back_or_invalid_does_not_count(whole: OpenServices, end: str) -> None:
    """Not even before its entries are inverted, as a committed reader never gets them."""
    tx = await whole.transactions.start(StartRequest())
    published = await whole.messaging.publish(TOPIC, [b"x"] * 10, tx.write_pointer)
    await whole.messaging.store(TOPIC, [b"y"] * 10, tx.write_pointer)
    await whole.messaging.publish(TOPIC, [], tx.write_pointer)
    assert await behind(whole) == 20
    if end == "abort":
        assert published.rollback_range is not None
        await whole.messaging.rollback(TOPIC, published.rollback_range)
        await whole.transactions.abort(tx.transaction_id)
    else:
        await whole.transactions.invalidate(tx.transaction_id)
    assert await behind(whole) == 0
    await whole.messaging.publish(TOPIC, [b"z"])
    assert await behind(whole) == 1


async def test_where_a_bound_ends_the_counting_at_least_so_many_are_behind(
    whole: OpenServices, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lags, "COUNTED_MAX", 10)
    tx = await whole.transactions.start(StartRequest())
    await whole.messaging.store(TOPIC, [b"x"] * 11, tx.write_pointer)
    await whole.messaging.publish(TOPIC, [], tx.write_pointer)
    await whole.transactions.commit(tx.transaction_id)
    assert await behind(whole) is None
    await move(whole, (await committed_ids(whole))[0])
    assert await behind(whole) == 10


async def test_many_rolled_back_messages_do_not_keep_others_from_their_turn(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(lags, "ROWS_MAX", 25)
    services = await open_services(
        "memory:",
        limits=Limits(cache_bytes_max=0),
        clock=ManualClock(NOW_MS),
        registry=CollectorRegistry(),
    )
    try:
        await services.messaging.create_topic(TOPIC)
        for name in ("a", "b"):
            await services.subscriptions.create_subscription(TOPIC, name)
        tx = await services.transactions.start(StartRequest())
        await services.messaging.publish(TOPIC, [b"x"] * 30, tx.write_pointer)
        await services.transactions.invalidate(tx.transaction_id)
        await services.subscriptions.lags.refresh()
        known = [lag is not None for _, lag in services.subscriptions.lags._lags.values()]
        assert known == [True, False], "a glance that has found nothing tells nothing"
        await services.subscriptions.lags.refresh()
        found = [lag for _, lag in services.subscriptions.lags._lags.values()]
        assert [lag is not None and lag.is_at_least for lag in found] == [True, True]
    finally:
        await services.close()
