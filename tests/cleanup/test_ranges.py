"""Rows of a range are read in one step and deleted in the next, and none but they."""

from hypothesis import given
from hypothesis import strategies as st

from cleanup.ranges import Budget, Reason, Step, drop_range
from tables.memory import MemoryStore
from tables.store import MESSAGE

KEYS = st.sets(st.integers(0, 30).map(lambda number: b"%02d" % number))


def stored(keys: set[bytes]) -> MemoryStore:
    store = MemoryStore()
    batch = store.batch()
    batch.put_rows(MESSAGE, [(key, b"value") for key in keys])
    store.write(batch)
    return store


def left(store: MemoryStore) -> set[bytes]:
    with store.scan(MESSAGE, b"", b"\xff") as rows:
        return {key for key, _ in rows}


@given(keys=KEYS, rows_max=st.integers(1, 10))
def test_each_step_reads_or_deletes(keys: set[bytes], rows_max: int) -> None:
    store = stored(keys)
    start, stop = b"05", b"20"
    expired = sorted(key for key in keys if start <= key < stop)
    parts = [expired[at : at + rows_max] for at in range(0, len(expired), rows_max)]

    budget = Budget(rows_max, ms_max=60_000)
    steps = drop_range(store, budget, MESSAGE, start, stop, reason=Reason.TTL)
    remaining = set(keys)
    for part in parts:
        size = sum(len(key) + len(b"value") for key in part)
        assert next(steps) == Step(MESSAGE, Reason.TTL, scanned=len(part))
        assert left(store) == remaining
        assert next(steps) == Step(MESSAGE, Reason.TTL, 0, len(part), size)
        remaining -= set(part)
        assert left(store) == remaining
    assert next(steps, None) is None
    assert left(store) == remaining
