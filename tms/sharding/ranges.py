"""The ranges of topics of several shards."""

from collections.abc import Collection, Sequence

from tms.core.values.ranges import Ranges, TopicRanges
from tms.core.values.reading import Isolation
from tms.core.values.shards import Sharding
from tms.core.values.topic import TopicId


class ShardedRanges:
    """The part of `Ranges` that is of no shard alone."""

    def __init__(self, sharding: Sharding, listed: Sequence[Ranges]) -> None:
        """Have the services by which the ranges of several topics are listed."""
        self._sharding = sharding
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
