"""Runs: a batch is split into runs, ordered so that every prefix of them is valid."""

from hypothesis import given
from hypothesis import strategies as st

from tables.hbase.layout import Salt
from tables.hbase.writes import HBaseBatch, Run, parts_of
from tables.store import ALL_TABLES, BOUND, MESSAGE, METADATA, PAYLOAD, SUBSCRIPTION, TRANSACTION

SALTS = {table: Salt(table, 4) for table in ALL_TABLES}
WRITES = st.lists(
    st.tuples(
        st.sampled_from(ALL_TABLES),
        st.sampled_from([b"ns:a:1", b"ns:a:2", b"ns:b:1"]),
        st.none() | st.binary(max_size=2),
    ),
    max_size=12,
)


def batch_of(writes: list[tuple[str, bytes, bytes | None]]) -> HBaseBatch:
    batch = HBaseBatch(SALTS)
    for table, key, value in writes:
        if value is None:
            batch.delete(table, key)
        else:
            batch.put(table, key, value)
    return batch


@given(writes=WRITES)
def test_the_last_write_of_a_row_counts(writes: list[tuple[str, bytes, bytes | None]]) -> None:
    found: dict[tuple[str, bytes], bytes | None] = {}
    for run in batch_of(writes).runs:
        for row, value in run.rows.items():
            assert row[:1] == SALTS[run.table].of(row[1:])
            found[run.table, row[1:]] = None if run.is_delete else value

    assert found == {(table, key): value for table, key, value in writes}


def test_many_requests_make_few_runs_and_what_vouches_for_them_comes_last() -> None:
    rows = [(table, b"ns:a:%d" % n, b"v") for n in range(9) for table in (PAYLOAD, MESSAGE)]
    batch = batch_of([*rows, (SUBSCRIPTION, b"s", b"v"), (MESSAGE, b"ns:b:1", b"v")])
    batch.put(TRANSACTION, b"e1", b"v")

    assert [run.table for run in batch.runs] == [PAYLOAD, MESSAGE, SUBSCRIPTION, TRANSACTION]
    assert [row[1:] for row in batch.runs[1].rows][-2:] == [b"ns:a:8", b"ns:b:1"]


def test_nothing_goes_before_what_vouches_for_others_nor_before_a_deletion() -> None:
    for between in (TRANSACTION, METADATA, BOUND):
        batch = batch_of([(MESSAGE, b"a", b"v"), (between, b"k", b"v"), (MESSAGE, b"b", b"v")])
        assert [run.table for run in batch.runs] == [MESSAGE, between, MESSAGE]
    batch = batch_of([(MESSAGE, b"a", b"v"), (PAYLOAD, b"k", None), (MESSAGE, b"b", b"v")])
    assert [run.table for run in batch.runs] == [MESSAGE, PAYLOAD, MESSAGE]


@given(sizes=st.lists(st.integers(0, 5 * 1024 * 1024), max_size=12))
def test_a_part_is_what_one_call_has_room_for(sizes: list[int]) -> None:
    run = Run(MESSAGE, is_delete=False)
    run.rows = {b"%d" % number: bytes(size) for number, size in enumerate(sizes)}
    parts = list(parts_of(run))

    assert {key: value for part in parts for key, value in part.items()} == run.rows
    for part in parts:
        assert sum(map(len, list(part.values())[:-1])) < 8 * 1024 * 1024
    assert not run.is_one_call or len(parts) <= 1


def test_only_what_may_not_be_found_in_part_needs_an_intent() -> None:
    one = batch_of([(MESSAGE, b"a", b"v"), (TRANSACTION, b"e", b"v")])
    assert not one.needs_intent
    one.require_atomic()
    assert one.needs_intent

    row = batch_of([(SUBSCRIPTION, b"s", b"v")])
    row.require_atomic()
    assert not row.needs_intent
    many = [(MESSAGE, b"%d" % number, b"") for number in range(5001)]
    assert batch_of([*many]).needs_intent
    assert not batch_of([(table, key, None) for table, key, _ in many]).needs_intent
