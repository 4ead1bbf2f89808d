"""Groups over shards: they go with their topic."""

from collections.abc import Mapping, Sequence
from typing import Any

from tms.core.caller import ANYBODY, Caller
from tms.core.group_settings import DEFAULTS, GroupSettings
from tms.core.groups import (
    Group,
    GroupMember,
    Groups,
    OpenMessage,
    Position,
    SeekTo,
    Settle,
    Settled,
    Take,
    Taken,
)
from tms.core.topic import TopicId
from tms.sharding.whereabouts import Whereabouts


class ShardedGroups(Whereabouts[Groups]):
    """The groups of all shards of one store. Fulfils `Groups`."""

    async def create_group(
        self,
        topic_id: TopicId,
        name: str,
        settings: GroupSettings = DEFAULTS,
        after: Position = SeekTo.START,
    ) -> Group:
        """Create a group."""
        return await self._of(topic_id).create_group(topic_id, name, settings, after)

    async def group(self, topic_id: TopicId, name: str) -> Group:
        """Return a group."""
        return await self._of(topic_id).group(topic_id, name)

    async def groups(self, topic_id: TopicId) -> Sequence[Group]:
        """Return a topic's groups in the order of their names."""
        return await self._of(topic_id).groups(topic_id)

    async def set_group(
        self,
        topic_id: TopicId,
        name: str,
        changes: Mapping[str, Any],
        expected_version: int | None = None,
    ) -> Group:
        """Change some settings."""
        return await self._of(topic_id).set_group(topic_id, name, changes, expected_version)

    async def delete_group(self, topic_id: TopicId, name: str) -> None:
        """Delete a group."""
        await self._of(topic_id).delete_group(topic_id, name)

    async def take(
        self,
        topic_id: TopicId,
        name: str,
        take: Take,
        *,
        wait_s: float = 0,
        caller: Caller = ANYBODY,
    ) -> Taken:
        """Lease messages to a member."""
        return await self._of(topic_id).take(topic_id, name, take, wait_s=wait_s, caller=caller)

    async def settle(
        self, topic_id: TopicId, name: str, member: str, settle: Settle, *, caller: Caller = ANYBODY
    ) -> Settled:
        """Acknowledge, fail, release or extend."""
        return await self._of(topic_id).settle(topic_id, name, member, settle, caller=caller)

    async def members(self, topic_id: TopicId, name: str) -> Sequence[GroupMember]:
        """Return the members by name."""
        return await self._of(topic_id).members(topic_id, name)

    async def open_messages(
        self, topic_id: TopicId, name: str, *, after: bytes | None = None, limit: int = 100
    ) -> Sequence[OpenMessage]:
        """Return open messages behind an id."""
        return await self._of(topic_id).open_messages(topic_id, name, after=after, limit=limit)

    async def seek(self, topic_id: TopicId, name: str, to: Position) -> Group:
        """Drop all that is open, and read on from `to`."""
        return await self._of(topic_id).seek(topic_id, name, to)
