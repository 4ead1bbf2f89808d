"""A recovery restores the earlier state, or reports what is damaged."""

import pytest

from tests.transactions.living import FIRST, LONG, NOW_MS, Living
from tests.transactions.logs import Log
from tms.core.errors import StoreCorrupt
from tms.transactions.edits import Edit, EditKind, encode_row


@pytest.fixture
def log() -> Log:
    """Three rows: two starts, a checkpoint, a commit."""
    log = Log()
    first = log.living.start()
    log.living.start(LONG)
    log.write()
    log.living.checkpoint(first)
    log.write()
    log.living.commit(first)
    log.write()
    return log


def test_an_empty_table_gets_its_first_snapshot() -> None:
    log = Log()

    assert log.table.snapshots() == [0]
    again = log.recovered(NOW_MS + 60_000)
    assert (again.next_sequence, again.edits_replayed) == (0, 0)
    assert again.state.read_pointer == again.state.last_write_pointer == FIRST


def test_the_log_is_replayed(log: Log) -> None:
    recovered = log.recovered()

    assert (recovered.next_sequence, recovered.edits_replayed) == (3, 4)
    assert Living(state=recovered.state).snapshot() == log.living.snapshot()


def test_from_the_latest_snapshot_on(log: Log) -> None:
    log.table.put_snapshot(3, log.living.snapshot())
    log.living.start()
    log.write()
    log.table.drop_before(3, 100)
    recovered = log.recovered()

    assert (recovered.next_sequence, recovered.edits_replayed) == (4, 1)
    assert Living(state=recovered.state).snapshot() == log.living.snapshot()


@pytest.mark.parametrize("missing", [0, 1])
def test_a_missing_row_is_damage(log: Log, missing: int) -> None:
    batch = log.store.batch()
    batch.delete("transaction", b"e" + missing.to_bytes(8, "big"))
    log.store.write(batch)

    with pytest.raises(StoreCorrupt) as caught:
        log.recovered()
    assert caught.value.detail["sequence"] == missing


def test_a_damaged_row_is_damage(log: Log) -> None:
    log.put(1, b"\x01nonsense")
    with pytest.raises(StoreCorrupt) as caught:
        log.recovered()
    assert caught.value.detail["sequence"] == 1


@pytest.mark.parametrize(
    "edit",
    [
        Edit(EditKind.STARTED, FIRST, type=LONG),
        Edit(EditKind.STARTED, FIRST + 99),
        Edit(EditKind.COMMITTING, 17),
        Edit(EditKind.COMMITTED, FIRST + 1),
        Edit(EditKind.COMMITTED, FIRST + 1, at_once=True),
        Edit(EditKind.INVALID, 17),
        Edit(EditKind.ABORTED, 17),
        Edit(EditKind.CHECKPOINT, FIRST + 99, parent=17),
        Edit(EditKind.CHECKPOINT, FIRST, parent=FIRST + 2),
    ],
)
def test_an_edit_that_cannot_follow_is_damage(log: Log, edit: Edit) -> None:
    log.put(3, encode_row([edit]))
    with pytest.raises(StoreCorrupt) as caught:
        log.recovered()
    assert caught.value.detail["sequence"] == 3


def test_a_log_without_a_snapshot_is_damage(log: Log) -> None:
    batch = log.store.batch()
    batch.delete("transaction", b"s" + bytes(8) + b"\xff" * 4)
    log.store.write(batch)

    with pytest.raises(StoreCorrupt):
        log.recovered()


def test_a_damaged_snapshot_is_damage(log: Log) -> None:
    log.table.put_snapshot(3, b"nonsense")
    with pytest.raises(StoreCorrupt):
        log.recovered()


def test_none_expires_later_than_its_timeout_after_the_clock_was_set_back(log: Log) -> None:
    log.living.start(timeout_s=7)
    log.write()
    hour_ago = NOW_MS - 3_600_000
    state = log.recovered(hour_ago).state

    assert state.opened.next_expiry_ms() == hour_ago + 7_000
    assert log.recovered(NOW_MS).state.opened.next_expiry_ms() == NOW_MS + 7_000
