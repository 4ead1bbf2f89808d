"""Rows of ranges are read in one step and deleted in the next, and no others are."""

from hypothesis import given
from hypothesis import strategies as st

from cleanup.ranges import Budget, Reason, RowRange, Step, drop_ranges
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
    steps = drop_ranges(store, budget, MESSAGE, [RowRange(start, stop)], reason=Reason.TTL)
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


@given(
    keys=KEYS,
    cuts=st.lists(st.integers(0, 31), unique=True, max_size=12).map(sorted),
    rows_max=st.integers(1, 10),
    ms_max=st.sampled_from([0, 60_000]),
    keeps_greatest=st.booleans(),
)
def test_all_rows_of_ranges_go_but_the_greatest_of_each_topic(
    keys: set[bytes], cuts: list[int], rows_max: int, ms_max: int, *, keeps_greatest: bool
) -> None:
    """This holds however they are divided into steps, and whatever is between them."""
    store = stored(keys)
    marks = [b"%02d" % cut for cut in cuts]
    thirds = zip(marks[::3], marks[1::3], marks[2::3], strict=False)
    ranges = [RowRange(start, stop, end) for start, stop, end in thirds]
    expected, kept = set(keys), []
    for each in ranges:
        dead = {key for key in keys if each.start <= key < each.stop}
        greatest = max((key for key in keys if each.start <= key < each.end), default=None)
        is_kept = keeps_greatest and greatest in dead
        kept.append(greatest if is_kept else None)
        expected -= dead - {kept[-1]}
    budget = Budget(rows_max, ms_max)
    steps = list(
        drop_ranges(
            store, budget, MESSAGE, ranges, reason=Reason.TTL, keeps_greatest=keeps_greatest
        )
    )

    assert left(store) == expected
    assert [each.kept for each in ranges] == kept
    assert sum(step.dropped for step in steps) == len(keys) - len(expected)
    assert sum(step.dropped_bytes for step in steps) == sum(each.dropped_bytes for each in ranges)
    assert all(step.dropped <= rows_max for step in steps)
    assert all(step.scanned <= rows_max + 1 for step in steps)
