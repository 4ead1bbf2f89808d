"""Writes are refused only for rows that an earlier write may still change late."""

from collections.abc import AsyncIterator, Sequence

import pytest
from prometheus_client import CollectorRegistry

from tables.memory import MemoryStore
from tables.store import MESSAGE, SUBSCRIPTION
from tables.store_tables import StoreTables
from tests.manual_clock import ManualClock
from tests.transactions.reading import NOW_MS, SHORT, A, everything, polled
from tms.core.errors import StoreUnavailable
from tms.core.limits import Limits
from tms.core.services.commits import CommitRequest
from tms.core.services.transactions import TransactionStatus
from tms.core.values.subscriptions import Advance
from tms.server.node import OpenServices, services_on

pytestmark = pytest.mark.anyio

ID = b"\x01" * 20
VERSION = NOW_MS * 1000


class DoubtingStore(MemoryStore):
    """A store in which earlier writes to one table may still take effect."""

    doubted: str | None = None

    def check_unanswered(self, table: str, keys: Sequence[bytes]) -> None:
        if keys and table == self.doubted:
            raise StoreUnavailable(reason="made to doubt")


@pytest.fixture
def store() -> DoubtingStore:
    return DoubtingStore()


@pytest.fixture
async def services(store: DoubtingStore, clock: ManualClock) -> AsyncIterator[OpenServices]:
    services = await services_on(StoreTables(store), Limits(), clock, CollectorRegistry())
    await services.messaging.create_topic(A)
    await services.subscriptions.create_subscription(A, "s")
    yield services
    await services.close()


async def test_a_commit_that_moves_is_refused_and_made_later(
    store: DoubtingStore, services: OpenServices
) -> None:
    transactions, subscriptions = services.transactions, services.subscriptions
    tx = await transactions.start(SHORT)
    await services.messaging.publish(A, [b"1"], tx.write_pointer)
    store.doubted = SUBSCRIPTION
    with pytest.raises(StoreUnavailable):
        await transactions.commit(tx.transaction_id, CommitRequest([Advance(A, "s", ID, VERSION)]))
    info = await transactions.info(tx.transaction_id)
    assert info.status is TransactionStatus.IN_PROGRESS
    assert await polled(services, A) == []

    store.doubted = None
    await transactions.commit(tx.transaction_id, CommitRequest([Advance(A, "s", ID, VERSION)]))
    assert await polled(services, A) == [b"1"]
    assert (await subscriptions.subscription(A, "s")).version == VERSION + 1


async def test_positions_are_moved_made_and_deleted_later(
    store: DoubtingStore, services: OpenServices
) -> None:
    subscriptions = services.subscriptions
    store.doubted = SUBSCRIPTION
    for asked in (
        subscriptions.advance(Advance(A, "s", ID, VERSION)),
        subscriptions.create_subscription(A, "new"),
        subscriptions.delete_subscription(A, "s"),
    ):
        with pytest.raises(StoreUnavailable):
            await asked
    await services.messaging.publish(A, [b"goes on"])
    assert [found.name for found in await subscriptions.subscriptions(A)] == ["s"]

    store.doubted = None
    await subscriptions.advance(Advance(A, "s", ID, VERSION))
    await subscriptions.create_subscription(A, "new")
    await subscriptions.delete_subscription(A, "s")
    assert [found.name for found in await subscriptions.subscriptions(A)] == ["new"]


async def test_a_rollback_is_made_later(store: DoubtingStore, services: OpenServices) -> None:
    tx = await services.transactions.start(SHORT)
    published = (await services.messaging.publish(A, [b"undone"], tx.write_pointer)).rollback_range
    assert published is not None
    store.doubted = MESSAGE
    with pytest.raises(StoreUnavailable):
        await services.messaging.rollback(A, published)
    await services.messaging.publish(A, [b"goes on"])
    assert await everything(services, A) == [b"undone", b"goes on"]

    store.doubted = None
    await services.messaging.rollback(A, published)
    await services.transactions.abort(tx.transaction_id)
    assert await polled(services, A) == [b"goes on"]


async def test_what_is_not_rolled_back_after_all_is_seen(
    store: DoubtingStore, services: OpenServices
) -> None:
    tx = await services.transactions.start(SHORT)
    published = (await services.messaging.publish(A, [b"kept"], tx.write_pointer)).rollback_range
    assert published is not None
    store.doubted = MESSAGE
    with pytest.raises(StoreUnavailable):
        await services.messaging.rollback(A, published)
    await services.transactions.commit(tx.transaction_id)

    assert await polled(services, A) == [b"kept"]
