"""An open transaction for topics and subscriptions, and the work that they gather in it."""

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from typing import Protocol

from tms.client.transactions.transaction_publications import TransactionPublications
from tms.core.services.commits import CommitRequest
from tms.core.values.groups import CommitAcks
from tms.core.values.schedules import CommitSchedule
from tms.core.values.subscriptions import Advance
from tms.core.values.topic import TopicId
from tms.core.values.transaction import Transaction


class AckInCommit(Protocol):
    """A message of a group that the commit acknowledges."""

    def commit_acks(self) -> CommitAcks:
        """Return the part of the commit that acknowledges it."""
        ...

    def committed(self) -> None:
        """Record that it is acknowledged."""
        ...

    async def rolled_back(self, cause: BaseException | None) -> None:
        """Give it back: it is not acknowledged."""
        ...

    def in_doubt(self) -> None:
        """Record that the outcome is unknown."""
        ...


@dataclass(slots=True)
class Gathered:
    """The work in a transaction that its commit or rollback covers."""

    transaction_id: int = 0
    messages: TransactionPublications = field(default_factory=TransactionPublications)
    advances: dict[tuple[TopicId, str], Advance] = field(default_factory=dict)
    """The last move of each subscription, sent with the commit."""
    acks: list[AckInCommit] = field(default_factory=list)
    schedule: list[CommitSchedule] = field(default_factory=list)

    @property
    def request(self) -> CommitRequest:
        """The request of the commit."""
        advances, acks = tuple(self.advances.values()), by_delivery(self.acks)
        return CommitRequest(advances, acks=acks, schedule=tuple(self.schedule))


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


def by_delivery(acks: Iterable[AckInCommit]) -> tuple[CommitAcks, ...]:
    """Return the acks of a commit: one value for each delivery, ids ascending."""
    joined: dict[tuple[TopicId, str, int], CommitAcks] = {}
    for ack in acks:
        one = ack.commit_acks()
        place = (one.topic_id, one.name, one.delivery)
        other = joined.get(place)
        ids = one.ids if other is None else sorted((*other.ids, *one.ids))
        joined[place] = replace(one, ids=ids)
    return tuple(joined.values())
