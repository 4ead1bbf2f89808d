"""The transaction manager with messaging: visible messages, refusals, woken readers."""

import asyncio
from pathlib import Path

import pytest
from prometheus_client import CollectorRegistry

from tests.manual_clock import ManualClock
from tests.transactions.reading import (
    NOW_MS,
    SHORT,
    A,
    B,
    everything,
    is_waited_for,
    polled,
    published,
)
from tests.waiting import until
from tms.core.errors import (
    OwnerBusy,
    RollbackRefused,
    SubscriptionMoved,
    TransactionConflict,
    TransactionDuplicate,
    TransactionNotInProgress,
    TransactionUnknown,
)
from tms.core.services.commits import CommitRequest
from tms.core.services.messaging import RollbackRange
from tms.core.services.transactions import IfOpen, StartRequest, TransactionStatus
from tms.core.values.message import FIRST_ID
from tms.core.values.reading import Isolation, Reading
from tms.core.values.subscriptions import Advance
from tms.core.values.transaction import TransactionType
from tms.server.node import OpenServices, open_services
from tms.transactions.service import TransactionService

pytestmark = pytest.mark.anyio

VERSION = NOW_MS * 1000
"""The version of the first subscription."""


async def test_a_transaction_is_seen_whole_once_it_is_committed(services: OpenServices) -> None:
    tx = await services.transactions.start(SHORT)
    await published(services, A, b"1", tx.write_pointer)
    await services.messaging.store(B, [b"2", b"3"], tx.write_pointer)
    await services.messaging.publish(B, [], tx.write_pointer)

    assert await polled(services, A) == await polled(services, B) == []
    assert await polled(services, A, transaction=tx.transaction_id) == [b"1"]
    await services.transactions.can_commit(tx.transaction_id, [])
    await services.transactions.commit(tx.transaction_id)
    assert await polled(services, A) == [b"1"]
    assert await polled(services, B) == [b"2", b"3"]


async def test_a_reader_stops_at_what_is_in_progress_and_is_told_where(
    services: OpenServices, clock: ManualClock, registry: CollectorRegistry
) -> None:
    tx = await services.transactions.start(SHORT)
    await published(services, A, b"in progress", tx.write_pointer)
    await services.messaging.publish(A, [b"plain"])

    page = await services.messaging.page(A, Reading(FIRST_ID, limit=10, view=Isolation.COMMITTED))
    assert (page.count, page.stopped_at) == (0, tx.write_pointer)
    clock.advance(7_000)
    assert registry.get_sample_value("tms_stopped_at_transaction_seconds") == 7
    [info] = await services.transactions.in_progress()
    assert (info.transaction_id, info.topics) == (tx.transaction_id, ["default:a"])

    await services.transactions.commit(tx.transaction_id)
    assert await polled(services, A) == [b"in progress", b"plain"]
    assert registry.get_sample_value("tms_stopped_at_transaction_seconds") is None


@pytest.mark.parametrize("end", ["commit", "abort", "invalidate", "timeout"])
async def test_a_reader_that_was_stopped_is_woken_when_the_transaction_ends(
    services: OpenServices, clock: ManualClock, end: str
) -> None:
    tx = await services.transactions.start(SHORT)
    range_ = await published(services, A, b"1", tx.write_pointer)
    await services.messaging.publish(A, [b"plain"])
    waiting = asyncio.create_task(polled(services, A, wait_s=30))
    await until(lambda: is_waited_for(services, A))
    if end == "timeout":
        clock.advance(31_000)
    else:
        if end == "abort":
            await services.messaging.rollback(A, range_)
        await getattr(services.transactions, end)(tx.transaction_id)
    expected = [b"1", b"plain"] if end == "commit" else [b"plain"]
    assert await waiting == expected


async def test_a_reader_is_woken_too_by_what_is_from_before_a_restart(tmp_path: Path) -> None:
    clock, store = ManualClock(NOW_MS), f"leveldb:{tmp_path}"
    before = await open_services(store, clock=clock)
    await before.messaging.create_topic(A)
    tx = await before.transactions.start(SHORT)
    await published(before, A, b"1", tx.write_pointer)
    await before.messaging.publish(A, [b"plain"])
    await before.close()

    services = await open_services(store, clock=clock)
    try:
        waiting = asyncio.create_task(polled(services, A, wait_s=30))
        await until(lambda: is_waited_for(services, A))
        assert await services.transactions.abort(tx.transaction_id) is TransactionStatus.INVALID
        assert await waiting == [b"plain"]
    finally:
        await services.close()


async def test_an_abort_after_rollback_leaves_nothing_invalid(services: OpenServices) -> None:
    tx = await services.transactions.start(SHORT)
    range_ = await published(services, A, b"1", tx.write_pointer)
    await services.messaging.rollback(A, range_)

    status = await services.transactions.abort(tx.transaction_id)
    assert status is TransactionStatus.ABORTED
    assert await services.transactions.invalid_count() == 0
    assert await polled(services, A) == []
    assert await everything(services, A) == [b"1"]


async def test_an_abort_rolls_back_what_was_left(services: OpenServices) -> None:
    await services.messaging.publish(A, [b"before"])
    tx = await services.transactions.start(SHORT)
    await published(services, A, b"not rolled back", tx.write_pointer)
    await published(services, B, b"nor this", tx.write_pointer)
    await services.messaging.delete_topic(B)

    assert await services.transactions.abort(tx.transaction_id) is TransactionStatus.ABORTED
    assert await services.transactions.abort(tx.transaction_id) is TransactionStatus.ABORTED
    assert await services.transactions.invalid_count() == 0
    assert await polled(services, A) == [b"before"]


async def test_an_abort_rolls_back_references_too(services: OpenServices) -> None:
    tx = await services.transactions.start(SHORT)
    await services.messaging.store(A, [b"stored"], tx.write_pointer)
    await services.messaging.publish(A, [], tx.write_pointer)

    assert await services.transactions.abort(tx.transaction_id) is TransactionStatus.ABORTED
    assert await polled(services, A) == []


async def test_an_abort_that_is_cut_off_is_finished_by_another_or_stays_invalid(
    tmp_path: Path,
) -> None:
    async def cut_off(_: object) -> None:
        raise asyncio.CancelledError

    async def left(services: OpenServices) -> int:
        """Return an invalid transaction that has published a message."""
        tx = await services.transactions.start(SHORT)
        await published(services, A, b"left", tx.write_pointer)
        assert isinstance(services.transactions, TransactionService)
        undo, services.transactions._undo = services.transactions._undo, cut_off
        with pytest.raises(asyncio.CancelledError):
            await services.transactions.abort(tx.transaction_id)
        services.transactions._undo = undo
        return tx.transaction_id

    store = f"leveldb:{tmp_path / 'data'}"
    services = await open_services(store)
    await services.messaging.create_topic(A, {})
    again = await left(services)
    assert await services.transactions.abort(again) is TransactionStatus.ABORTED
    before = await left(services)
    await services.close()
    services = await open_services(store)
    assert await services.transactions.abort(before) is TransactionStatus.INVALID
    assert await polled(services, A) == []
    await services.close()


async def test_if_rows_can_come_late_what_cleanup_inverted_stays_invalid(
    services: OpenServices,
) -> None:
    assert isinstance(services.transactions, TransactionService)
    services.transactions._undo = None  # as on HBase
    tx = await services.transactions.start(SHORT)
    await published(services, A, b"not rolled back", tx.write_pointer)
    assert await services.transactions.abort(tx.transaction_id) is TransactionStatus.INVALID
    await services.messaging.invalid_entries.invert_published([tx.write_pointer])
    assert await services.transactions.abort(tx.transaction_id) is TransactionStatus.INVALID


async def test_an_abort_that_is_sent_twice_at_once_and_beside_a_commit(
    services: OpenServices,
) -> None:
    tx = await services.transactions.start(SHORT)
    await published(services, A, b"not rolled back", tx.write_pointer)
    transactions = services.transactions
    aborts = [asyncio.create_task(transactions.abort(tx.transaction_id)) for _ in range(3)]
    commit = asyncio.create_task(transactions.commit(tx.transaction_id))
    assert set(await asyncio.gather(*aborts)) == {TransactionStatus.ABORTED}
    with pytest.raises(TransactionNotInProgress):
        await commit
    assert await transactions.invalid_count() == 0
    assert await polled(services, A) == []


@pytest.mark.parametrize("end", ["commit", "abort", "invalidate"])
async def test_nothing_is_written_under_a_transaction_that_has_ended(
    services: OpenServices, end: str
) -> None:
    tx = await services.transactions.start(SHORT)
    await getattr(services.transactions, end)(tx.transaction_id)

    with pytest.raises(TransactionNotInProgress):
        await services.messaging.publish(A, [b"late"], tx.write_pointer)
    with pytest.raises(TransactionNotInProgress):
        await services.messaging.store(A, [b"late"], tx.write_pointer)
    assert await everything(services, A) == []


async def test_a_write_that_shares_the_flush_of_an_abort_is_refused_behind_it(
    services: OpenServices,
) -> None:
    tx = await services.transactions.start(SHORT)
    await services.messaging.topic(A)
    abort = asyncio.create_task(services.transactions.abort(tx.transaction_id))
    late = asyncio.create_task(services.messaging.publish(A, [b"late"], tx.write_pointer))
    assert await abort is TransactionStatus.ABORTED
    with pytest.raises(TransactionNotInProgress):
        await late
    assert await everything(services, A) == []


async def test_a_write_that_shares_the_flush_of_an_abort_before_it_is_rolled_back(
    services: OpenServices,
) -> None:
    tx = await services.transactions.start(SHORT)
    await services.messaging.topic(A)
    before = asyncio.create_task(services.messaging.publish(A, [b"before"], tx.write_pointer))
    abort = asyncio.create_task(services.transactions.abort(tx.transaction_id))
    await before
    assert await abort is TransactionStatus.ABORTED
    assert await polled(services, A) == []


async def test_unknown_write_pointers_are_refused(services: OpenServices) -> None:
    pointer = NOW_MS * 1_000_000 + 5
    with pytest.raises(TransactionUnknown):
        await services.messaging.publish(A, [b"x"], pointer)
    with pytest.raises(TransactionUnknown):
        await services.messaging.store(A, [b"x"], pointer)
    with pytest.raises(TransactionUnknown):
        await services.transactions.info(pointer)


async def test_what_is_committed_cannot_be_rolled_back(services: OpenServices) -> None:
    tx = await services.transactions.start(SHORT)
    range_ = await published(services, A, b"1", tx.write_pointer)
    await services.transactions.commit(tx.transaction_id)

    with pytest.raises(TransactionNotInProgress):
        await services.messaging.rollback(A, range_)
    assert await polled(services, A) == [b"1"]


async def test_a_range_of_others_cannot_be_rolled_back(services: OpenServices) -> None:
    mine, theirs = [await services.transactions.start(SHORT) for _ in range(2)]
    range_ = await published(services, A, b"theirs", theirs.write_pointer)
    with pytest.raises(RollbackRefused):
        await services.messaging.rollback(
            A,
            RollbackRange(
                mine.write_pointer,
                range_.start_timestamp,
                range_.start_sequence_id,
                range_.end_timestamp,
                range_.end_sequence_id,
            ),
        )


async def test_messages_after_a_checkpoint_belong_to_the_same_transaction(
    services: OpenServices,
) -> None:
    tx = await services.transactions.start(SHORT)
    await published(services, A, b"1", tx.write_pointer)
    again = await services.transactions.checkpoint(tx.transaction_id)
    assert again.write_pointer > tx.write_pointer
    assert again.transaction_id == tx.transaction_id
    await published(services, A, b"2", again.write_pointer)

    assert await polled(services, A, transaction=tx.transaction_id) == [b"1", b"2"]
    assert await polled(services, A) == []
    await services.transactions.commit(tx.transaction_id)
    assert await polled(services, A) == [b"1", b"2"]


async def test_timeouts_fire_though_nothing_else_happens(
    services: OpenServices, clock: ManualClock
) -> None:
    tx = await services.transactions.start(StartRequest(timeout_s=5))
    await published(services, A, b"1", tx.write_pointer)
    clock.advance(5_001)
    await until(services.transactions.invalid_count)
    with pytest.raises(TransactionNotInProgress) as caught:
        await services.transactions.commit(tx.transaction_id)
    assert caught.value.detail["status"] == "invalid"


async def test_timeouts_fire_also_when_the_clock_was_set_back(
    services: OpenServices, clock: ManualClock
) -> None:
    await services.transactions.start(StartRequest(timeout_s=5))
    clock.set(NOW_MS - 3_600_000)
    clock.advance(5_001)
    await until(services.transactions.invalid_count)


async def test_of_two_that_change_the_same_the_second_is_refused(services: OpenServices) -> None:
    first, second = [await services.transactions.start(SHORT) for _ in range(2)]
    await services.transactions.can_commit(first.transaction_id, [b"row 1"])
    await services.transactions.can_commit(second.transaction_id, [b"row 1"])
    await services.transactions.commit(first.transaction_id)
    with pytest.raises(TransactionConflict):
        await services.transactions.commit(second.transaction_id)
    assert await services.transactions.abort(second.transaction_id) is TransactionStatus.ABORTED


class TestOwners:
    async def test_a_committed_sequence_is_a_duplicate(self, services: OpenServices) -> None:
        tx = await services.transactions.start(StartRequest(owner="job", sequence=1))
        await services.transactions.commit(tx.transaction_id)
        with pytest.raises(TransactionDuplicate) as caught:
            await services.transactions.start(StartRequest(owner="job", sequence=1))
        assert caught.value.detail["transaction_id"] == tx.transaction_id

    async def test_an_open_one_is_busy_fenced_or_joined(self, services: OpenServices) -> None:
        start = services.transactions.start
        first = await start(StartRequest(owner="job", sequence=1))
        with pytest.raises(OwnerBusy):
            await start(StartRequest(owner="job", sequence=1))
        joined = await start(StartRequest(owner="job", sequence=1, if_open=IfOpen.JOIN))
        assert joined == first
        await published(services, A, b"fenced", first.write_pointer)
        second = await start(StartRequest(owner="job", sequence=1, if_open=IfOpen.FENCE))
        assert second.transaction_id > first.transaction_id
        with pytest.raises(TransactionNotInProgress):
            await services.transactions.commit(first.transaction_id)
        assert await polled(services, A) == []


class TestPositions:
    async def test_a_position_moves_with_the_commit(self, services: OpenServices) -> None:
        await services.subscriptions.create_subscription(A, "s")
        tx = await services.transactions.start(SHORT)
        moved = Advance(A, "s", b"\x01" * 20, VERSION)
        assert (await services.subscriptions.subscription(A, "s")).version == VERSION
        await services.transactions.commit(tx.transaction_id, CommitRequest([moved]))
        position = await services.subscriptions.subscription(A, "s")
        assert (position.after, position.version) == (b"\x01" * 20, VERSION + 1)

    async def test_a_position_that_has_moved_refuses_the_commit(
        self, services: OpenServices
    ) -> None:
        await services.subscriptions.create_subscription(A, "s")
        one, two = [await services.transactions.start(SHORT) for _ in range(2)]
        outcomes = await asyncio.gather(
            services.transactions.commit(
                one.transaction_id, CommitRequest([Advance(A, "s", b"\x01" * 20, VERSION)])
            ),
            services.transactions.commit(
                two.transaction_id, CommitRequest([Advance(A, "s", b"\x02" * 20, VERSION)])
            ),
            return_exceptions=True,
        )
        assert [type(outcome) for outcome in outcomes] == [type(None), SubscriptionMoved]
        info = await services.transactions.info(two.transaction_id)
        assert info.status is TransactionStatus.IN_PROGRESS
        assert (await services.subscriptions.subscription(A, "s")).after == b"\x01" * 20


async def test_long_transactions_are_not_aborted(services: OpenServices) -> None:
    tx = await services.transactions.start(StartRequest(type=TransactionType.LONG))
    assert await services.transactions.abort(tx.transaction_id) is TransactionStatus.INVALID
