"""The upkeep of shards: each has its own, so callers name a shard, or a topic of it."""

from tms.core.cleanup import Cleanup, CleanupState
from tms.core.inspection import Bounds, Facts, PartwiseInspection, Problems, Rows, Size
from tms.core.topic import TopicId
from tms.sharding.whereabouts import Whereabouts


class ShardedCleanup(Whereabouts[Cleanup]):
    """The cleanup of the only shard. Fulfils `Cleanup`.

    Raises `InvalidRequest` (shard_required) if there are several.
    """

    async def run_pass(self, timeout_s: float) -> bool:
        """Run a pass; return whether it has ended in time."""
        return await self._only.run_pass(timeout_s)

    async def state(self) -> CleanupState:
        """Return how it stands."""
        return await self._only.state()


class ShardedInspection(Whereabouts[PartwiseInspection]):
    """A look into the tables of the only shard, or of a topic's. Fulfils `PartwiseInspection`.

    Raises `InvalidRequest` (shard_required) if there are several, and none is named.
    """

    async def rows(
        self,
        table: str,
        topic_id: TopicId | None,
        from_ms: int | None,
        after: str | None,
        limit: int,
    ) -> Rows:
        """Return a topic's rows, or a table's."""
        service = self._only if topic_id is None else self._of(topic_id)
        return await service.rows(table, topic_id, from_ms, after, limit)

    async def size(self, table: str, after: str | None, limit: int) -> Size:
        """Return the size of a part of a table."""
        return await self._only.size(table, after, limit)

    async def problems(
        self, checked: str, after: str | None, limit: int, *, is_cleaned: bool
    ) -> Problems:
        """Return the problems of a part of the tables."""
        return await self._only.problems(checked, after, limit, is_cleaned=is_cleaned)

    async def bounds(self) -> Bounds:
        """Return the bounds of cleanup."""
        return await self._only.bounds()

    async def explain(self, topic_id: TopicId, message_id: bytes) -> Facts:
        """Return what is known of an id of a topic."""
        return await self._of(topic_id).explain(topic_id, message_id)
