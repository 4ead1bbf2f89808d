"""Errors of what is in another shard: it is told so, where it would be unknown or not there.

A shard knows neither the transactions nor the topics of others. So nothing more is checked of a
request that is in the right place.
"""

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Generic, TypeVar

from tms.core.errors import OtherShard, TopicNotFound, TransactionUnknown
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

    @contextmanager
    def _with_topics(self, transaction_id: int, topics: Iterable[TopicId]) -> Iterator[None]:
        """Raise `OtherShard` for what a shard does not know of these, because another has it."""
        try:
            yield
        except (TransactionUnknown, TopicNotFound):
            for topic in topics:
                self._check_together(topic, transaction_id)
            raise
