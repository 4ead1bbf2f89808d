"""The states of a transaction and the events between them: the only table of transitions.

The state diagram in `docs/transactions.md` is made from this table (`diagram`), and
`tms.transactions.commands` checks transitions by it, so neither can differ.
"""

from enum import StrEnum

from tms.core.errors import TransactionNotInProgress, TransactionUnknown
from tms.core.services.transactions import TransactionStatus

IN_PROGRESS = TransactionStatus.IN_PROGRESS
COMMITTING = TransactionStatus.COMMITTING
COMMITTED = TransactionStatus.COMMITTED
ABORTED = TransactionStatus.ABORTED
INVALID = TransactionStatus.INVALID


class Event(StrEnum):
    """An event of a transaction."""

    CAN_COMMIT = "can-commit"
    CHECKPOINT = "checkpoint"
    COMMIT = "commit"
    ABORT = "abort"
    INVALIDATE = "invalidate"
    TIME_OUT = "timeout"
    TRUNCATE = "truncate"


TRANSITIONS: dict[tuple[TransactionStatus, Event], TransactionStatus | None] = {
    (IN_PROGRESS, Event.CAN_COMMIT): COMMITTING,
    (IN_PROGRESS, Event.CHECKPOINT): IN_PROGRESS,
    (IN_PROGRESS, Event.COMMIT): COMMITTED,
    (IN_PROGRESS, Event.ABORT): ABORTED,
    (IN_PROGRESS, Event.INVALIDATE): INVALID,
    (IN_PROGRESS, Event.TIME_OUT): INVALID,
    (COMMITTING, Event.CAN_COMMIT): COMMITTING,
    (COMMITTING, Event.CHECKPOINT): COMMITTING,
    (COMMITTING, Event.COMMIT): COMMITTED,
    (COMMITTING, Event.ABORT): ABORTED,
    (COMMITTING, Event.INVALIDATE): INVALID,
    (COMMITTING, Event.TIME_OUT): INVALID,
    # All its writes were undone after all.
    (INVALID, Event.ABORT): ABORTED,
    # Requested twice.
    (INVALID, Event.INVALIDATE): INVALID,
    (ABORTED, Event.ABORT): ABORTED,
    # None of its entries remain, so it may be forgotten.
    (INVALID, Event.TRUNCATE): None,
}
"""From a status, by an event, to a status; None if the transaction is forgotten then."""


def check(transaction_id: int, status: TransactionStatus | None, event: Event) -> None:
    """Check that `event` may happen to a transaction in `status`, None if unknown.

    Raises `TransactionUnknown`, `TransactionNotInProgress`.
    """
    if status is None:
        raise TransactionUnknown(transaction_id=transaction_id)
    if (status, event) not in TRANSITIONS:
        raise not_in_progress(transaction_id, status)


def not_in_progress(transaction_id: int, status: TransactionStatus) -> TransactionNotInProgress:
    """Return the error for a transaction that has ended in `status`."""
    why = {"reason": "it timed out, or was invalidated"} if status is INVALID else {}
    return TransactionNotInProgress(transaction_id=transaction_id, status=str(status), **why)


def diagram() -> str:
    """Return the table as a state diagram in Mermaid."""
    arrows = [f"    [*] --> {IN_PROGRESS}: start"]
    arrows += [
        f"    {status} --> {after or '[*]'}: {event}"
        for (status, event), after in TRANSITIONS.items()
    ]
    arrows += [f"    {status} --> [*]" for status in (COMMITTED, ABORTED)]
    return "\n".join(["stateDiagram-v2", *arrows])
