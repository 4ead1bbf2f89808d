"""The rules of transactions: those of Tephra's own tests, then owners, sequences and limits."""

import pytest

from tests.transactions.living import FIRST, LONG, NOW_MS, Living
from tms.core.errors import (
    InvalidRequest,
    InvalidTruncateTime,
    OwnerBusy,
    TooLarge,
    TooManyTransactions,
    TransactionConflict,
    TransactionDuplicate,
    TransactionNotInProgress,
    TransactionUnknown,
)
from tms.core.limits import WRITE_POINTERS_PER_MS, Limits
from tms.core.transaction import NO_TX_IN_PROGRESS, TransactionType
from tms.core.transactions import IfOpen, TransactionStatus

DAY_MS = 24 * 3600 * 1000


@pytest.fixture
def living() -> Living:
    return Living()


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
        with pytest.raises(TooManyTransactions):
            living.start()
        living.start(owner="o", if_open=IfOpen.FENCE)

        living.commit(first)
        living.start()
        assert living.state.in_progress_count == 2


class TestConflicts:
    def test_the_second_to_commit_the_same_change_is_refused(self, living: Living) -> None:
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

    def test_one_that_started_after_the_commit_does_not_conflict(self, living: Living) -> None:
        a, hold = living.start(), living.start()
        living.can_commit(a, b"1")
        living.commit(a)
        b = living.start()
        living.can_commit(b, b"1")
        living.commit(b)

        with pytest.raises(TransactionConflict):
            living.can_commit(hold, b"1")

    def test_many_commits_at_the_same_pointer(self, living: Living) -> None:
        several = [living.start() for _ in range(5)]
        late = living.start()
        for number, transaction in enumerate(several):
            living.can_commit(transaction, b"%d" % number)
            living.commit(transaction)

        assert len({s.commit_pointer for s in living.state.change_sets.committed}) == 1
        for number in range(5):
            with pytest.raises(TransactionConflict):
                living.can_commit(late, b"%d" % number)

    def test_write_skew_is_allowed(self, living: Living) -> None:
        a, b = living.start(), living.start()
        living.can_commit(a, b"x")
        living.can_commit(b, b"y")
        living.commit(a)
        living.commit(b)

    def test_a_commit_that_announced_nothing_records_nothing(self, living: Living) -> None:
        a, b = living.start(), living.start()
        assert living.state.can_commit(a.transaction_id, ()) == ()
        living.commit(a)

        assert not living.state.change_sets.committed
        living.can_commit(b, b"1")

    def test_announcing_again_replaces(self, living: Living) -> None:
        a, b = living.start(), living.start()
        living.can_commit(a, b"1")
        living.can_commit(a)
        living.commit(a)

        living.can_commit(b, b"1")

    def test_one_committed_at_once_conflicts_with_those_open(self, living: Living) -> None:
        a = living.start()
        pointer = living.at_once(changes=[b"1"], client="c")

        with pytest.raises(TransactionConflict) as caught:
            living.can_commit(a, b"1")
        assert caught.value.detail["other_transaction_id"] == pointer
        assert caught.value.detail["client"] == "c"

    def test_committed_sets_are_kept_for_short_ones_only(self, living: Living) -> None:
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

    def test_a_large_change_set_is_refused(self) -> None:
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
        for command in (state.commit, state.checkpoint):
            with pytest.raises(TransactionUnknown):
                command(17, NOW_MS)
        with pytest.raises(TransactionUnknown):
            state.can_commit(17, ())

    def test_a_checkpoints_pointer_is_no_id_save_to_invalidate(self, living: Living) -> None:
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


class TestTimeouts:
    def test_those_whose_time_is_over_become_invalid(self, living: Living) -> None:
        one, two = living.start(timeout_s=2), living.checkpoint(living.start(timeout_s=2))
        long, later = living.start(LONG), living.start(timeout_s=3)
        assert living.state.next_expiry_ms() == NOW_MS + 2_000
        living.now_ms += 2_000
        living.expire()
        assert living.invalid == []
        living.now_ms += 1
        living.expire()

        ids = [one.transaction_id, two.transaction_id, two.write_pointer]
        assert living.invalid == ids
        assert living.state.next_expiry_ms() == NOW_MS + 3_000
        with pytest.raises(TransactionNotInProgress):
            living.can_commit(one)
        living.abort(one)
        assert living.invalid == ids[1:]
        living.abort(two)
        assert living.invalid == []
        living.commit(long)
        living.commit(later)
        assert living.state.next_expiry_ms() is None

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
        assert living.state.next_expiry_ms() == NOW_MS + 30_000
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

    def test_the_prune_bound(self, living: Living) -> None:
        state = living.state
        assert state.prune_upper_bound == FIRST - 1
        first, second = living.start(), living.start()
        assert state.prune_upper_bound == first.transaction_id - 1
        living.invalidate(first)
        assert state.prune_upper_bound == first.transaction_id
        living.commit(second)
        assert state.prune_upper_bound == first.transaction_id
        living.truncate(first.transaction_id)
        assert state.prune_upper_bound == second.transaction_id - 1


class TestOwners:
    def test_a_sequence_is_committed_once(self, living: Living) -> None:
        committed = living.start(owner="o", sequence=3)
        living.commit(committed)

        for sequence in (0, 2, 3):
            for attempt in (living.start, living.at_once):
                with pytest.raises(TransactionDuplicate) as caught:
                    attempt(owner="o", sequence=sequence)
                assert caught.value.detail == {
                    "owner": "o",
                    "sequence": sequence,
                    "committed_sequence": 3,
                    "transaction_id": committed.transaction_id,
                }
        living.at_once("o", 4)
        living.start(owner="p", sequence=0)
        living.start(owner="o", sequence=9)

    @pytest.mark.parametrize("end", [Living.abort, Living.invalidate])
    def test_one_that_did_not_commit_can_be_started_again(self, living: Living, end: type) -> None:
        end(living, living.start(owner="o", sequence=1))
        living.commit(living.start(owner="o", sequence=1))

    def test_an_older_open_one_is_in_the_way(self, living: Living) -> None:
        open_one = living.start(owner="o", sequence=1)
        for attempt in (living.start, living.at_once):
            with pytest.raises(OwnerBusy) as caught:
                attempt(owner="o", sequence=2)
            assert caught.value.detail["transaction_id"] == open_one.transaction_id

    def test_or_is_fenced(self, living: Living) -> None:
        old = living.checkpoint(living.start(owner="o", sequence=1))
        new = living.start(owner="o", sequence=1, if_open=IfOpen.FENCE)

        assert new.invalids == (old.transaction_id, old.write_pointer)
        assert new.in_progress == ()
        with pytest.raises(TransactionNotInProgress):
            living.commit(old)
        living.commit(new)

    def test_or_is_joined(self, living: Living) -> None:
        old = living.start(owner="o", sequence=1)
        edits = list(living.edits)
        assert living.start(owner="o", sequence=1, if_open=IfOpen.JOIN) == old
        assert living.edits == edits

        with pytest.raises(OwnerBusy):
            living.start(owner="o", sequence=2, if_open=IfOpen.JOIN)

    @pytest.mark.parametrize("if_open", list(IfOpen))
    def test_where_none_is_open_a_new_one_is_started(self, living: Living, if_open: IfOpen) -> None:
        living.commit(living.start(owner="o"))
        living.start(owner="o", if_open=if_open)

    @pytest.mark.parametrize(("owner", "sequence"), [("", 1), ("o" * 256, 1), (None, 1), ("o", -1)])
    def test_owners_and_sequences_that_are_none(
        self, living: Living, owner: str | None, sequence: int
    ) -> None:
        for attempt in (living.start, living.at_once):
            with pytest.raises(InvalidRequest) as caught:
                attempt(owner=owner, sequence=sequence)
            assert caught.value.problem.code == "invalid_owner"

    def test_an_owner_that_does_nothing_is_forgotten(self) -> None:
        living = Living(Limits(transaction_owner_retention_s=10))
        living.at_once("idle", 5)
        living.at_once("busy", 5)
        living.now_ms += 1
        living.at_once("late", 5)
        living.start(owner="busy", sequence=6)
        living.do(living.state.forget_owners(living.now_ms + 9_999))
        assert list(living.state.owners.last_commits) == ["idle", "busy", "late"]
        living.do(living.state.forget_owners(living.now_ms + 10_000))

        assert list(living.state.owners.last_commits) == ["busy", "late"]
        assert living.state.forget_owners(living.now_ms + 10_000) == ()

    def test_the_oldest_beyond_the_bound_are_forgotten_save_those_with_one_open(self) -> None:
        living = Living(Limits(transaction_owners_max=2))
        for owner in ("a", "b"):
            living.at_once(owner, 1)
        living.start(owner="a")
        living.at_once("c", 1)
        assert set(living.state.owners.last_commits) == {"a", "c"}

        living.start(owner="c")
        living.at_once("d", 1)
        living.at_once("e", 1)
        assert set(living.state.owners.last_commits) == {"a", "c", "e"}, "over it: both are open"


class TestLooking:
    def test_a_reader_without_a_transaction_sees_what_a_start_would(self, living: Living) -> None:
        living.invalidate(living.start())
        open_one = living.start()
        living.commit(living.start())
        latest, started = living.state.latest_snapshot(), living.start()

        assert latest.transaction_id == latest.write_pointer == 0
        assert (latest.read_pointer, latest.in_progress, latest.invalids) == (
            started.read_pointer,
            started.in_progress,
            started.invalids,
        )
        assert latest.first_short_in_progress == open_one.transaction_id

    def test_infos(self, living: Living) -> None:
        a = living.start(client="c", owner="o", sequence=1)
        b = living.checkpoint(living.start(LONG))
        living.can_commit(a, b"1")
        infos = living.state.infos_in_progress()

        assert [i.status for i in infos] == ["committing", "in_progress"]
        assert (infos[0].client, infos[0].owner, infos[0].sequence) == ("c", "o", 1)
        assert infos[1].write_pointers == (b.transaction_id, b.write_pointer)
        assert infos[1].type is LONG
        living.invalidate(a)
        living.invalidate(b)
        invalid = living.state.infos_invalid()
        assert [i.transaction_id for i in invalid] == [a.transaction_id, b.transaction_id]
        assert invalid[0].client == "c"
        assert invalid == [living.state.info(i.transaction_id) for i in invalid]
        assert living.state.infos_invalid(1) == invalid[:1]
        assert living.state.invalid_count == 3
        assert invalid[0].type is TransactionType.SHORT
