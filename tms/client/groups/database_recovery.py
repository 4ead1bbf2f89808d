"""Ends the database parts of transactions, after a crash, as the transactions ended."""

from collections.abc import Callable
from dataclasses import dataclass, field
from enum import Enum, auto
from typing import Protocol

from tms.core.errors import TransactionUnknown
from tms.core.services.transactions import TransactionInfo, TransactionStatus


class KnownOutcomes(Protocol):
    """A source of transactions' states: `Client.transactions`."""

    def info(self, transaction_id: int) -> TransactionInfo:
        """Return the state of a transaction. Raises `TransactionUnknown`."""
        ...


@dataclass
class Recovered:
    """The prepared transactions that a recovery found: their ids by outcome."""

    committed: list[int] = field(default_factory=list)
    """The transaction was committed, and now the database's part is too."""
    rolled_back: list[int] = field(default_factory=list)
    """The transaction ended without a commit, and now the database's part is rolled back."""
    in_progress: list[int] = field(default_factory=list)
    """Still prepared: the transaction may still commit. Recover again when it has ended."""
    unknown: list[int] = field(default_factory=list)
    """Still prepared: the server has forgotten the transaction, or never had it. A person must
    decide."""
    conflicting: list[int] = field(default_factory=list)
    """Left undone: the transaction is committed, but another program has changed the database
    since, so the database's part can no longer be committed. A person must decide."""
    not_permitted: list[int] = field(default_factory=list)
    """Still prepared: by another role of the database. Recover as that role, or as one that may end
    the prepared transactions of others."""


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
    """Commit, roll back or leave each transaction's part; return which."""
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
