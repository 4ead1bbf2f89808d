"""The changes of transactions: overlapping ones conflict, and their memory is bounded."""

import pytest

from tests.transactions.living import LONG, Living
from tms.core.errors import (
    TooLarge,
    TooManyTransactions,
    TransactionConflict,
)
from tms.core.limits import Limits
from tms.core.values.caller import Caller
from tms.transactions.change_sets import weight_of


def test_the_second_to_commit_the_same_change_is_refused(living: Living) -> None:
    a, b = living.start(client="a"), living.start()
    living.can_commit(a, b"1", b"2")
    living.can_commit(b, b"2", b"3")
    living.commit(a)

    with pytest.raises(TransactionConflict) as caught:
        living.commit(b)
    assert caught.value.detail == {
        "transaction_id": b.transaction_id,
        "key": b"2".hex(),
        "other_transaction_id": a.transaction_id,
        "client": "a",
    }
    with pytest.raises(TransactionConflict):
        living.can_commit(b, b"1")
    living.can_commit(b, b"3")
    living.commit(b)


def test_one_that_started_after_the_commit_does_not_conflict(living: Living) -> None:
    a, hold = living.start(), living.start()
    living.can_commit(a, b"1")
    living.commit(a)
    b = living.start()
    living.can_commit(b, b"1")
    living.commit(b)

    with pytest.raises(TransactionConflict):
        living.can_commit(hold, b"1")


def test_many_commits_at_the_same_pointer(living: Living) -> None:
    several = [living.start() for _ in range(5)]
    late = living.start()
    for number, transaction in enumerate(several):
        living.can_commit(transaction, b"%d" % number)
        living.commit(transaction)

    assert len({s.commit_pointer for s in living.state.change_sets.committed}) == 1
    for number in range(5):
        with pytest.raises(TransactionConflict):
            living.can_commit(late, b"%d" % number)


def test_write_skew_is_allowed(living: Living) -> None:
    a, b = living.start(), living.start()
    living.can_commit(a, b"x")
    living.can_commit(b, b"y")
    living.commit(a)
    living.commit(b)


def test_a_commit_that_announced_nothing_records_nothing(living: Living) -> None:
    a, b = living.start(), living.start()
    assert living.state.can_commit(a.transaction_id, ()) == ()
    living.commit(a)

    assert not living.state.change_sets.committed
    living.can_commit(b, b"1")


def test_announcing_again_replaces(living: Living) -> None:
    a, b = living.start(), living.start()
    living.can_commit(a, b"1")
    living.can_commit(a)
    living.commit(a)

    living.can_commit(b, b"1")


def test_one_committed_at_once_conflicts_with_those_open(living: Living) -> None:
    a = living.start()
    pointer = living.at_once(changes=[b"1"], client="c")

    with pytest.raises(TransactionConflict) as caught:
        living.can_commit(a, b"1")
    assert caught.value.detail["other_transaction_id"] == pointer
    assert caught.value.detail["client"] == "c"


def test_committed_sets_are_kept_for_short_ones_only(living: Living) -> None:
    living.start(LONG)
    old = living.start()
    for number in range(10):
        transaction = living.start()
        living.can_commit(transaction, b"%d" % number)
        living.commit(transaction)
    assert len(living.state.change_sets.committed) == 10
    living.abort(old)
    living.at_once()

    assert not living.state.change_sets.committed
    assert not living.state.change_sets._latest


def test_a_large_change_set_is_refused() -> None:
    limits = Limits(transaction_changes_max=3, transaction_changes_bytes_max=10)
    living = Living(limits)
    transaction = living.start()
    living.can_commit(transaction, b"123", b"456", b"7890")
    for changes in ([b"1", b"2", b"3", b"4"], [b"12345", b"678901"]):
        with pytest.raises(TooLarge) as caught:
            living.can_commit(transaction, *changes)
        assert caught.value.problem.code == "too_many_changes"
        with pytest.raises(TooLarge):
            living.at_once(changes=changes)


def test_changes_are_kept_within_a_bound() -> None:
    """Changes of transactions in progress, and of those committed since the oldest one began."""
    each = weight_of([b"1"])
    living = Living(Limits(transaction_changes_kept_bytes_max=3 * each))
    oldest, announcing, last = living.start(), living.start(), living.start()
    living.can_commit(announcing, b"1")
    living.can_commit(announcing, b"2")
    living.at_once(changes=[b"3"])
    living.can_commit(last, b"4")
    with pytest.raises(TooManyTransactions) as caught:
        living.can_commit(oldest, b"5")
    with pytest.raises(TooManyTransactions):
        living.at_once(changes=[b"5"])
    assert caught.value.detail["oldest_transaction_id"] == oldest.transaction_id
    living.abort(last)
    living.can_commit(oldest, b"5")
    for transaction in (announcing, oldest):
        living.commit(transaction)

    assert living.state.kept_changes.used == 0


def test_changes_of_one_caller_leave_room_for_those_of_others() -> None:
    """Whether announced, or committed while an older one is open; a rollback drops them."""
    ann, bob, each = Caller("ann"), Caller("bob"), weight_of([b"1"])
    living = Living(Limits(transaction_changes_kept_bytes_max=10 * each))
    hold = living.start(timeout_s=24 * 3600, caller=ann)
    for number in range(4):
        committed = living.start(caller=ann)
        living.can_commit(committed, b"%d" % number, caller=ann)
        living.commit(committed, ann)
    announcing = [living.start(caller=ann) for _ in range(6)]
    for number, transaction in enumerate(announcing[:5]):
        living.can_commit(transaction, b"%d" % (4 + number), caller=ann)
    with pytest.raises(TooManyTransactions) as caught:
        living.can_commit(announcing[5], b"9", caller=ann)
    assert caught.value.detail["kept_bytes_of_principal"] == 9 * each
    other = living.start(caller=bob)
    living.can_commit(other, b"x", caller=bob)
    living.commit(other, bob)

    for transaction in announcing[:2]:
        living.abort(transaction, ann)
    living.can_commit(announcing[5], b"9", caller=ann)
    for transaction in (hold, *announcing[2:]):
        living.abort(transaction, ann)
    assert living.state.kept_changes.used == 0
