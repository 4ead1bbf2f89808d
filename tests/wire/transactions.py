"""Arbitrary transactions, for the tests of their encodings."""

from hypothesis import strategies as st

from tms.core.values.transaction import Transaction, TransactionType, VisibilityLevel

INT64 = st.integers(-(2**63), 2**63 - 1)
POINTERS = st.lists(INT64, max_size=5, unique=True).map(lambda numbers: tuple(sorted(numbers)))
TRANSACTIONS = st.builds(
    Transaction,
    read_pointer=INT64,
    transaction_id=INT64,
    write_pointer=INT64,
    invalids=POINTERS,
    in_progress=POINTERS,
    first_short_in_progress=INT64,
    type=st.sampled_from(TransactionType),
    checkpoint_write_pointers=POINTERS,
    visibility_level=st.sampled_from(VisibilityLevel),
)
