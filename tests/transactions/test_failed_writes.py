"""After a failed flush, transactions are refused until the store recovers, then match the store.

The failed write was done completely or not at all, and the state after that is never a mixture.
"""

import asyncio
from collections.abc import AsyncIterator, Awaitable

import pytest
from prometheus_client import CollectorRegistry

from tables.store_tables import StoreTables
from tests.faults.moody_store import MoodyStore
from tests.manual_clock import ManualClock
from tests.transactions.reading import recovered
from tests.waiting import in_time, turns
from tms.core.errors import OutcomeUnknown, StoreUnavailable, TransactionNotInProgress
from tms.core.limits import Limits
from tms.core.services.commits import CommitRequest
from tms.core.services.transactions import StartRequest, TransactionStatus
from tms.core.values.message import FIRST_ID
from tms.core.values.reading import Isolation, Reading
from tms.core.values.subscriptions import Advance
from tms.core.values.topic import TopicId, TopicMetadata
from tms.server.node import OpenServices, services_on
from tms.transactions import journal

pytestmark = [pytest.mark.anyio, pytest.mark.parametrize("is_done", [False, True])]

NOW_MS = 1_800_000_000_000
TOPIC = TopicId("default", "t")
SHORT = StartRequest()


@pytest.fixture
def store() -> MoodyStore:
    return MoodyStore()


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock(NOW_MS)


@pytest.fixture
async def services(
    store: MoodyStore, clock: ManualClock, monkeypatch: pytest.MonkeyPatch
) -> AsyncIterator[OpenServices]:
    monkeypatch.setattr(journal, "_RECOVER_EVERY_S", 0.01)
    services = await services_on(StoreTables(store), Limits(), clock, CollectorRegistry())
    await services.messaging.create_topic(TOPIC)
    yield services
    store.settle()
    await services.close()


async def fails(store: MoodyStore, work: Awaitable[object], *, is_done: bool) -> None:
    store.fail_next(is_done=is_done)
    with pytest.raises(OutcomeUnknown):
        await work


async def seen_by(services: OpenServices, transaction_id: int) -> list[bytes]:
    blocks = services.messaging.poll(TOPIC, Reading(FIRST_ID, view=transaction_id))
    return [message.payload async for block in blocks for message in block]


async def committed(services: OpenServices) -> list[bytes]:
    blocks = services.messaging.poll(TOPIC, Reading(FIRST_ID, view=Isolation.COMMITTED))
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
        services.transactions.transaction(tx.transaction_id),
        services.messaging.publish(TOPIC, [b"2"], tx.write_pointer),
    ):
        with pytest.raises(StoreUnavailable):
            await refused
    assert await committed(services) == []
    assert await seen_by(services, tx.transaction_id) == [b"1"]
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


async def test_readers_continue_by_what_was_durable(
    services: OpenServices, store: MoodyStore, *, is_done: bool
) -> None:
    """Whatever the failed flush contained, and whether or not it was done."""
    transactions, messaging = services.transactions, services.messaging
    await services.subscriptions.create_subscription(TOPIC, "s")
    position = await services.subscriptions.subscription(TOPIC, "s")
    await messaging.publish(TOPIC, [b"plain"])
    reading, ending, invalid, marked = [await transactions.start(SHORT) for _ in range(4)]
    await messaging.publish(TOPIC, [b"own"], reading.write_pointer)
    failing = [
        transactions.commit(
            ending.transaction_id,
            CommitRequest([Advance(TOPIC, "s", b"\x01" * 20, position.version)]),
        ),
        transactions.invalidate(invalid.transaction_id),
        transactions.checkpoint(marked.transaction_id),
        transactions.start(SHORT),
        messaging.publish_all({TOPIC: [b"in doubt"]}),
    ]
    store.fail_next(is_done=is_done)
    outcomes = await asyncio.gather(*failing, return_exceptions=True)
    assert {type(outcome) for outcome in outcomes} == {OutcomeUnknown}

    for _ in range(2):
        assert await committed(services) == [b"plain"]
        for each in (ending, invalid, marked):
            assert await seen_by(services, each.transaction_id) == [b"plain"]
        assert await seen_by(services, reading.transaction_id) == [b"plain", b"own"]
        assert await services.subscriptions.subscription(TOPIC, "s") == position
        told = (await services.ranges.ranges([TOPIC])).topics[TOPIC]
        assert told is not None
        blocks = messaging.poll(TOPIC, Reading(FIRST_ID, view=Isolation.COMMITTED, end=told.end))
        assert [m.payload async for block in blocks for m in block] == [b"plain"]
        with pytest.raises(StoreUnavailable):
            await messaging.publish(TOPIC, [b"refused"])
    store.settle()
    await recovered(services)
    await transactions.commit(reading.transaction_id)
    assert await committed(services) == [b"plain", b"own", *[b"in doubt"] * is_done]
    moved = await services.subscriptions.subscription(TOPIC, "s")
    assert moved.version == position.version + is_done


async def test_one_that_may_have_timed_out_is_told_so(
    services: OpenServices, store: MoodyStore, clock: ManualClock, *, is_done: bool
) -> None:
    tx = await services.transactions.start(StartRequest(timeout_s=1))
    own = services.own_transactions
    assert own is not None
    clock.advance(2_000)
    store.fail_next(is_done=is_done)
    await own._expire()
    assert store.has_failed
    with pytest.raises(StoreUnavailable):
        await seen_by(services, tx.transaction_id)
    assert await committed(services) == []
    store.settle()
    await recovered(services)
    await own._expire()
    with pytest.raises(TransactionNotInProgress):
        await seen_by(services, tx.transaction_id)


async def test_a_reader_that_waits_is_woken_by_what_turns_out_committed(
    services: OpenServices, store: MoodyStore, *, is_done: bool
) -> None:
    tx = await services.transactions.start(SHORT)
    await services.messaging.publish(TOPIC, [b"1"], tx.write_pointer)
    await fails(store, services.transactions.commit(tx.transaction_id), is_done=is_done)
    waiting = asyncio.create_task(
        services.messaging.page(
            TOPIC, Reading(FIRST_ID, limit=1, view=Isolation.COMMITTED), wait_s=30
        )
    )
    await turns()
    store.settle()
    await recovered(services)
    if not is_done:
        assert not waiting.done()
        await services.transactions.commit(tx.transaction_id)
    async with in_time():
        assert (await waiting).count == 1


async def test_what_turns_out_to_have_ended_holds_no_topic(
    services: OpenServices, store: MoodyStore, *, is_done: bool
) -> None:
    tx = await services.transactions.start(SHORT)
    await services.messaging.publish(TOPIC, [b"1"], tx.write_pointer)
    await fails(store, services.transactions.commit(tx.transaction_id), is_done=is_done)
    store.settle()
    await recovered(services)
    topic = await services.messaging.topic(TOPIC)
    await services.messaging.delete_topic(TOPIC)
    deleted = TopicMetadata(TOPIC, -topic.generation, topic.ttl_s, topic.properties)
    assert bool(await services.messaging.forget_topics([deleted])) is is_done


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


async def test_what_only_shared_a_failed_flush_with_a_publish_continues(
    services: OpenServices, store: MoodyStore, *, is_done: bool
) -> None:
    """A flush without edits that fails leaves the state of transactions as it is."""
    tx = await services.transactions.start(SHORT)
    await fails(store, services.messaging.publish(TOPIC, [b"plain"]), is_done=is_done)
    store.settle()
    await services.transactions.commit(tx.transaction_id)
    assert await committed(services) == ([b"plain"] if is_done else [])
