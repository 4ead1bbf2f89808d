"""A transaction under way as topics and subscriptions see it, and what they gather in it."""

from dataclasses import dataclass, field
from typing import Protocol

from tms.client.transaction_publications import TransactionPublications
from tms.core.commits import CommitRequest
from tms.core.subscriptions import Advance
from tms.core.topic import TopicId
from tms.core.transaction import Transaction


@dataclass(slots=True)
class Gathered:
    """The messages and moves that a transaction's commit or rollback is about."""

    transaction_id: int = 0
    messages: TransactionPublications = field(default_factory=TransactionPublications)
    advances: dict[tuple[TopicId, str], Advance] = field(default_factory=dict)
    """The last move of each subscription, sent with the commit."""

    @property
    def request(self) -> CommitRequest:
        """The request of the commit."""
        return CommitRequest(tuple(self.advances.values()))


class OpenTransaction(Protocol):
    """A transaction of `Client.transaction` or `AsyncClient.transaction`, within its `with`."""

    @property
    def transaction(self) -> Transaction:
        """The snapshot that it reads, and its write pointers."""
        ...

    @property
    def gathered(self) -> Gathered:
        """The work in it. Raises `RuntimeError` unless it is open."""
        ...
