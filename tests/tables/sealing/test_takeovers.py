"""Leaders hand on which transactions continued over takeovers, even via older versions."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tables.memory import MemoryStore
from tables.sealing import takeovers
from tables.sealing.takeovers import Crossings, decode_crossings, encode_crossings, take_over
from tables.store import TRANSACTION
from tests.contracts.store_contract import rows_of
from tms.core.errors import StoreCorrupt

LEADERS = st.lists(
    st.tuples(
        st.booleans(),  # whether the leader records the transactions that continued
        st.lists(
            st.integers(0, 4), max_size=4
        ),  # for how many leaders each of its transactions continues
    ),
    min_size=1,
    max_size=7,
)


@given(LEADERS, st.integers(1, 4))
def test_a_transaction_that_went_on_is_never_taken_for_one_that_did_not(
    leaders: list[tuple[bool, list[int]]], pointers_max: int
) -> None:
    """Each leader begins some transactions, which end under it or under a later one."""
    store = MemoryStore()
    last_pointer = 100
    until: dict[int, int] = {}
    for token, (writes, begun) in enumerate(leaders, start=1):
        in_progress = [pointer for pointer, end in until.items() if end >= token]
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(takeovers, "POINTERS_MAX", pointers_max)
            if writes:
                found = take_over(store, token, token - 1, last_pointer, in_progress)
                went_on = {p for p, end in until.items() if end >= _begun_under(p) + 1}
                for pointer in until:
                    assert not (found.has_none_of(pointer) and pointer in went_on)
                if all(each for each, _ in leaders[: token - 1]) and len(went_on) <= pointers_max:
                    assert all(found.has_none_of(p) for p in until if p not in went_on)
                assert len(rows_of(store, TRANSACTION)) <= 2
        for number, leaders_more in enumerate(begun):
            last_pointer = token * 1_000 + number
            until[last_pointer] = token + leaders_more


def _begun_under(pointer: int) -> int:
    return pointer // 1_000


@given(st.integers(-1, 2**63 - 1), st.frozensets(st.integers(0, 2**63 - 1), max_size=5))
def test_rows_are_read_as_they_were_written(since: int, pointers: frozenset[int]) -> None:
    assert decode_crossings(encode_crossings(Crossings(since, pointers))) == Crossings(
        since, pointers
    )


@pytest.mark.parametrize("cut", [0, 1, 5, 12, 20])
def test_a_damaged_row_is_reported(cut: int) -> None:
    row = encode_crossings(Crossings(7, frozenset({9})))
    for damaged in (row[:cut], row[:cut] + b"\xff" + row[cut + 1 :]):
        with pytest.raises(StoreCorrupt):
            decode_crossings(damaged)
