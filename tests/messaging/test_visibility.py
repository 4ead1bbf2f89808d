"""The entries that readers get, compared with the rule applied entry by entry."""

from hypothesis import given
from hypothesis import strategies as st

from tms.core.values.entries import PLAIN, Entries
from tms.core.values.transaction import Transaction, Visibility
from tms.messaging.visibility import View, visible_in

POINTER = st.integers(1, 30)
POINTERS = st.lists(st.just(PLAIN) | POINTER | POINTER.map(int.__neg__), max_size=20)
ASCENDING = st.sets(POINTER, max_size=15).map(sorted).map(tuple)


@st.composite
def transactions(draw: st.DrawFn) -> Transaction:
    own = draw(POINTER)
    return Transaction(
        read_pointer=draw(POINTER),
        transaction_id=own,
        write_pointer=own,
        in_progress=draw(ASCENDING),
        invalids=draw(ASCENDING),
    )


@given(POINTERS, st.sets(st.integers(0, 19)), st.none() | transactions(), st.data())
def test_it_is_the_rule_entry_by_entry(
    pointers: list[int], references: set[int], transaction: Transaction | None, data: st.DataObject
) -> None:
    count = len(pointers)
    start = data.draw(st.integers(0, count))
    stop = data.draw(st.integers(start, count))
    references = {index for index in references if index < count and pointers[index] != PLAIN}
    written = [pointer for pointer in pointers if pointer != PLAIN]
    is_bounded: bool = data.draw(st.booleans())
    bounds = (min(written), max(written)) if written and is_bounded else None
    entries = Entries(count, b"", None, pointers, references, bounds=bounds)

    expected: list[int] = []
    stopped_at = None
    for index in range(start, stop):
        pointer = pointers[index]
        rule = Visibility.GIVE
        if transaction is not None and pointer != PLAIN:
            rule = transaction.decide(pointer)
        if rule is Visibility.STOP:
            stopped_at = index
            break
        if rule is Visibility.GIVE:
            expected.append(index)

    found = visible_in(entries, start, stop, View(transaction))
    assert [index for run in found.runs for index in run] == expected
    assert found.stopped_at == stopped_at
    assert all(len(run) == 1 for run in found.runs if run[0] in references)
    assert all(not references & set(run) for run in found.runs if len(run) > 1)
