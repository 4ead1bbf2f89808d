"""How long a worker's function may take with one message, and how long its transaction may.

Each follows from the other if only one of them is given: work that its transaction does not outlive
is in vain, and a transaction needs a little longer than the work, to commit.
"""

from dataclasses import dataclass
from math import ceil

from tms.core.text.durations import Duration, seconds_of, whole_seconds_of

TOO_LONG = "the work took longer than its transaction may: give the worker transaction_timeout_s"
_COMMIT_S = 5


@dataclass(frozen=True, slots=True)
class WorkLimit:
    """The limits of one call; None if the client sets none."""

    work_s: float | None = None
    transaction_s: int | None = None
    reason: str = ""
    """Why a message is given back whose work took longer."""


def work_limit_of(
    timeout_s: Duration | None, transaction_timeout_s: Duration | None, *, transaction: bool
) -> WorkLimit:
    """Return the limits of a worker. Raises `ValueError` for what cannot be."""
    if transaction_timeout_s is not None and not transaction:
        raise ValueError("transaction_timeout_s needs transaction=True")
    transaction_s = None
    if transaction_timeout_s is not None:
        transaction_s = whole_seconds_of(transaction_timeout_s)
        if transaction_s < 1:
            raise ValueError("transaction_timeout_s is at least 1")
    if timeout_s is None:
        return WorkLimit(transaction_s, transaction_s, TOO_LONG)
    work_s = seconds_of(timeout_s)
    if not work_s > 0:
        raise ValueError("timeout_s is more than 0")
    if transaction_s is None:
        transaction_s = ceil(work_s) + _COMMIT_S
    elif work_s > transaction_s:
        raise ValueError("timeout_s is at most transaction_timeout_s")
    return WorkLimit(work_s, transaction_s, f"the work took longer than timeout_s, {work_s:g} s")


NO_LIMIT = WorkLimit()
