"""Errors of what is in another shard: it is told so, where it would be unknown or not there.

A shard knows neither the transactions nor the topics of others. So nothing more is checked of a
request that is in the right place.
"""

from collections.abc import Callable, Iterable, Sequence
from contextlib import AbstractContextManager
from types import TracebackType
from typing import Generic, TypeVar

from tms.core.errors import InvalidRequest, OtherShard, TopicNotFound, TransactionUnknown
from tms.core.shards import Sharding
from tms.core.topic import TopicId

S = TypeVar("S")


class Whereabouts(Generic[S]):
    """The services of one kind, one for each shard."""

    def __init__(self, sharding: Sharding, services: Sequence[S]) -> None:
        """Have the services, each of which may be away for a time (`tms.sharding.places`)."""
        self._sharding = sharding
        self._services = services

    def _of(self, topic: TopicId) -> S:
        """Return the service that has a topic."""
        return self._services[self._sharding.shard_of(topic)]

    @property
    def _only(self) -> S:
        """The service of the only shard. Raises `InvalidRequest` (shard_required) if of several."""
        if self._sharding.shards > 1:
            raise InvalidRequest("shard_required", shards=self._sharding.shards)
        return self._services[0]

    def _with_transaction(self, transaction_id: int) -> S:
        """Return the service that has a transaction."""
        return self._services[self._sharding.shard_of_transaction(transaction_id)]

    def _check_together(self, topic: TopicId, transaction_id: int) -> None:
        """Raise `OtherShard` if a topic is not where a transaction is."""
        shards = self._sharding
        topic_shard, own = shards.shard_of(topic), shards.shard_of_transaction(transaction_id)
        if topic_shard != own:
            raise OtherShard(
                transaction_id=transaction_id,
                transaction_shard=own,
                topic=str(topic),
                topic_shard=topic_shard,
            )

    def _with_topics(
        self, transaction_id: int, topics: Iterable[TopicId]
    ) -> AbstractContextManager[None]:
        """Raise `OtherShard` for what a shard does not know of these, because another has it."""
        return _Together(self._check_together, transaction_id, topics)


class _Together(AbstractContextManager[None]):
    """A call that names a transaction and topics; a class, because a generator costs twice that."""

    __slots__ = ("_check", "_topics", "_transaction_id")

    def __init__(
        self, check: Callable[[TopicId, int], None], transaction_id: int, topics: Iterable[TopicId]
    ) -> None:
        self._check = check
        self._transaction_id = transaction_id
        self._topics = topics

    def __exit__(
        self, _: type[BaseException] | None, error: BaseException | None, __: TracebackType | None
    ) -> None:
        if isinstance(error, TransactionUnknown | TopicNotFound):
            for topic in self._topics:
                self._check(topic, self._transaction_id)
