"""How databases learn, after a crash, what became of transactions that they took part in."""

from collections.abc import Callable
from dataclasses import dataclass, field
from enum import Enum, auto
from typing import Protocol

from tms.core.errors import TransactionUnknown
from tms.core.services.transactions import TransactionInfo, TransactionStatus


class KnownOutcomes(Protocol):
    """Where transactions stand: `Client.transactions`."""

    def info(self, transaction_id: int) -> TransactionInfo:
        """Return where a transaction stands. Raises `TransactionUnknown`."""
        ...


@dataclass
class Recovered:
    """The prepared transactions that a recovery found, by their ids, and their outcomes."""

    committed: list[int] = field(default_factory=list)
    """The transaction had been committed, and so the database's part is now."""
    rolled_back: list[int] = field(default_factory=list)
    """The transaction had ended without a commit, and so has the database's part now."""
    in_progress: list[int] = field(default_factory=list)
    """Left: the transaction may still commit. Recover again when it has ended or timed out."""
    unknown: list[int] = field(default_factory=list)
    """Left: the server has forgotten the transaction, or never had it. A person must decide."""
    conflicting: list[int] = field(default_factory=list)
    """Left: the transaction is committed, but the database was changed since by another program,
    so that its part cannot be made up for. A person must decide."""
    not_permitted: list[int] = field(default_factory=list)
    """Left: another role of the database has prepared it. Recover as that role, or as one that may
    end what others have prepared."""


Recover = Callable[[KnownOutcomes], Recovered]
"""Recovers one database, by a connection of its own."""


class PartEnd(Enum):
    """Whether a database's part of a transaction could be ended."""

    YES = auto()
    CONFLICTS = auto()
    NOT_PERMITTED = auto()


def end_prepared(
    outcomes: KnownOutcomes,
    transaction_ids: list[int],
    *,
    commit: Callable[[int], PartEnd],
    roll_back: Callable[[int], PartEnd],
) -> Recovered:
    """Have each transaction's part committed, rolled back or left; return which."""
    recovered = Recovered()
    for transaction_id in transaction_ids:
        try:
            status = outcomes.info(transaction_id).status
        except TransactionUnknown:
            recovered.unknown.append(transaction_id)
            continue
        if status is TransactionStatus.COMMITTED:
            ended, done = commit(transaction_id), recovered.committed
        elif status in (TransactionStatus.ABORTED, TransactionStatus.INVALID):
            ended, done = roll_back(transaction_id), recovered.rolled_back
        else:
            recovered.in_progress.append(transaction_id)
            continue
        if ended is PartEnd.YES:
            done.append(transaction_id)
        elif ended is PartEnd.CONFLICTS:
            recovered.conflicting.append(transaction_id)
        else:
            recovered.not_permitted.append(transaction_id)
    return recovered
