"""A request that waits for the read of an earlier one gets no answer from before it began."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from threading import Event
from typing import Any

import pytest
from prometheus_client import CollectorRegistry

from tables.store import SUBSCRIPTION
from tables.store_tables import StoreTables
from tests.contracts.store_contract import rows_of
from tests.manual_clock import ManualClock
from tests.messaging.conftest import NOW_MS, TOPIC
from tests.messaging.groups.stores_of_groups import KeptStore
from tests.waiting import WAIT_S_MAX, turns, until
from tms.core.errors import TopicNotFound
from tms.core.limits import Limits
from tms.core.values.groups import Take
from tms.messaging.groups.service import GroupService
from tms.messaging.service import Service
from tms.server.node import OpenServices, services_on

pytestmark = pytest.mark.anyio


class FirstIsSlow:
    """A read whose first call has its result early, and returns it late."""

    def __init__(self, read: Callable[..., Any]) -> None:
        self._read = read
        self._is_first = True
        self.has_read, self.passes = Event(), Event()

    def __call__(self, *arguments: Any) -> Any:
        is_first, self._is_first = self._is_first, False
        found = self._read(*arguments)
        if is_first:
            self.has_read.set()
            assert self.passes.wait(WAIT_S_MAX)
        return found


class Store(KeptStore):
    """A memory store whose reads do not wait for one another."""

    reads_at_once = 2


@pytest.fixture
def store() -> Store:
    return Store()


@asynccontextmanager
async def opened(store: Store) -> AsyncIterator[OpenServices]:
    tables, clock = StoreTables(store), ManualClock(NOW_MS)
    services = await services_on(tables, Limits(), clock, CollectorRegistry())
    try:
        yield services
    finally:
        await services.close()


@pytest.fixture
async def services(store: Store) -> AsyncIterator[OpenServices]:
    async with opened(store) as services:
        yield services


@pytest.fixture
def slow(services: OpenServices, monkeypatch: pytest.MonkeyPatch) -> FirstIsSlow:
    """The read of a topic's row."""
    assert isinstance(services.messaging, Service)
    metadata = services.messaging._engine.tables.metadata
    slow = FirstIsSlow(metadata.get)
    monkeypatch.setattr(metadata, "get", slow)
    return slow


async def test_a_topic_that_was_created_is_found(services: OpenServices, slow: FirstIsSlow) -> None:
    messaging = services.messaging
    early = asyncio.ensure_future(messaging.topic(TOPIC))
    await until(slow.has_read.is_set)
    await messaging.create_topic(TOPIC)
    late = asyncio.ensure_future(messaging.topic(TOPIC))
    await turns()
    slow.passes.set()
    assert (await late).exists
    assert (await early).exists
    assert await messaging.publish(TOPIC, [b"x"])


async def test_a_topic_that_was_not_created_is_not_found(
    services: OpenServices, slow: FirstIsSlow
) -> None:
    messaging = services.messaging
    both = [asyncio.ensure_future(messaging.topic(TOPIC)) for _ in range(2)]
    await until(slow.has_read.is_set)
    slow.passes.set()
    for each in both:
        with pytest.raises(TopicNotFound):
            await each


async def test_a_group_of_a_topic_that_was_made_again_is_created(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with opened(store) as services:
        await services.messaging.create_topic(TOPIC)
        await services.groups.create_group(TOPIC, "g")
    async with opened(store) as services:  # the group is not in memory
        messaging, groups = services.messaging, services.groups
        assert isinstance(groups, GroupService)
        table = groups._groups._table
        slow = FirstIsSlow(table.read)
        monkeypatch.setattr(table, "read", slow)
        early = asyncio.ensure_future(groups.take(TOPIC, "g", Take("a", 1)))
        await until(slow.has_read.is_set)
        await messaging.delete_topic(TOPIC)
        await messaging.create_topic(TOPIC)
        late = asyncio.ensure_future(groups.create_group(TOPIC, "g"))
        await until(lambda: len(rows_of(store, SUBSCRIPTION)) == 2, "its row is written")
        await turns(20)  # to show the group, the request waits for the earlier one's read
        slow.passes.set()
        assert (await late).name == "g"
        assert (await early).delivery is None
