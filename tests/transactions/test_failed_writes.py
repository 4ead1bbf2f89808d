"""A flush that fails: transactions are refused until the store takes writes, then are as it has it.

Whether the failed write was done decides which of the two futures it is, never a mixture.
"""

import asyncio
from collections.abc import AsyncIterator, Awaitable

import pytest
from prometheus_client import CollectorRegistry

from tables.store_tables import StoreTables
from tests.faults.moody_store import MoodyStore
from tms.core.clock import ManualClock
from tms.core.errors import StoreUnavailable, TransactionNotInProgress
from tms.core.limits import Limits
from tms.core.message import FIRST_ID
from tms.core.topic import TopicId
from tms.core.transactions import StartRequest, TransactionStatus
from tms.node import OpenServices, services_on
from tms.transactions import journal

pytestmark = [pytest.mark.anyio, pytest.mark.parametrize("is_done", [False, True])]

NOW_MS = 1_800_000_000_000
TOPIC = TopicId("default", "t")
SHORT = StartRequest()


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture
def store() -> MoodyStore:
    return MoodyStore()


@pytest.fixture
async def services(
    store: MoodyStore, monkeypatch: pytest.MonkeyPatch
) -> AsyncIterator[OpenServices]:
    monkeypatch.setattr(journal, "_RECOVER_EVERY_S", 0.01)
    clock, registry = ManualClock(NOW_MS), CollectorRegistry()
    services = await services_on(StoreTables(store), Limits(), clock, registry)
    await services.messaging.create_topic(TOPIC)
    yield services
    store.settle()
    await services.close()


async def fails(store: MoodyStore, work: Awaitable[object], *, is_done: bool) -> None:
    store.fail_next(is_done=is_done)
    with pytest.raises(StoreUnavailable):
        await work


async def recovered(services: OpenServices) -> None:
    """Return when transactions are taken again."""
    async with asyncio.timeout(10):
        while True:
            try:
                await services.transactions.in_progress()
            except StoreUnavailable:
                await asyncio.sleep(0.01)
            else:
                return


async def committed(services: OpenServices) -> list[bytes]:
    blocks = services.messaging.poll(TOPIC, FIRST_ID, committed=True)
    return [message.payload async for block in blocks for message in block]


async def test_a_commit_that_failed_is_whole_or_not_at_all(
    services: OpenServices, store: MoodyStore, *, is_done: bool
) -> None:
    tx = await services.transactions.start(SHORT)
    await services.messaging.publish(TOPIC, [b"1"], tx.write_pointer)
    await fails(store, services.transactions.commit(tx.transaction_id), is_done=is_done)
    for refused in (
        services.transactions.start(SHORT),
        services.transactions.info(tx.transaction_id),
        services.messaging.publish(TOPIC, [b"2"], tx.write_pointer),
        committed(services),
    ):
        with pytest.raises(StoreUnavailable):
            await refused
    store.settle()
    await recovered(services)

    info = await services.transactions.info(tx.transaction_id)
    assert info.status is (
        TransactionStatus.COMMITTED if is_done else TransactionStatus.IN_PROGRESS
    )
    assert await committed(services) == ([b"1"] if is_done else [])
    if not is_done:
        await services.transactions.commit(tx.transaction_id)
        assert await committed(services) == [b"1"]


async def test_a_start_that_failed_leaves_no_reader_stopped_for_ever(
    services: OpenServices, store: MoodyStore, *, is_done: bool
) -> None:
    await fails(store, services.transactions.start(SHORT), is_done=is_done)
    store.settle()
    await recovered(services)

    assert len(await services.transactions.in_progress()) == is_done
    done = await services.messaging.publish_all({TOPIC: [b"1"]})
    assert done.write_pointer > 0
    assert await committed(services) == [b"1"]


async def test_an_invalidation_that_failed_is_one_or_the_other(
    services: OpenServices, store: MoodyStore, *, is_done: bool
) -> None:
    tx = await services.transactions.start(SHORT)
    await services.messaging.publish(TOPIC, [b"1"], tx.write_pointer)
    await fails(store, services.transactions.invalidate(tx.transaction_id), is_done=is_done)
    store.settle()
    await recovered(services)

    if is_done:
        with pytest.raises(TransactionNotInProgress):
            await services.transactions.commit(tx.transaction_id)
        assert await committed(services) == []
    else:
        await services.transactions.commit(tx.transaction_id)
        assert await committed(services) == [b"1"]


async def test_what_only_shared_a_failed_flush_with_a_publish_goes_on(
    services: OpenServices, store: MoodyStore, *, is_done: bool
) -> None:
    """A flush without edits that fails leaves the state of transactions as it is."""
    tx = await services.transactions.start(SHORT)
    await fails(store, services.messaging.publish(TOPIC, [b"plain"]), is_done=is_done)
    store.settle()
    await services.transactions.commit(tx.transaction_id)
    assert await committed(services) == ([b"plain"] if is_done else [])
