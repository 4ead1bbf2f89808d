"""Timeouts of transactions and truncation of the invalid list, as in Tephra's own tests."""

import pytest

from tests.transactions.living import LONG, NOW_MS, Living
from tms.core.errors import (
    InvalidTruncateTime,
    TransactionNotInProgress,
)
from tms.core.limits import WRITE_POINTERS_PER_MS, Limits


class TestTimeouts:
    def test_those_whose_time_is_over_become_invalid(self, living: Living) -> None:
        one, two = living.start(timeout_s=2), living.checkpoint(living.start(timeout_s=2))
        long, later = living.start(LONG), living.start(timeout_s=3)
        assert living.state.opened.next_expiry_ms() == NOW_MS + 2_000
        living.now_ms += 2_000
        living.expire()
        assert living.invalid == []
        living.now_ms += 1
        living.expire()

        ids = [one.transaction_id, two.transaction_id, two.write_pointer]
        assert living.invalid == ids
        assert living.state.opened.next_expiry_ms() == NOW_MS + 3_000
        with pytest.raises(TransactionNotInProgress):
            living.can_commit(one)
        living.abort(one)
        assert living.invalid == ids[1:]
        living.abort(two)
        assert living.invalid == []
        living.commit(long)
        living.commit(later)
        assert living.state.opened.next_expiry_ms() is None

    def test_a_long_one_too_and_aborting_it_then_leaves_it(self) -> None:
        living = Living(Limits(transaction_long_timeout_s=2))
        transaction = living.start(LONG)
        living.now_ms += 2_001
        living.expire()
        living.abort(transaction)

        assert living.invalid == [transaction.transaction_id]

    def test_many_expire_in_slices_oldest_first(self, living: Living) -> None:
        ids = [living.start(timeout_s=1 + n % 2).transaction_id for n in range(9)]
        for transaction_id in ids[:2]:
            living.do(living.state.abort(transaction_id))
        edits = living.state.expire(NOW_MS + 2_001, limit=4)

        assert [edit.write_pointer for edit in edits] == ids[2:6]
        assert len(living.state.expire(NOW_MS + 1_001)) == 4

    def test_deadlines_of_those_that_ended_do_not_pile_up(self, living: Living) -> None:
        keep = living.start()
        for _ in range(5_000):
            living.commit(living.start())

        assert len(living.state.opened._deadlines) <= 1_010
        assert living.state.opened.next_expiry_ms() == NOW_MS + 30_000
        assert living.state.is_in_progress(keep.transaction_id)


class TestTruncating:
    def test_by_ids(self, living: Living) -> None:
        ids = [living.start().transaction_id for _ in range(6)]
        for at in (0, 1, 4, 5):
            living.do(living.state.invalidate(ids[at]))

        assert living.truncate(ids[0], ids[5], ids[5]) == 2
        assert living.invalid == [ids[1], ids[4]]
        assert living.truncate(ids[2]) == 0
        assert living.state.status(ids[0]) is None

    def test_by_time(self, living: Living) -> None:
        ids = []
        for _ in range(6):
            living.now_ms += 1
            ids.append(living.start().transaction_id)
        for at in (0, 1, 4, 5):
            living.do(living.state.invalidate(ids[at]))
        assert living.truncate_before(ids[2] // WRITE_POINTERS_PER_MS) == 2
        assert living.invalid == ids[4:]

        with pytest.raises(InvalidTruncateTime) as caught:
            living.truncate_before(ids[4] // WRITE_POINTERS_PER_MS)
        assert caught.value.detail["transaction_id"] == ids[2]
        for at in (2, 3):
            living.do(living.state.commit(ids[at], NOW_MS))
        assert living.truncate_before(living.now_ms + 1) == 2
        assert living.truncate_before(living.now_ms + 1) == 0

    def test_a_checkpoint_may_be_left_when_its_transaction_is_truncated(
        self, living: Living
    ) -> None:
        transaction = living.checkpoint(living.start())
        living.invalidate(transaction)
        living.truncate(transaction.transaction_id)

        assert living.invalid == [transaction.write_pointer]
        [info] = living.state.infos_invalid()
        assert info.transaction_id == transaction.transaction_id


def test_all_are_truncated_before_a_time_that_no_write_pointer_has() -> None:
    living = Living()
    first = living.start()
    living.do(living.state.invalidate(first.transaction_id))
    count, edits = living.state.truncate_invalid_before(2**62)
    living.do(edits)

    assert (count, living.state.invalid_count) == (1, 0)
