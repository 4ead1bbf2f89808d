"""Subscriptions over REST, in JSON. Only reads are repeated after a failure that leaves doubt.

A move whose answer was lost is not repeated: if the position is where it should be, this consumer
or another one may have moved it, and the version exists to detect that.
"""

from collections.abc import Sequence

from tms.client.remote.calls import JSON, Remote, of_the_server
from tms.client.remote.remote_messaging import topic_path
from tms.core.errors import SubscriptionIsShared
from tms.core.values.subscriptions import (
    Advance,
    SubscriptionKind,
    SubscriptionPosition,
    check_subscription_name,
)
from tms.core.values.topic import TopicId
from tms.wire import json_subscriptions as bodies


class RemoteSubscriptions(Remote):
    """The subscriptions of a server, as `tms.core.values.subscriptions.Subscriptions`."""

    async def create_subscription(
        self, topic_id: TopicId, name: str, after: bytes | None = None
    ) -> SubscriptionPosition:
        """Create a position. Raises `SubscriptionExists`."""
        body = bodies.encode_position(after)
        answer = await self._calls.once("PUT", _path(topic_id, name), body, JSON)
        with of_the_server():
            return bodies.decode_subscription(answer, topic_id)

    async def subscription(self, topic_id: TopicId, name: str) -> SubscriptionPosition:
        """Return a position. Raises `SubscriptionNotFound`, `SubscriptionIsShared`."""
        position = await self._get(_path(topic_id, name), bodies.decode_subscription, topic_id)
        if position.kind is SubscriptionKind.SHARED:
            raise SubscriptionIsShared(topic=str(topic_id), subscription=name)
        return position

    async def subscriptions(self, topic_id: TopicId) -> Sequence[SubscriptionPosition]:
        """Return a topic's positions in the order of their names."""
        path = f"{topic_path(topic_id)}/subscriptions"
        return await self._get(path, bodies.decode_subscriptions, topic_id)

    async def advance(self, advance: Advance) -> SubscriptionPosition:
        """Move a position. Raises `SubscriptionNotFound`, `SubscriptionMoved`."""
        path = f"{_path(advance.topic_id, advance.name)}/advance"
        answer = await self._calls.once("POST", path, bodies.encode_move(advance), JSON)
        with of_the_server():
            return bodies.decode_subscription(answer, advance.topic_id)

    async def delete_subscription(self, topic_id: TopicId, name: str) -> None:
        """Delete a position. Raises `SubscriptionNotFound`, `SubscriptionIsShared`."""
        await self.subscription(topic_id, name)  # raises if it is a group
        await self._calls.once("DELETE", _path(topic_id, name))


def _path(topic_id: TopicId, name: str) -> str:
    return f"{topic_path(topic_id)}/subscriptions/{check_subscription_name(name)}"
