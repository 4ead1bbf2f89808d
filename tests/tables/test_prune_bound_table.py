"""The rows of bounds."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tables.memory import MemoryStore
from tables.prune_bound_table import Bound, StoreBoundTable
from tables.store import BOUND, MESSAGE, PAYLOAD
from tms.core.errors import StoreCorrupt

INT64 = st.integers(0, 2**63 - 1)


@given(
    ranges=st.dictionaries(
        st.binary(max_size=5), st.tuples(st.binary(max_size=5), INT64, INT64), max_size=4
    )
)
def test_bounds_are_read_as_they_were_put(
    ranges: dict[bytes, tuple[bytes, int, int]],
) -> None:
    store = MemoryStore()
    table = StoreBoundTable(store)
    bounds = [Bound(MESSAGE, start, *rest) for start, rest in sorted(ranges.items())]
    batch = store.batch()
    for bound in bounds:
        table.put(batch, Bound(MESSAGE, bound.start, b"old", 0, 0))
        table.put(batch, bound)
    store.write(batch)

    assert table.bounds(MESSAGE) == bounds
    assert table.bounds(PAYLOAD) == []


def test_a_damaged_row_is_named() -> None:
    store = MemoryStore()
    batch = store.batch()
    batch.put(BOUND, b"message:", b"short")
    store.write(batch)

    with pytest.raises(StoreCorrupt):
        StoreBoundTable(store).bounds(MESSAGE)
