"""The ranges of topics of several shards."""

from collections.abc import Collection, Sequence

from tms.core.values.ranges import Ranges, TopicRanges
from tms.core.values.reading import Isolation
from tms.core.values.shards import Sharding
from tms.core.values.topic import TopicId


class ShardedRanges:
    """The part of `Ranges` that belongs to no single shard."""

    def __init__(self, sharding: Sharding, listed: Sequence[Ranges]) -> None:
        """Use `listed` for the ranges of several topics."""
        self._sharding = sharding
        self._listed = listed

    async def ranges(
        self, topic_ids: Collection[TopicId], isolation: Isolation = Isolation.COMMITTED
    ) -> TopicRanges:
        """Return the range of each topic, and the time of the first shard that was read.

        The ranges of each shard are as of one time.
        """
        by_shard: dict[int, list[TopicId]] = {}
        for topic_id in topic_ids:
            by_shard.setdefault(self._sharding.shard_of(topic_id), []).append(topic_id)
        parts = [
            await self._listed[shard].ranges(topics, isolation)
            for shard, topics in (by_shard or {0: []}).items()
        ]
        ranges = {topic_id: topic for part in parts for topic_id, topic in part.topics.items()}
        return TopicRanges(
            {topic_id: ranges[topic_id] for topic_id in topic_ids},
            min(part.time_ms for part in parts),
            {topic_id: each for part in parts for topic_id, each in part.expired_before.items()},
        )
