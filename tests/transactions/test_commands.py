"""The rules of starts, ends and checkpoints, taken from Tephra's own tests."""

import pytest

from tests.transactions.living import FIRST, LONG, NOW_MS, Living
from tms.core.errors import (
    InvalidRequest,
    TooLarge,
    TooManyTransactions,
    TransactionNotInProgress,
    TransactionUnknown,
)
from tms.core.limits import WRITE_POINTERS_PER_MS, Limits
from tms.core.services.transactions import IfOpen, TransactionStatus
from tms.core.values.transaction import NO_TX_IN_PROGRESS

DAY_MS = 24 * 3600 * 1000


class TestStarting:
    def test_the_first_sees_all_from_before_and_nothing_else(self, living: Living) -> None:
        first = living.start()

        assert first.transaction_id == first.write_pointer == FIRST + 1
        assert first.read_pointer == FIRST
        assert (first.in_progress, first.invalids) == ((), ())
        assert first.first_short_in_progress == NO_TX_IN_PROGRESS

    def test_pointers_follow_the_time_and_ascend_when_it_goes_back(self, living: Living) -> None:
        living.now_ms += 5
        a = living.start().transaction_id
        living.now_ms -= 60_000
        b = living.start().transaction_id

        assert a == (NOW_MS + 5) * WRITE_POINTERS_PER_MS
        assert b == a + 1

    def test_a_snapshot_excludes_what_is_open_but_not_itself(self, living: Living) -> None:
        long, short = living.start(LONG), living.start()
        checkpointed = living.checkpoint(long)
        last = living.start()

        assert last.in_progress == (
            long.transaction_id,
            short.transaction_id,
            checkpointed.write_pointer,
        )
        assert last.first_short_in_progress == short.transaction_id

    def test_a_long_ones_checkpoint_counts_as_short(self, living: Living) -> None:
        checkpointed = living.checkpoint(living.start(LONG))

        assert living.start().first_short_in_progress == checkpointed.write_pointer

    def test_a_snapshot_stays_what_it_was(self, living: Living) -> None:
        others = [living.start() for _ in range(4)]
        living.invalidate(others[0])
        reader = living.start()
        living.commit(others[1])
        living.abort(others[2])
        living.invalidate(others[3])
        living.truncate(others[0].transaction_id)
        living.start()

        assert living.state.transaction(reader.transaction_id) == reader
        assert reader.in_progress == tuple(t.transaction_id for t in others[1:])
        assert reader.invalids == (others[0].transaction_id,)

    def test_lists_that_have_not_changed_are_shared(self, living: Living) -> None:
        living.invalidate(living.start())

        assert living.start().invalids is living.start().invalids

    @pytest.mark.parametrize("timeout_s", [-1, 0, 24 * 3600 + 1])
    def test_a_timeout_is_positive_and_not_excessive(self, living: Living, timeout_s: int) -> None:
        with pytest.raises(InvalidRequest) as caught:
            living.start(timeout_s=timeout_s)
        assert caught.value.problem.code == "invalid_timeout"

    def test_timeouts(self, living: Living) -> None:
        default, own, long = living.start(), living.start(timeout_s=7), living.start(LONG)

        expiries = [living.state.info(t.transaction_id).expires_ms for t in (default, own, long)]
        assert expiries == [NOW_MS + 30_000, NOW_MS + 7_000, NOW_MS + DAY_MS]

    def test_not_more_than_may_be_are_in_progress(self) -> None:
        living = Living(Limits(transactions_in_progress_max=2))
        first, _ = living.start(), living.start(owner="o")
        with pytest.raises(TooManyTransactions) as refused:
            living.start()
        assert refused.value.detail == {"in_progress": 2, "transactions_in_progress_max": 2}
        living.start(owner="o", if_open=IfOpen.FENCE)

        living.commit(first)
        living.start()
        assert living.state.in_progress_count == 2


class TestEnding:
    def test_a_commit_is_visible_to_later_starts_only(self, living: Living) -> None:
        writer, before = living.start(), living.start()
        living.commit(writer)
        after = living.start()

        assert not before.is_visible(writer.transaction_id)
        assert after.is_visible(writer.transaction_id)
        assert after.read_pointer == writer.transaction_id

    def test_one_committed_at_once_is_as_if_started_and_committed(self, living: Living) -> None:
        before = living.start()
        pointer = living.at_once()
        after = living.start()

        assert not before.is_visible(pointer)
        assert after.is_visible(pointer)
        assert not living.state.is_in_progress(pointer)
        assert living.state.status(pointer) is None

    def test_committing_twice(self, living: Living) -> None:
        transaction = living.start()
        living.commit(transaction)

        for again in (living.commit, living.abort, living.invalidate, living.checkpoint):
            with pytest.raises(TransactionNotInProgress) as caught:
                again(transaction)
            assert caught.value.detail["status"] == "committed"

    def test_aborting_twice_changes_nothing(self, living: Living) -> None:
        transaction = living.start()
        living.abort(transaction)
        assert living.state.abort(transaction.transaction_id) == ()

        with pytest.raises(TransactionNotInProgress) as caught:
            living.commit(transaction)
        assert caught.value.detail["status"] == "aborted"

    def test_invalidating_twice_changes_nothing(self, living: Living) -> None:
        transaction = living.start()
        living.invalidate(transaction)
        assert living.state.invalidate(transaction.transaction_id) == ()

        assert living.invalid == [transaction.transaction_id]
        with pytest.raises(TransactionNotInProgress) as caught:
            living.can_commit(transaction, b"1")
        assert caught.value.detail["status"] == "invalid"

    def test_one_that_never_was(self, living: Living) -> None:
        state = living.state
        for command in (state.abort, state.invalidate, state.transaction, state.info):
            with pytest.raises(TransactionUnknown):
                command(17)
        for timed_command in (state.commit, state.checkpoint):
            with pytest.raises(TransactionUnknown):
                timed_command(17, NOW_MS)
        with pytest.raises(TransactionUnknown):
            state.can_commit(17, ())

    def test_a_checkpoints_pointer_is_not_an_id_save_to_invalidate(self, living: Living) -> None:
        pointer = living.checkpoint(living.start()).write_pointer
        with pytest.raises(TransactionUnknown):
            living.state.commit(pointer, NOW_MS)
        with pytest.raises(TransactionUnknown):
            living.state.abort(pointer)
        living.do(living.state.invalidate(pointer))

        assert living.invalid == [FIRST + 1, pointer]
        with pytest.raises(TransactionUnknown):
            living.state.abort(pointer)

    def test_an_invalid_one_can_be_aborted_after_all(self, living: Living) -> None:
        transaction = living.checkpoint(living.start())
        living.invalidate(transaction)
        assert len(living.invalid) == 2
        living.abort(transaction)

        assert living.invalid == []
        assert living.start().is_visible(transaction.transaction_id)

    def test_aborting_a_long_one_leaves_it_invalid(self, living: Living) -> None:
        committed, aborted = living.start(LONG), living.start(LONG)
        living.commit(committed)
        living.abort(aborted)
        living.abort(aborted)

        assert living.start().invalids == (aborted.transaction_id,)

    def test_the_read_pointer_moves_as_in_tephra(self, living: Living) -> None:
        long, short, timed_out = living.start(LONG), living.start(), living.start(timeout_s=1)
        state = living.state
        living.invalidate(long)
        assert state.read_pointer == FIRST
        living.now_ms += 1_001
        living.expire()
        assert state.read_pointer == FIRST
        living.invalidate(short)
        assert state.read_pointer == short.transaction_id
        living.abort(timed_out)
        assert state.read_pointer == timed_out.transaction_id
        checkpointed = living.checkpoint(living.start())
        living.commit(checkpointed)
        assert state.read_pointer == checkpointed.write_pointer

    def test_how_one_ended_is_known_for_a_while(self) -> None:
        living = Living(Limits(transaction_outcomes_max=3))
        ended = [living.start(), living.start(LONG), living.start(), living.start()]
        for transaction in ended[:3]:
            living.commit(transaction)
        living.abort(ended[3])
        statuses = [living.state.status(t.transaction_id) for t in ended]

        assert statuses == [
            None,
            TransactionStatus.COMMITTED,
            TransactionStatus.COMMITTED,
            TransactionStatus.ABORTED,
        ]
        info = living.state.info(ended[1].transaction_id)
        assert (info.type, info.started_ms, info.expires_ms) == (LONG, NOW_MS, None)


class TestCheckpoints:
    def test_one_keeps_its_snapshot_and_gets_a_new_pointer(self, living: Living) -> None:
        other = living.start()
        first = living.start()
        living.commit(other)
        second = living.checkpoint(first)
        third = living.checkpoint(first)

        assert second.write_pointer > first.write_pointer
        assert third.checkpoint_write_pointers == (second.write_pointer, third.write_pointer)
        assert third.transaction_id == first.transaction_id
        assert (third.read_pointer, third.in_progress) == (first.read_pointer, first.in_progress)

    def test_its_pointers_are_invisible_until_it_commits(self, living: Living) -> None:
        transaction = living.checkpoint(living.start())
        before = living.start()
        pointers = (transaction.transaction_id, transaction.write_pointer)
        living.commit(transaction)
        after = living.start()

        assert before.in_progress == pointers
        assert not any(map(before.is_visible, pointers))
        assert all(map(after.is_visible, pointers))
        assert not any(map(living.state.is_in_progress, pointers))

    def test_lists_stay_sorted(self, living: Living) -> None:
        a, b = living.start(), living.start()
        for transaction in (a, b, a):
            living.checkpoint(transaction)
        living.invalidate(b)
        seen = living.start()

        assert list(seen.in_progress) == sorted(seen.in_progress)
        assert list(seen.invalids) == sorted(seen.invalids)
        living.invalidate(a)
        assert living.invalid == sorted(living.invalid)

    def test_there_are_not_more_than_may_be(self) -> None:
        living = Living(Limits(transaction_checkpoints_max=1))
        transaction = living.checkpoint(living.start())
        with pytest.raises(TooLarge) as caught:
            living.checkpoint(transaction)
        assert caught.value.problem.code == "too_many_checkpoints"
