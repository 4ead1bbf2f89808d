"""A leader's segment of the log: rows that an earlier leader writes late are not replayed."""

import pytest

from tables.store import TRANSACTION
from tests.transactions.living import NOW_MS, Living
from tests.transactions.logs import LIMITS, Log
from tms.core.errors import StoreCorrupt, StoreUnavailable
from tms.transactions.edits import encode_row
from tms.transactions.recovery import RecoveredState, recover
from tms.transactions.segments import decode_first, encode_first, first_of, is_first, within


class Leader:
    """A leader of the log: the state that it recovered, and its rows."""

    def __init__(self, log: Log, token: int) -> None:
        self.log = log
        self.found: RecoveredState = recover(log.table, LIMITS, NOW_MS, token)
        self.living = Living(state=self.found.state)
        self.row = self.found.next_sequence

    def write(self) -> None:
        """Start a transaction, durably."""
        self.log.put(*self.late())

    def late(self) -> tuple[int, bytes]:
        """Start a transaction; return its row, which is not written yet."""
        self.living.start()
        row = self.row, encode_row(self.living.edits)
        self.living.edits = []
        self.row += 1
        return row


def check(log: Log, leader: Leader) -> None:
    """Check that a recovery gives this leader's state."""
    for token in (leader.row >> 40, 0):
        found = recover(log.table, LIMITS, NOW_MS, token)
        assert Living(state=found.state).snapshot() == leader.living.snapshot()
        assert found.next_sequence == leader.row


def test_each_leader_continues_from_the_one_before() -> None:
    log = Log()
    log.living.start()
    log.write()
    before = log.living.snapshot()
    first = Leader(log, 3)
    assert first.living.snapshot() == before
    assert first.row == first_of(3) + 1
    first.write()
    first.write()
    second = Leader(log, 4)
    assert second.living.snapshot() == first.living.snapshot()
    second.write()

    check(log, second)


def test_what_comes_late_is_not_replayed() -> None:
    log = Log()
    first = Leader(log, 1)
    first.write()
    late = first.late()
    second = Leader(log, 2)
    second.write()
    much_later = second.late()
    third = Leader(log, 3)

    log.put(*late)
    log.put(*much_later)

    check(log, third)
    third.write()
    check(log, third)


def test_a_leader_that_had_not_begun_is_passed_over() -> None:
    log = Log()
    first = Leader(log, 1)
    first.write()
    end = first.row
    third = Leader(log, 3)
    third.write()

    log.put(first_of(2), encode_first(end))
    log.put(first_of(2) + 1, third.late()[1])
    third.row -= 1

    found = recover(log.table, LIMITS, NOW_MS)
    assert found.next_sequence == third.row
    fourth = Leader(log, 4)
    assert fourth.living.snapshot() == Living(state=found.state).snapshot()


def test_a_snapshot_of_a_leader_before_does_no_harm() -> None:
    log = Log()
    first = Leader(log, 1)
    first.write()
    snapshot, number = first.living.snapshot(), first.row
    late = first.late()
    second = Leader(log, 2)
    second.write()

    log.put(*late)
    log.table.put_snapshot(number, snapshot)

    check(log, second)
    log.table.put_snapshot(second.row, second.living.snapshot())
    log.table.drop_before(second.row, 100)
    second.write()
    check(log, second)


def test_an_empty_log_begins_with_its_leader() -> None:
    log = Log()
    batch = log.store.batch()
    with log.store.scan(TRANSACTION, b"", b"\xff") as rows:
        batch.delete_rows(TRANSACTION, [key for key, _ in rows])
    log.store.write(batch)

    first = Leader(log, 5)

    assert log.table.snapshots() == [first_of(5) + 1]
    first.write()
    check(log, first)


def test_the_same_leader_recovers_without_a_new_segment() -> None:
    log = Log()
    leader = Leader(log, 2)
    leader.write()

    check(log, leader)
    assert [is_first(number) for number, _ in log.table.rows(0)] == [True, False]


def test_a_leader_whose_token_is_behind_is_reported() -> None:
    log = Log()
    Leader(log, 7)

    with pytest.raises(StoreUnavailable) as refused:
        recover(log.table, LIMITS, NOW_MS, 6)
    assert refused.value.detail["later_token"] == 7


def test_a_row_that_is_missing_within_a_segment_is_reported() -> None:
    log = Log()
    first = Leader(log, 1)
    first.write()
    first.write()
    Leader(log, 2)
    batch = log.store.batch()
    batch.delete(TRANSACTION, b"e" + (first.row - 1).to_bytes(8))
    log.store.write(batch)

    with pytest.raises(StoreCorrupt):
        log.recovered(NOW_MS)


@pytest.mark.parametrize("row", [b"", b"\x02", encode_first(5)[:-1], encode_row([])])
def test_a_damaged_first_row_is_reported(row: bytes) -> None:
    with pytest.raises(StoreCorrupt):
        decode_first(first_of(1), row)


def test_numbers() -> None:
    assert decode_first(1, encode_first(first_of(3) + 9)) == first_of(3) + 9
    assert [within(each) for each in (4, first_of(2) + 4)] == [4, 4]
    assert [is_first(each) for each in (0, 1, first_of(1), first_of(1) + 1)] == [0, 0, 1, 0]
