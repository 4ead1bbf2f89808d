"""The state of transactions from its table: the latest snapshot, then the log from there on.

Late rows of earlier leaders are ignored (`tms.transactions.segments`).

Nothing is guessed: a row that is missing or damaged, or that cannot follow the rows before it,
raises `StoreCorrupt`, which names it. Rows after a gap were acknowledged like those before it.
"""

from dataclasses import dataclass
from typing import TYPE_CHECKING

from tms.core.errors import StoreCorrupt
from tms.core.limits import Limits
from tms.core.runtime.repeatable import repeatable
from tms.core.values.shards import EVERY_ID, OwnIds
from tms.core.values.store_access import StoreAccess
from tms.transactions.commands import TransactionState
from tms.transactions.edits import decode_row
from tms.transactions.segments import (
    check_token,
    encode_first,
    first_of,
    is_first,
    pieces,
    token_of,
)
from tms.transactions.snapshot_codec import decode_snapshot, encode_snapshot

if TYPE_CHECKING:
    from tables.transaction_table import StoreTransactionTable


@dataclass(frozen=True, slots=True)
class RecoveredState:
    """A state, and the place where its log continues."""

    state: TransactionState
    next_sequence: int
    """The number of the next row of the log."""
    edits_replayed: int
    """The number of edits in the log since the snapshot."""
    before_last: int | None = None
    """The last write pointer before the previous leader; None if the log begins later."""
    last_token: int = 0
    """The token of the segment before this leader's; its own if its segment had already begun."""


@repeatable()
def recover(
    table: "StoreTransactionTable",
    limits: Limits,
    now_ms: int,
    token: int = 0,
    access: StoreAccess = StoreAccess.CREATE,
    *,
    ids: OwnIds = EVERY_ID,
) -> RecoveredState:
    """Recover the state, to continue at `now_ms`, milliseconds since 1970. Blocks.

    No transaction expires later than its timeout from now. If the table is empty, a new state
    begins, in which all earlier messages are visible. It is written as the first snapshot, so that
    a log always has one; not if `access` only reads, because there will be no log. Under the
    `token` of a lease a segment of the log begins, unless it has begun: see
    `tms.transactions.segments`. New transactions get the write pointers `ids`. Raises
    `StoreCorrupt`, `StoreUnavailable`.
    """
    snapshots = table.snapshots()
    if snapshots:
        first = snapshots[-1]
        state = decode_snapshot(table.snapshot(first), limits, ids)
    else:
        # After the first row of the segment, which no other row precedes.
        first = first_of(token) + 1 if token else 0
        state = TransactionState(limits, now_ms, ids)
        for sequence, _ in table.rows(0):
            raise StoreCorrupt(table="transaction", sequence=sequence, reason="no snapshot")
        if access is not StoreAccess.READ:
            table.put_snapshot(first, encode_snapshot(state, now_ms))
    next_sequence, edits_replayed, before_last = _replay(state, table, first)
    last = token_of(next_sequence)
    check_token(token, last)
    if token > last:
        table.put_row(first_of(token), encode_first(next_sequence))
        next_sequence = first_of(token) + 1
    state.opened.clamp_expiries(now_ms)
    return RecoveredState(state, next_sequence, edits_replayed, before_last, last)


def _replay(
    state: TransactionState, table: "StoreTransactionTable", first: int
) -> tuple[int, int, int | None]:
    """Apply the log from the row `first` on.

    Return the next row's number, the number of edits, and the last write pointer before the latest
    segment; None if that began before.
    """
    expected, count = first, 0
    before_last = None if token_of(first) else 0  # a single server has no leader before it
    for start, end in pieces(table, first):
        expected = start
        for sequence, row in table.rows(start):
            if end is not None and sequence >= end:
                break
            if sequence != expected:
                raise _missing(expected)
            if is_first(sequence):
                before_last = state.last_write_pointer
            else:
                count += _apply(state, sequence, row)
            expected += 1
        if end is not None and expected < end:
            raise _missing(expected)
    return expected, count, before_last


def _missing(sequence: int) -> StoreCorrupt:
    return StoreCorrupt(table="transaction", sequence=sequence, reason="a row is missing")


def _apply(state: TransactionState, sequence: int, row: bytes) -> int:
    """Apply the edits of a row; return how many there were."""
    edits = decode_row(sequence, row)
    try:
        for edit in edits:
            state.apply(edit)
    except (LookupError, ValueError):
        raise StoreCorrupt(
            table="transaction", sequence=sequence, reason="an edit does not fit the state"
        ) from None
    return len(edits)
