"""A transaction or an owner belongs to the principal that used it first, even after a restart."""

from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from tests.manual_clock import ManualClock
from tests.transactions.living import LONG, Living
from tests.transactions.logs import Log
from tests.transactions.reading import NOW_MS, SHORT, A, B, everything, polled
from tms.core.errors import (
    NotPermitted,
    OwnerBusy,
    RateExceeded,
    TooManyTransactions,
    TransactionDuplicate,
)
from tms.core.limits import Limits
from tms.core.services.commits import CommitRequest, Stored
from tms.core.services.messaging import RollbackRange
from tms.core.services.transactions import IfOpen, TransactionStatus
from tms.core.values.caller import ANYBODY, Caller
from tms.core.values.transaction import Transaction
from tms.server.node import OpenServices, open_services
from tms.settings import Settings

pytestmark = pytest.mark.anyio

ANN, BOB = Caller("ann"), Caller("bob")
OVERSEER = Caller("overseer", may_end_any=True)
Act = Callable[[OpenServices, Transaction, Caller], Awaitable[object]]


def _range(pointer: int) -> RollbackRange:
    return RollbackRange(pointer, NOW_MS, 0, NOW_MS + 1, 0)


ACTS: dict[str, Act] = {
    "can-commit": lambda s, t, c: s.transactions.can_commit(t.transaction_id, [b"x"], caller=c),
    "can-commit nothing": lambda s, t, c: s.transactions.can_commit(t.transaction_id, [], caller=c),
    "commit": lambda s, t, c: s.transactions.commit(t.transaction_id, caller=c),
    "commit stored": lambda s, t, c: s.transactions.commit(
        t.transaction_id, CommitRequest(publish=[Stored(A, t.write_pointer)]), caller=c
    ),
    "abort": lambda s, t, c: s.transactions.abort(t.transaction_id, caller=c),
    "invalidate": lambda s, t, c: s.transactions.invalidate(t.transaction_id, caller=c),
    "invalidate by a checkpoint": lambda s, t, c: s.transactions.invalidate(
        t.write_pointer, caller=c
    ),
    "checkpoint": lambda s, t, c: s.transactions.checkpoint(t.transaction_id, caller=c),
    "snapshot": lambda s, t, c: s.transactions.transaction(t.transaction_id, caller=c),
    "info": lambda s, t, c: s.transactions.info(t.transaction_id, caller=c),
    "publish": lambda s, t, c: s.messaging.publish(A, [b"x"], t.transaction_id, caller=c),
    "publish at a checkpoint": lambda s, t, c: s.messaging.publish(
        A, [b"x"], t.write_pointer, caller=c
    ),
    "publish stored": lambda s, t, c: s.messaging.publish(A, [], t.write_pointer, caller=c),
    "store": lambda s, t, c: s.messaging.store(A, [b"x"], t.write_pointer, caller=c),
    "rollback": lambda s, t, c: s.messaging.rollback(A, _range(t.write_pointer), caller=c),
}


async def _begun(services: OpenServices, caller: Caller) -> Transaction:
    """Start a transaction that has a checkpoint."""
    tx = await services.transactions.start(SHORT, caller=caller)
    return await services.transactions.checkpoint(tx.transaction_id, caller=caller)


@pytest.mark.parametrize("act", ACTS)
class TestActing:
    @pytest.mark.parametrize("beginner", [ANN, ANYBODY], ids=["ann", "nobody"])
    async def test_another_principal_is_refused_and_nothing_is_done(
        self, services: OpenServices, act: str, beginner: Caller
    ) -> None:
        tx = await _begun(services, beginner)
        before = await services.transactions.info(tx.transaction_id)

        with pytest.raises(NotPermitted) as caught:
            await ACTS[act](services, tx, BOB)
        assert caught.value.problem.code == "transaction_of_another"
        assert caught.value.detail["transaction_id"] in (tx.transaction_id, tx.write_pointer)
        assert await services.transactions.info(tx.transaction_id) == before
        assert await everything(services, A) == []

    @pytest.mark.parametrize("caller", [ANN, OVERSEER, ANYBODY], ids=["own", "any", "unchecked"])
    async def test_its_own_and_who_may_end_any_are_not(
        self, services: OpenServices, act: str, caller: Caller
    ) -> None:
        await ACTS[act](services, await _begun(services, ANN), caller)


async def test_an_invalid_one_is_still_its_principals(services: OpenServices) -> None:
    tx = await _begun(services, ANN)
    await services.transactions.invalidate(tx.transaction_id, caller=ANN)

    for act in ("abort", "invalidate", "info", "rollback"):
        with pytest.raises(NotPermitted):
            await ACTS[act](services, tx, BOB)
    [info] = await services.transactions.invalid()
    assert (info.transaction_id, info.principal) == (tx.transaction_id, "ann")
    ended = await services.transactions.abort(tx.transaction_id, caller=ANN)
    assert ended is TransactionStatus.ABORTED


async def test_how_one_ended_is_told_to_everybody_without_whose_it_was(
    services: OpenServices,
) -> None:
    tx = await _begun(services, ANN)
    assert (await services.transactions.info(tx.transaction_id, caller=ANN)).principal == "ann"
    await services.transactions.commit(tx.transaction_id, caller=ANN)

    for caller in (ANN, BOB):
        info = await services.transactions.info(tx.transaction_id, caller=caller)
        assert (info.status, info.principal) == (TransactionStatus.COMMITTED, None)


async def test_readers_by_a_transaction_need_not_own_it(services: OpenServices) -> None:
    tx = await _begun(services, ANN)
    await services.messaging.publish(A, [b"1"], tx.write_pointer, caller=ANN)

    assert await polled(services, A, transaction=tx.transaction_id) == [b"1"]


async def test_with_a_foreign_manager_nothing_is_known_and_nothing_checked(
    clock: ManualClock,
) -> None:
    foreign = Settings.model_construct(transactions="foreign")
    services = await open_services("memory:", clock=clock, settings=foreign)
    try:
        await services.messaging.create_topic(A)
        pointer = NOW_MS * 1_000_000
        await services.messaging.store(A, [b"x"], pointer, caller=ANN)
        published = await services.messaging.publish(A, [], pointer, caller=BOB)
        assert published.rollback_range is not None
        await services.messaging.rollback(A, published.rollback_range, caller=ANN)
    finally:
        await services.close()


async def test_it_is_known_whose_it_is_after_a_restart(tmp_path: Path) -> None:
    clock, store = ManualClock(NOW_MS), f"leveldb:{tmp_path}"
    services = await open_services(store, clock=clock)
    try:
        await services.messaging.create_topic(A)
        tx = await _begun(services, ANN)
        await services.messaging.publish_all({A: [b"x"]}, owner="o", sequence=3, caller=ANN)
    finally:
        await services.close()

    services = await open_services(store, clock=clock)
    try:
        [info] = await services.transactions.in_progress()
        assert info.principal == "ann"
        with pytest.raises(NotPermitted):
            await services.transactions.commit(tx.transaction_id, caller=BOB)
        with pytest.raises(NotPermitted):
            await services.messaging.publish_all({A: [b"y"]}, owner="o", sequence=4, caller=BOB)
        assert services.own_transactions is not None
        assert services.own_transactions._journal.state.opened.count_of("ann") == 1
        await services.transactions.commit(tx.transaction_id, caller=ANN)
        assert services.own_transactions._journal.state.opened.count_of("ann") == 0
    finally:
        await services.close()


async def test_publishing_at_once_with_the_owner_of_another_is_refused_first(
    services: OpenServices,
) -> None:
    publish_all = services.messaging.publish_all
    first = await publish_all({A: [b"1"], B: [b"2"]}, owner="o", sequence=1, caller=ANN)
    for sequence in (1, 2):  # even a duplicate, because its answer would reveal the transaction
        with pytest.raises(NotPermitted) as caught:
            await publish_all({A: [b"x"]}, owner="o", sequence=sequence, caller=BOB)
        assert caught.value.detail == {"owner": "o"}
    again = await publish_all({A: [b"1"]}, owner="o", sequence=1, caller=ANN)

    assert (again.write_pointer, again.is_duplicate) == (first.write_pointer, True)
    assert await polled(services, A) == [b"1"]


class TestOwners:
    def test_an_owner_is_of_the_principal_that_committed_first(self, living: Living) -> None:
        living.commit(living.start(owner="o", sequence=1, caller=ANN))

        for attempt in (living.start, living.at_once):
            for sequence in (0, 1, 2):
                with pytest.raises(NotPermitted) as caught:
                    attempt(owner="o", sequence=sequence, caller=BOB)
                assert caught.value.detail == {"owner": "o"}
        with pytest.raises(NotPermitted):
            living.start(owner="o", caller=BOB)
        with pytest.raises(TransactionDuplicate):
            living.start(owner="o", sequence=1, caller=ANN)
        living.at_once("o", 2, caller=ANN)

    def test_it_stays_so_when_others_may_use_it(self, living: Living) -> None:
        living.at_once("o", 1, caller=ANN)
        living.at_once("o", 2, caller=OVERSEER)
        living.at_once("o", 3)

        assert living.state.owners.last_commits["o"].principal == "ann"
        living.at_once("o", 4, caller=ANN)

    def test_one_that_nobody_in_particular_used_is_free(self, living: Living) -> None:
        living.at_once("o", 1)
        living.at_once("o", 2, caller=BOB)

        with pytest.raises(NotPermitted):
            living.at_once("o", 3, caller=ANN)

    @pytest.mark.parametrize("if_open", list(IfOpen))
    @pytest.mark.parametrize("beginner", [ANN, ANYBODY], ids=["ann", "nobody"])
    def test_an_open_one_of_another_is_neither_fenced_nor_joined(
        self, living: Living, if_open: IfOpen, beginner: Caller
    ) -> None:
        open_one = living.start(owner="o", sequence=1, caller=beginner)
        with pytest.raises(NotPermitted):
            living.start(owner="o", sequence=1, if_open=if_open, caller=BOB)
        with pytest.raises(NotPermitted):
            living.at_once("o", 1, caller=BOB)
        with pytest.raises(OwnerBusy):
            living.at_once("o", 1, caller=OVERSEER)
        living.commit(open_one, beginner)

    def test_an_owner_that_is_forgotten_is_free(self) -> None:
        living = Living(Limits(transaction_owner_retention_s=10))
        living.at_once("o", 5, caller=ANN)
        living.do(living.state.forget_owners(living.now_ms + 10_001))
        living.at_once("o", 1, caller=BOB)


class TestCounts:
    def test_one_principal_has_no_more_in_progress_than_it_may(self) -> None:
        living = Living(Limits(principal_transactions_max=2))
        first, _ = (living.start(owner=owner, caller=ANN) for owner in "op")
        with pytest.raises(RateExceeded) as caught:
            living.start(caller=ANN)
        assert caught.value.problem.code == "principal_rate_exceeded"
        assert caught.value.detail == {
            "setting": "principal_transactions_max",
            "principal_transactions_max": 2,
            "in_progress": 2,
            "retry_after_s": 1,
        }

        assert living.start(owner="o", if_open=IfOpen.JOIN, caller=ANN) == first
        living.start(owner="o", if_open=IfOpen.FENCE, caller=ANN)
        living.at_once(caller=ANN)
        for caller in (BOB, ANYBODY, ANYBODY, ANYBODY):
            living.start(caller=caller)
        assert [living.state.opened.count_of(name) for name in ("ann", "bob", "cid")] == [2, 1, 0]

    def test_those_that_timed_out_do_not_count(self) -> None:
        living = Living(Limits(principal_transactions_max=1))
        living.checkpoint(living.start(caller=ANN), ANN)
        living.now_ms += 31_000
        living.expire()
        living.commit(living.start(caller=ANN), ANN)
        living.abort(living.start(caller=ANN), ANN)
        living.start(caller=ANN)

    def test_it_leaves_a_tenth_to_others_unless_that_is_set(self) -> None:
        living = Living(Limits(transactions_in_progress_max=20))
        for _ in range(18):
            living.start(LONG, caller=ANN)
        with pytest.raises(RateExceeded) as caught:
            living.start(LONG, caller=ANN)
        assert caught.value.detail["in_progress"] == 18
        for _ in range(2):
            living.start(caller=BOB)
        for caller in (BOB, ANYBODY, Caller("root", has_all=True)):
            with pytest.raises(TooManyTransactions):
                living.start(caller=caller)

    def test_who_may_have_all_is_not_counted_out(self) -> None:
        living = Living(Limits(transactions_in_progress_max=20, principal_transactions_max=2))
        for _ in range(20):
            living.start(caller=Caller("root", has_all=True))


def test_a_recovery_knows_whose_all_are() -> None:
    log = Log()
    log.living.start(owner="o", sequence=1, caller=ANN)
    log.living.invalidate(log.living.start(caller=BOB), BOB)
    log.living.at_once("p", 1, caller=BOB)
    log.living.start()
    log.write()

    for _ in range(2):
        state = log.recovered().state
        assert Living(state=state).snapshot() == log.living.snapshot()
        assert [info.principal for info in state.infos_in_progress()] == ["ann", None]
        assert [info.principal for info in state.infos_invalid()] == ["bob"]
        assert state.owners.last_commits["p"].principal == "bob"
        assert state.opened.count_of("ann") == 1
        log.table.put_snapshot(
            1, log.living.snapshot()
        )  # the second time, recover from this snapshot alone
        log.table.drop_before(1, 100)
