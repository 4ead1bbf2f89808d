"""The state of transactions from its table: the latest snapshot, then the log from there on.

Nothing is guessed: a row that is missing or damaged, or that cannot follow on those before it,
raises `StoreCorrupt`, which names it. Rows behind a gap were acknowledged as much as those before.
"""

from dataclasses import dataclass

from tms.core.errors import StoreCorrupt
from tms.core.limits import Limits
from tms.core.tables import TransactionTable
from tms.transactions.edits import decode_row
from tms.transactions.snapshot import decode_snapshot, encode_snapshot
from tms.transactions.state import TransactionState


@dataclass(frozen=True, slots=True)
class Recovered:
    """A state, and where its log goes on."""

    state: TransactionState
    next_sequence: int
    """The number of the next row of the log."""
    edits_replayed: int
    """How many edits the log had since the snapshot."""


def recover(table: TransactionTable, limits: Limits, now_ms: int) -> Recovered:
    """Return the state as it was, for going on at `now_ms`, milliseconds since 1970. Blocks.

    No transaction expires later than its timeout from now. Where the table is empty, the state
    begins, with all written before visible, and is put as the first snapshot, so that the log never
    stands alone. Raises `StoreCorrupt`, `StoreUnavailable`.
    """
    snapshots = table.snapshots()
    if snapshots:
        first = snapshots[-1]
        state = decode_snapshot(table.snapshot(first), limits)
    else:
        first = 0
        state = TransactionState(limits, now_ms)
        for sequence, _ in table.rows(0):
            raise StoreCorrupt(table="transaction", sequence=sequence, reason="no snapshot")
        table.put_snapshot(0, encode_snapshot(state, now_ms))
    next_sequence, edits_replayed = _replay(state, table, first)
    state.opened.clamp_expiries(now_ms)
    return Recovered(state, next_sequence, edits_replayed)


def _replay(state: TransactionState, table: TransactionTable, first: int) -> tuple[int, int]:
    """Apply the log from the row `first` on; return the next row's number and how many edits."""
    expected = first
    count = 0
    for sequence, row in table.rows(first):
        if sequence != expected:
            raise StoreCorrupt(table="transaction", sequence=expected, reason="a row is missing")
        edits = decode_row(sequence, row)
        try:
            for edit in edits:
                state.apply(edit)
        except (LookupError, ValueError):
            raise StoreCorrupt(
                table="transaction", sequence=sequence, reason="an edit cannot follow"
            ) from None
        expected += 1
        count += len(edits)
    return expected, count
