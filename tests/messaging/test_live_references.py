"""Stored messages are published once, however often requested, even across restarts."""

from collections.abc import AsyncIterator

import pytest
from prometheus_client import CollectorRegistry

from tables.store_tables import StoreTables
from tests.manual_clock import ManualClock
from tests.messaging.conftest import FaultyStore
from tests.transactions.reading import NOW_MS, SHORT, A, B, everything, polled
from tms.core.errors import OutcomeUnknown, TopicMoved
from tms.core.limits import Limits
from tms.core.services.commits import CommitRequest, Stored
from tms.core.services.messaging import NO_ENTRIES
from tms.core.values.message import FIRST_ID
from tms.core.values.reading import Reading
from tms.core.values.transaction import ALL_VISIBLE_LATEST
from tms.messaging import live_references
from tms.messaging.service import Service
from tms.messaging.store_runtime import StoreRuntime
from tms.messaging.write_requests import Writing
from tms.server.node import OpenServices, services_on

pytestmark = pytest.mark.anyio


class Opened:
    """Services on a store that outlives them."""

    def __init__(self, store: FaultyStore, clock: ManualClock) -> None:
        self.store, self.clock = store, clock

    async def open(self) -> OpenServices:
        self.store._closed = False
        tables, registry = StoreTables(self.store), CollectorRegistry()
        self.services = await services_on(tables, Limits(), self.clock, registry)
        self.messaging = self.services.messaging
        return self.services

    async def restart(self) -> None:
        await self.services.close()
        await self.open()


@pytest.fixture
async def opened(store: FaultyStore, clock: ManualClock) -> AsyncIterator[Opened]:
    opened = Opened(store, clock)
    services = await opened.open()
    for topic_id in (A, B):
        await services.messaging.create_topic(topic_id)
    yield opened
    await opened.services.close()


async def started(opened: Opened) -> int:
    return (await opened.services.transactions.start(SHORT)).write_pointer


@pytest.mark.parametrize("restarts", [False, True])
async def test_what_was_stored_is_published_once(opened: Opened, restarts: bool) -> None:  # noqa: FBT001
    pointer = await started(opened)
    await opened.messaging.store(A, [b"a"], pointer)
    first = await opened.messaging.publish(A, (), pointer)
    if restarts:
        await opened.restart()
    await opened.messaging.store(A, [b"b"], pointer)
    again = await opened.messaging.publish(A, (), pointer)
    assert again == first
    await opened.messaging.publish(A, [b"c"], pointer)
    assert await opened.messaging.publish(A, (), pointer) == first
    assert await everything(opened.services, A) == [b"a", b"b", b"c"]

    await opened.services.transactions.commit(pointer)
    assert await polled(opened.services, A) == [b"a", b"b", b"c"]


@pytest.mark.parametrize("restarts", [False, True])
async def test_after_a_rollback_all_that_is_stored_is_published_again(
    opened: Opened,
    restarts: bool,  # noqa: FBT001
) -> None:
    pointer = await started(opened)
    await opened.messaging.store(A, [b"a"], pointer)
    first = await opened.messaging.publish(A, (), pointer)
    assert first.rollback_range is not None
    await opened.messaging.rollback(A, first.rollback_range)
    if restarts:
        await opened.restart()
    await opened.messaging.store(A, [b"b"], pointer)
    second = await opened.messaging.publish(A, (), pointer)
    assert second.first_key > first.first_key
    assert await opened.messaging.publish(A, (), pointer) == second

    await opened.services.transactions.commit(pointer)
    assert await polled(opened.services, A) == [b"a", b"b"]


@pytest.mark.parametrize("restarts", [False, True])
async def test_a_commit_publishes_what_is_published_already_once(
    opened: Opened,
    restarts: bool,  # noqa: FBT001
) -> None:
    pointer = await started(opened)
    for topic_id in (A, B):
        await opened.messaging.store(topic_id, [b"a"], pointer)
    await opened.messaging.publish(A, (), pointer)
    if restarts:
        await opened.restart()
    await opened.services.transactions.commit(
        pointer, CommitRequest(publish=[Stored(A, pointer), Stored(B, pointer)])
    )
    assert await polled(opened.services, A) == [b"a"]
    assert await polled(opened.services, B) == [b"a"]


async def test_checkpoints_have_references_of_their_own(opened: Opened) -> None:
    transactions = opened.services.transactions
    pointer = await started(opened)
    later = (await transactions.checkpoint(pointer)).write_pointer
    for each, payload in ((pointer, b"a"), (later, b"b")):
        await opened.messaging.store(A, [payload], each)
        for _ in range(2):
            await opened.messaging.publish(A, (), each)
    await transactions.commit(pointer)
    assert await polled(opened.services, A) == [b"a", b"b"]


@pytest.mark.parametrize("is_written", [False, True])
async def test_after_a_write_that_may_have_been_done_it_is_published_once(
    opened: Opened,
    is_written: bool,  # noqa: FBT001
) -> None:
    pointer = await started(opened)
    await opened.messaging.store(A, [b"a"], pointer)
    store = opened.store
    store.writes_fail, store.writes_happen_all_the_same = True, is_written
    with pytest.raises(OutcomeUnknown):
        await opened.messaging.publish(A, (), pointer)
    store.writes_fail = store.writes_happen_all_the_same = False
    await opened.messaging.publish(A, (), pointer)
    await opened.services.transactions.commit(pointer)
    assert await polled(opened.services, A) == [b"a"]


async def test_a_reference_that_has_expired_is_replaced(opened: Opened, clock: ManualClock) -> None:
    await opened.messaging.update_topic(A, {"ttl": 5})
    pointer = await started(opened)
    await opened.messaging.store(A, [b"a"], pointer)
    first = await opened.messaging.publish(A, (), pointer)
    clock.advance(10_000)
    await opened.messaging.store(A, [b"b"], pointer)
    second = await opened.messaging.publish(A, (), pointer)
    assert second.first_key > first.first_key
    assert await everything(opened.services, A) == [b"b"]


async def test_a_topic_that_is_made_again_has_none(opened: Opened) -> None:
    pointer = await started(opened)
    await opened.messaging.store(A, [b"a"], pointer)
    await opened.messaging.publish(A, (), pointer)
    await opened.messaging.delete_topic(A)
    await opened.messaging.create_topic(A)
    await opened.messaging.store(A, [b"b"], pointer)
    await opened.messaging.publish(A, (), pointer)
    assert await everything(opened.services, A) == [b"b"]


async def test_a_condition_counts_all_the_same(opened: Opened) -> None:
    pointer = await started(opened)
    await opened.messaging.store(A, [b"a"], pointer)
    await opened.messaging.publish(A, (), pointer, if_last=NO_ENTRIES)
    with pytest.raises(TopicMoved):
        await opened.messaging.publish(A, (), pointer, if_last=NO_ENTRIES)


@pytest.mark.parametrize("kept", [1, 50_000])
async def test_pointers_of_another_manager_are_looked_up(
    store: FaultyStore, clock: ManualClock, kept: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(live_references, "_POINTERS_MAX", kept)
    clock.advance(120_000)  # some pointers are older than the service
    pointers = [(NOW_MS + by_ms) * 1_000_000 for by_ms in (1, 100_000, 150_000, 150_001)]

    async def publish(service: Service) -> list[bytes]:
        for pointer in pointers:
            await service.store(A, [b"%d" % pointer], pointer)
        for pointer in [*pointers, *pointers]:
            await service.publish(A, (), pointer)
        blocks = service.poll(A, Reading(FIRST_ID, view=ALL_VISIBLE_LATEST))
        return [message.payload async for block in blocks for message in block]

    for times in (1, 2):
        store._closed = False
        engine = StoreRuntime(StoreTables(store), Limits(), clock, CollectorRegistry())
        service = Service(Writing(engine))
        try:
            if times == 1:
                await service.create_topic(A)
            given = [b"%d" % pointer for pointer in pointers for _ in range(times)]
            assert await publish(service) == given
        finally:
            await service.close()
