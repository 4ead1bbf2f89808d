"""A refusal by a full queue changes nothing, in memory or after a restart."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import suppress
from typing import Any

import pytest
from prometheus_client import CollectorRegistry

from tables.store_tables import StoreTables
from tests.manual_clock import ManualClock
from tests.messaging.conftest import FaultyStore
from tests.messaging.polled import settle
from tests.transactions.reading import SHORT, A, B, everything, polled
from tests.waiting import in_time, turns, until
from tms.core.errors import OutcomeUnknown, QueueFull, StoreUnavailable, TopicNotFound
from tms.core.limits import Limits
from tms.core.services.commits import CommitRequest, Stored
from tms.core.services.messaging import RollbackRange
from tms.core.services.transactions import TransactionStatus
from tms.core.values.subscriptions import Advance
from tms.server.node import OpenServices, services_on

pytestmark = pytest.mark.anyio

ID = b"\x01" * 20
BOUNDS = {
    "requests": Limits(queue_requests_max=1),
    "bytes": Limits(queue_bytes_max=400, request_bytes_max=400, message_bytes_max=400),
}


@pytest.fixture
def store() -> FaultyStore:
    return FaultyStore()


@pytest.fixture(params=list(BOUNDS))
def limits(request: pytest.FixtureRequest) -> Limits:
    return BOUNDS[request.param]


@pytest.fixture
async def services(
    store: FaultyStore, limits: Limits, clock: ManualClock
) -> AsyncIterator[OpenServices]:
    services = await opened(store, limits, clock)
    for topic_id in (A, B):
        await services.messaging.create_topic(topic_id)
    await services.subscriptions.create_subscription(A, "s")
    yield services
    store.passed.set()
    await services.close()


async def opened(store: FaultyStore, limits: Limits, clock: ManualClock) -> OpenServices:
    store._closed = False
    return await services_on(StoreTables(store), limits, clock, CollectorRegistry())


class FullQueue:
    """A store that blocks, and a queue without room."""

    def __init__(self, services: OpenServices, store: FaultyStore) -> None:
        self._services, self._store = services, store

    async def __aenter__(self) -> None:
        messaging: Any = self._services.messaging
        await messaging.topic(B)  # loads the topic, so that a publish is queued at once
        self._store.passed.clear()
        queue = messaging._writer._queue
        self._waiting = []
        for waits in (0, 1):  # one publish is being written, the other one waits
            self._waiting.append(asyncio.create_task(messaging.publish(B, [b"x" * 290])))
            await settle()
            await until(lambda waits=waits: len(queue) == waits)  # type: ignore[misc]

    async def __aexit__(self, *_: object) -> None:
        self._store.passed.set()
        await asyncio.gather(*self._waiting)


async def transactional(
    services: OpenServices, count: int = 1, per_request: int = 1
) -> tuple[int, RollbackRange]:
    """Return a transaction that has published to A, and the range of all its messages."""
    tx = await services.transactions.start(SHORT)
    ranges = []
    for _ in range(count):
        payloads = [b"m"] * per_request
        found = await services.messaging.publish(A, payloads, tx.write_pointer)
        assert found.rollback_range is not None
        ranges.append(found.rollback_range)
    first, last = ranges[0], ranges[-1]
    whole = RollbackRange(
        tx.write_pointer,
        first.start_timestamp,
        first.start_sequence_id,
        last.end_timestamp,
        last.end_sequence_id,
    )
    return tx.transaction_id, whole


async def test_a_rollback_that_is_refused_hides_nothing(
    services: OpenServices, store: FaultyStore, limits: Limits, clock: ManualClock
) -> None:
    transaction_id, whole = await transactional(services)
    async with FullQueue(services, store):
        with pytest.raises(QueueFull):
            await services.messaging.rollback(A, whole)
    await services.transactions.commit(transaction_id)

    assert await polled(services, A) == [b"m"]
    await services.close()
    again = await opened(store, limits, clock)
    try:
        assert await polled(again, A) == [b"m"]
    finally:
        await again.close()


ASKED: dict[str, Callable[[OpenServices, int], Awaitable[Any]]] = {
    "publish": lambda s, t: s.messaging.publish(A, [b"new"], t),
    "publish what is stored": lambda s, t: s.messaging.publish(A, (), t),
    "publish all": lambda s, _: s.messaging.publish_all({A: [b"new"], B: [b"new"]}),
    "store": lambda s, t: s.messaging.store(A, [b"new"], t),
    "start": lambda s, _: s.transactions.start(SHORT),
    "can commit": lambda s, t: s.transactions.can_commit(t, [b"key"]),
    "commit": lambda s, t: s.transactions.commit(t, CommitRequest(publish=[Stored(A, t)])),
    "abort": lambda s, t: s.transactions.abort(t),
    "invalidate": lambda s, t: s.transactions.invalidate(t),
    "checkpoint": lambda s, t: s.transactions.checkpoint(t),
    "truncate": lambda s, t: s.transactions.truncate_invalid_ids([t]),
    "create a subscription": lambda s, _: s.subscriptions.create_subscription(A, "new"),
    "advance": lambda s, _: s.subscriptions.advance(Advance(A, "s", ID, 0)),
    "delete a subscription": lambda s, _: s.subscriptions.delete_subscription(A, "s"),
    "invert published": lambda s, t: s.messaging.invalid_entries.invert_published([t]),
}


async def seen(services: OpenServices, transaction_id: int) -> Any:
    """Return everything that a caller can see of topics, transactions and positions."""
    info = await services.transactions.info(transaction_id)
    latest = await services.transactions.start(SHORT)
    await services.transactions.abort(latest.transaction_id)
    return (
        await everything(services, A),
        await polled(services, A),
        await polled(services, A, transaction=transaction_id),
        (info.status, info.write_pointers, info.topics),
        (latest.in_progress, latest.invalids),
        await services.subscriptions.subscriptions(A),
    )


@pytest.mark.parametrize("asked", list(ASKED))
async def test_each_request_that_is_refused_changes_nothing(
    services: OpenServices, store: FaultyStore, asked: str
) -> None:
    transaction_id, _ = await transactional(services)
    await services.messaging.store(A, [b"stored"], transaction_id)
    before = await seen(services, transaction_id)

    async with FullQueue(services, store):
        with pytest.raises(QueueFull):
            async with in_time():
                await ASKED[asked](services, transaction_id)

    assert await seen(services, transaction_id) == before


async def test_what_times_out_while_the_queue_is_full_does_so_later(
    services: OpenServices, store: FaultyStore, clock: ManualClock
) -> None:
    transaction_id, _ = await transactional(services)
    transactions: Any = services.transactions
    async with FullQueue(services, store):
        clock.advance(60_000)
        with pytest.raises(QueueFull):
            await transactions._expire()
    assert (await transactions.info(transaction_id)).status is TransactionStatus.IN_PROGRESS
    await transactions._expire()
    assert (await transactions.info(transaction_id)).status is TransactionStatus.INVALID


class TestARangeOfSeveralRequests:
    """Rolling back several publishes may take several requests; for one publish, one is enough."""

    @pytest.fixture
    def limits(self) -> Limits:
        return Limits(queue_requests_max=1, request_messages_max=2)

    async def test_it_continues_to_the_end_once_it_was_taken(
        self, services: OpenServices, store: FaultyStore
    ) -> None:
        transaction_id, whole = await transactional(services, count=5)
        store.passed.clear()
        undone = asyncio.create_task(services.messaging.rollback(A, whole))
        messaging: Any = services.messaging
        waiting: list[asyncio.Task[Any]] = []
        while not undone.done():
            store.passed.clear()
            before = len(store.batches)
            waiting += [  # the queue is full whenever the rollback queues its next part
                asyncio.create_task(services.messaging.publish(B, [b"x"])) for _ in range(3)
            ]
            await until(lambda: messaging._writer._is_flushing)
            await turns(20)
            store.passed.set()
            await until(lambda before=before: len(store.batches) > before)  # type: ignore[misc]
        await undone
        await asyncio.gather(*waiting, return_exceptions=True)
        assert any(isinstance(each.exception(), QueueFull) for each in waiting)

        await services.transactions.commit(transaction_id)
        assert await polled(services, A) == []

    async def test_it_continues_to_the_end_though_the_caller_has_gone(
        self, services: OpenServices, store: FaultyStore
    ) -> None:
        _, whole = await transactional(services, count=5)
        store.passed.clear()
        undone = asyncio.create_task(services.messaging.rollback(A, whole))
        await until(lambda: services.messaging._writer._is_flushing)
        undone.cancel()
        with suppress(asyncio.CancelledError):
            await undone
        store.passed.set()
        before = len(store.batches)
        await services.close()
        assert store.batches[before : before + 3] == [2, 2, 1]

    async def test_a_commit_waits_for_its_end(
        self, services: OpenServices, store: FaultyStore
    ) -> None:
        transaction_id, whole = await transactional(services, count=5)
        store.writes_fail = True
        with pytest.raises(OutcomeUnknown):
            await services.messaging.rollback(A, whole)
        store.writes_fail = False
        with pytest.raises(StoreUnavailable):
            await services.transactions.commit(transaction_id)

        await services.messaging.rollback(A, whole)
        await services.transactions.commit(transaction_id)
        assert await polled(services, A) == []

    async def test_a_topic_that_goes_in_the_meantime_leaves_nothing_to_wait_for(
        self, services: OpenServices, store: FaultyStore
    ) -> None:
        transaction_id, whole = await transactional(services, count=5)
        store.writes_fail = True
        with pytest.raises(OutcomeUnknown):
            await services.messaging.rollback(A, whole)
        store.writes_fail = False
        await services.messaging.delete_topic(A)
        with pytest.raises(TopicNotFound):
            await services.messaging.rollback(A, whole)
        await services.transactions.commit(transaction_id)

    async def test_what_is_published_in_the_meantime_is_not_rolled_back(
        self, services: OpenServices, store: FaultyStore
    ) -> None:
        tx = await services.transactions.start(SHORT)
        await services.messaging.publish(A, [b"1"], tx.write_pointer)
        every = RollbackRange(tx.write_pointer, 0, 0, 2**62, 0)
        store.passed.clear()
        undone = asyncio.create_task(services.messaging.rollback(A, every))
        await until(lambda: services.messaging._writer._is_flushing)
        publishing = asyncio.create_task(services.messaging.publish(A, [b"2"], tx.write_pointer))
        await settle()
        store.passed.set()
        await asyncio.gather(undone, publishing)

        assert await services.transactions.abort(tx.transaction_id) is TransactionStatus.ABORTED
        assert await polled(services, A) == []
