"""The questions of messaging about transactions, answered at once from the journal.

Fulfils `tms.core.transactions.OpenTransactions`. Used from the event loop's thread alone.
"""

from collections.abc import Iterable
from contextlib import suppress

from tms.core.caller import ANYBODY, Caller
from tms.core.clock import SessionTime
from tms.core.errors import (
    StoreUnavailable,
    TmsError,
    TransactionNotInProgress,
    TransactionUnknown,
)
from tms.core.limits import MS_PER_S
from tms.core.transaction import Transaction
from tms.core.transactions import TransactionStatus
from tms.transactions.commands import TransactionState
from tms.transactions.journal import TransactionJournal


class KnownTransactions:
    """The transactions of a journal, as messaging sees them."""

    def __init__(self, journal: TransactionJournal, time: SessionTime) -> None:
        """Answer by `journal`, at `time`."""
        self._journal = journal
        self._time = time

    def check(self, write_pointer: int) -> int:
        """Return the least time of what is written under `write_pointer`, if anything may be."""
        state = self._journal.state
        opened = state.opened.by_pointer.get(write_pointer)
        if opened is None:
            raise _ended(state, write_pointer)
        return opened.keys_from_ms

    def searched_from_ms(self, write_pointers: Iterable[int]) -> int:
        """Return from when on there may be entries under pointers in progress."""
        return self._journal.searched_from_ms(write_pointers)

    def check_rollback(self, write_pointer: int) -> None:
        """Raise where what was written under `write_pointer` is, or may be, committed."""
        state = self._journal.state
        status = state.status(write_pointer)
        if status is None or status is TransactionStatus.COMMITTED:
            raise _ended(state, write_pointer)

    def check_own(self, write_pointer: int, caller: Caller) -> None:
        """Raise where the transaction of `write_pointer` is another principal's."""
        self._journal.state.check_own(write_pointer, caller)

    def snapshot_of(self, transaction_id: int) -> Transaction:
        """Return the snapshot of a transaction that is durably in progress."""
        return self._journal.snapshot_of(transaction_id)

    def latest(self) -> Transaction:
        """Return what a reader sees that has no transaction."""
        return self._journal.latest()

    def id_of(self, write_pointer: int) -> int:
        """Return the id of the transaction in progress that has a pointer, or the pointer."""
        with suppress(StoreUnavailable):  # readers go on by what was durable before
            return self._journal.state.id_of(write_pointer)
        return write_pointer

    def age_s(self, write_pointer: int) -> float | None:
        """Return how long a transaction has been in progress, None if it is not."""
        with suppress(StoreUnavailable):
            opened = self._journal.state.opened.by_pointer.get(write_pointer)
            return None if opened is None else opened.age_ms(self._time.now_ms()) / MS_PER_S
        return None

    @property
    def knows_publications_after(self) -> int:
        """The write pointer up to which this process may not know what was published."""
        return self._journal.knows_publications_after

    def commit_at_once(
        self,
        now_ms: int,  # noqa: ARG002
        owner: str | None,
        sequence: int | None,
        caller: Caller = ANYBODY,
    ) -> int:
        """Start and commit a transaction within a flush; return its write pointer."""
        started = self._journal.state.start_and_commit(
            self._time.now_ms(), owner=owner, sequence=sequence, caller=caller
        )
        self._journal.carry_out(started.edits)
        return started.transaction_id


def _ended(state: TransactionState, write_pointer: int) -> TmsError:
    status = state.status(write_pointer)
    if status is None:
        return TransactionUnknown(transaction_id=write_pointer)
    return TransactionNotInProgress(transaction_id=write_pointer, status=str(status))
