"""The outcomes of recent transactions, for clients that lost the answer to a commit or abort."""

from collections import deque
from collections.abc import Sequence
from typing import NamedTuple

from tms.core.services.transactions import TransactionStatus
from tms.core.values.transaction import TransactionType


class Outcome(NamedTuple):
    """The outcome of a transaction."""

    status: TransactionStatus
    type: TransactionType


OUTCOMES = (
    Outcome(TransactionStatus.COMMITTED, TransactionType.SHORT),
    Outcome(TransactionStatus.COMMITTED, TransactionType.LONG),
    Outcome(TransactionStatus.ABORTED, TransactionType.SHORT),
)
"""By code: a byte in snapshots. DO NOT CHANGE: on disk. Aborted long transactions are invalid."""

_CODES: dict[tuple[TransactionStatus, TransactionType], int] = {
    outcome: code for code, outcome in enumerate(OUTCOMES)
}


class Outcomes:
    """The outcomes of the last `count_max` transactions, by id, in the order of their ends."""

    def __init__(self, count_max: int) -> None:
        self.order: deque[int] = deque()
        self.codes: dict[int, int] = {}
        self._count_max = count_max

    def add(self, transaction_id: int, status: TransactionStatus, type_: TransactionType) -> None:
        """Record an outcome, and forget the oldest one beyond the bound."""
        self.codes[transaction_id] = _CODES[status, type_]
        self.order.append(transaction_id)
        if len(self.order) > self._count_max:
            del self.codes[self.order.popleft()]

    def load(self, transaction_ids: Sequence[int], codes: Sequence[int]) -> None:
        """Fill the empty record, oldest first."""
        start = max(0, len(transaction_ids) - self._count_max)
        self.order.extend(transaction_ids[start:])
        self.codes.update(zip(transaction_ids[start:], codes[start:], strict=True))

    def get(self, transaction_id: int) -> Outcome | None:
        """Return the outcome, None if it is no longer known."""
        code = self.codes.get(transaction_id)
        return None if code is None else OUTCOMES[code]
