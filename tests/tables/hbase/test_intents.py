"""An intent is whole or absent, whichever of its rows were written."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tables.hbase import intents
from tables.hbase.intents import SLOTS, Intent, done, intent, key_of, latest, token_of
from tables.hbase.writes import Run
from tables.store import ALL_TABLES, MESSAGE, TRANSACTION
from tms.core.errors import StoreCorrupt

RUNS = st.lists(
    st.builds(
        Run,
        st.sampled_from(ALL_TABLES),
        st.booleans(),
        st.dictionaries(st.binary(min_size=1, max_size=5), st.binary(max_size=40), max_size=5),
    ),
    max_size=4,
)


class Rows:
    """The rows of HBase's Transaction table."""

    def __init__(self) -> None:
        self._rows: dict[bytes, bytes] = {}

    def put(self, *runs: Run) -> None:
        for run in runs:
            assert (run.table, run.is_delete) == (TRANSACTION, False)
            self._rows.update(run.rows)

    def latest(self, token: int = 0) -> Intent:
        return latest(
            lambda table, row: self._rows.get(row) if table == TRANSACTION else None, token
        )


@pytest.fixture
def _small_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(intents, "_PART_BYTES", 16)


SOME = [Run(MESSAGE, is_delete=False, rows={b"\x00k%d" % n: bytes(20) for n in range(9)})]


def test_if_there_is_none_nothing_is_left() -> None:
    assert Rows().latest() == Intent(0, [])


@given(runs=RUNS, number=st.integers(1, 2**40))
def test_it_is_read_as_it_was_written(runs: list[Run], number: int) -> None:
    rows = Rows()
    rows.put(*intent(number, runs))

    assert rows.latest() == Intent(number, runs)
    rows.put(done(number))
    assert rows.latest() == Intent(number, [])


@pytest.mark.usefixtures("_small_parts")
def test_without_its_first_part_it_is_not_there() -> None:
    rows = Rows()
    rows.put(*intent(1, SOME))
    *others, head = intent(2, SOME * 2)
    rows.put(*others)
    assert rows.latest() == Intent(1, SOME)

    rows.put(head)
    assert rows.latest() == Intent(2, SOME * 2)


@pytest.mark.usefixtures("_small_parts")
def test_the_greatest_number_counts_however_late_another_comes() -> None:
    rows = Rows()
    for number in range(1, 2 * SLOTS):
        rows.put(*intent(number, SOME), done(number))
    late = intent(2 * SLOTS, SOME)
    rows.put(*late, *intent(2 * SLOTS + 1, []), done(2 * SLOTS + 1))
    rows.put(*late)

    assert rows.latest() == Intent(2 * SLOTS + 1, [])


@pytest.mark.usefixtures("_small_parts")
@pytest.mark.parametrize("token", [0, 1])
def test_its_largest_row_is_its_last_and_as_large_as_the_largest_of_the_runs(token: int) -> None:
    rows = intent(1, [*SOME, Run(TRANSACTION, is_delete=False, rows={b"k": bytes(99)})], token)
    sizes = [len(row) + len(value) for run in rows for row, value in run.rows.items()]

    assert len(sizes) > 2
    assert max(sizes) == sizes[-1] == 100


@pytest.mark.usefixtures("_small_parts")
def test_a_damaged_one_is_reported() -> None:
    for damage in (b"", b"damaged"):
        rows = Rows()
        rows.put(*intent(3, SOME))
        for part in (0, 2):
            rows.put(*intent(3, SOME), Run(TRANSACTION, False, {key_of(3, part): damage}))
            with pytest.raises(StoreCorrupt):
                rows.latest()


@pytest.mark.usefixtures("_small_parts")
@pytest.mark.parametrize("before", [0, 3])
def test_a_late_one_of_a_leader_before_overwrites_nothing(before: int) -> None:
    rows = Rows()
    rows.put(*intent(1, SOME, before), done(1, before), done(1, 4), *intent(2, SOME * 2, 4))
    rows.put(*intent(2, SOME, before))

    assert rows.latest(4) == Intent(2, SOME * 2)
    assert rows.latest(before) == Intent(2, SOME)


def test_rows_say_whose_they_are() -> None:
    for token in (0, 1, 2**40):
        assert {token_of(key_of(number, 3, token)) for number in range(SLOTS)} == {token}
