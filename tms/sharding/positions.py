"""Subscriptions and ranges over shards: they go with their topic."""

from collections.abc import Collection, Sequence

from tms.core.ranges import Ranges, Reach, Split, TopicRanges
from tms.core.reading import Isolation
from tms.core.shards import Sharding
from tms.core.subscriptions import Advance, SubscriptionPosition, Subscriptions
from tms.core.topic import TopicId
from tms.sharding.whereabouts import Whereabouts


class ShardedSubscriptions(Whereabouts[Subscriptions]):
    """The subscriptions of all shards of one store. Fulfils `Subscriptions`."""

    async def create_subscription(
        self, topic_id: TopicId, name: str, after: bytes | None = None
    ) -> SubscriptionPosition:
        """Create a position."""
        return await self._of(topic_id).create_subscription(topic_id, name, after)

    async def subscription(self, topic_id: TopicId, name: str) -> SubscriptionPosition:
        """Return a position."""
        return await self._of(topic_id).subscription(topic_id, name)

    async def subscriptions(self, topic_id: TopicId) -> Sequence[SubscriptionPosition]:
        """Return a topic's subscriptions in the order of their names."""
        return await self._of(topic_id).subscriptions(topic_id)

    async def advance(self, advance: Advance) -> SubscriptionPosition:
        """Move a position."""
        return await self._of(advance.topic_id).advance(advance)

    async def delete_subscription(self, topic_id: TopicId, name: str) -> None:
        """Delete a position."""
        await self._of(topic_id).delete_subscription(topic_id, name)


class ShardedRanges(Whereabouts[Ranges]):
    """The ranges of topics in all shards of one store. Fulfils `Ranges`."""

    def __init__(
        self, sharding: Sharding, services: Sequence[Ranges], listed: Sequence[Ranges]
    ) -> None:
        """Have the services, and those by which the ranges of several topics are listed."""
        super().__init__(sharding, services)
        self._listed = listed

    async def ranges(
        self, topic_ids: Collection[TopicId], isolation: Isolation = Isolation.COMMITTED
    ) -> TopicRanges:
        """Return what there is of each topic; the time is that of the shard that was asked first.

        Each shard's topics are as of one time.
        """
        by_shard: dict[int, list[TopicId]] = {}
        for topic_id in topic_ids:
            by_shard.setdefault(self._sharding.shard_of(topic_id), []).append(topic_id)
        found = [
            await self._listed[shard].ranges(topics, isolation)
            for shard, topics in (by_shard or {0: []}).items()
        ]
        ranges = {topic_id: each for part in found for topic_id, each in part.topics.items()}
        return TopicRanges(
            {topic_id: ranges[topic_id] for topic_id in topic_ids},
            min(part.time_ms for part in found),
            {topic_id: each for part in found for topic_id, each in part.expired_before.items()},
        )

    async def splits(
        self, topic_id: TopicId, start: bytes, end: bytes, parts: int
    ) -> Sequence[Split]:
        """Return at most `parts` ranges of about equal size."""
        return await self._of(topic_id).splits(topic_id, start, end, parts)

    async def reach(
        self,
        topic_id: TopicId,
        start: bytes,
        end: bytes,
        *,
        messages: int | None = None,
        payload_bytes: int | None = None,
        isolation: Isolation = Isolation.COMMITTED,
    ) -> Reach:
        """Return the furthest end that so many messages and bytes reach."""
        return await self._of(topic_id).reach(
            topic_id,
            start,
            end,
            messages=messages,
            payload_bytes=payload_bytes,
            isolation=isolation,
        )
