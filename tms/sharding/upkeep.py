"""The upkeep of a sharded store: who looks after a shard says which; what is of a topic has one."""

from collections.abc import Sequence
from typing import Never

from tms.core.errors import InvalidRequest
from tms.core.inspection import Facts, PartwiseInspection, Rows
from tms.core.shards import Sharding
from tms.core.topic import TopicId
from tms.sharding.whereabouts import Whereabouts


def _required(shards: int) -> InvalidRequest:
    return InvalidRequest("shard_required", shards=shards)


class ShardedCleanup:
    """Fulfils `Cleanup`: each shard has its own, so there is none of all."""

    def __init__(self, sharding: Sharding) -> None:
        self._shards = sharding.shards

    async def run_pass(self, timeout_s: float) -> Never:  # noqa: ARG002
        """Raise `InvalidRequest` (shard_required)."""
        raise _required(self._shards)

    async def state(self) -> Never:
        """Raise `InvalidRequest` (shard_required)."""
        raise _required(self._shards)


class ShardedInspection(Whereabouts[PartwiseInspection]):
    """Fulfils `PartwiseInspection`, for what is asked of a topic."""

    def __init__(self, sharding: Sharding, services: Sequence[PartwiseInspection]) -> None:
        super().__init__(sharding, services)
        self._shards = sharding.shards

    async def rows(
        self,
        table: str,
        topic_id: TopicId | None,
        from_ms: int | None,
        after: str | None,
        limit: int,
    ) -> Rows:
        """Return a topic's rows. Raises `InvalidRequest` (shard_required) without a topic."""
        if topic_id is None:
            raise _required(self._shards)
        return await self._of(topic_id).rows(table, topic_id, from_ms, after, limit)

    async def size(self, table: str, after: str | None, limit: int) -> Never:  # noqa: ARG002
        """Raise `InvalidRequest` (shard_required)."""
        raise _required(self._shards)

    async def problems(
        self,
        checked: str,  # noqa: ARG002
        after: str | None,  # noqa: ARG002
        limit: int,  # noqa: ARG002
        *,
        is_cleaned: bool,  # noqa: ARG002
    ) -> Never:
        """Raise `InvalidRequest` (shard_required)."""
        raise _required(self._shards)

    async def bounds(self) -> Never:
        """Raise `InvalidRequest` (shard_required)."""
        raise _required(self._shards)

    async def explain(self, topic_id: TopicId, message_id: bytes) -> Facts:
        """Return what is known of an id of a topic."""
        return await self._of(topic_id).explain(topic_id, message_id)
