"""Named positions of consumers in a topic. Only a consumer that knows the position can move it.

There are two kinds of subscription. A single one is such a position; a shared one is a group
(`tms.core.values.groups`), which has no position to move.

A position has a version that grows by one with each move, and a move names the present version: if
two consumers share a name by mistake, or if an answer was lost, one of them gets an error. The
first version is the time in microseconds. A recreated subscription (or one in a recreated topic)
starts with a new version, so an old consumer cannot move it.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Protocol

from tms.core.errors import InvalidRequest, StoreFormatUnknown
from tms.core.limits import NAME_CHARS_MAX
from tms.core.values.group_settings import GroupSettings
from tms.core.values.message import shown
from tms.core.values.topic import TopicId

_NAME = re.compile(rf"[A-Za-z0-9_.-]{{1,{NAME_CHARS_MAX}}}", re.ASCII)


def check_subscription_name(name: str) -> str:
    """Return the name. Raises `InvalidRequest` (invalid_subscription_name)."""
    if not _NAME.fullmatch(name):
        raise InvalidRequest("invalid_subscription_name", name=name)
    return name


class SubscriptionKind(StrEnum):
    """The kind of a subscription, as it is stored and shown."""

    SINGLE = "single"
    """The position of one reader."""
    SHARED = "shared"
    """A group."""


@dataclass(frozen=True, slots=True)
class SubscriptionPosition:
    """A consumer's position in a topic."""

    topic_id: TopicId
    name: str
    after: bytes | None
    """The id of the last consumed message, 20 bytes; None before the first. For a group, the id
    after which it began.
    """
    version: int
    """The microseconds since 1970 at its creation, plus one for each move or change of a group's
    settings.
    """
    kind: SubscriptionKind = SubscriptionKind.SINGLE

    def __repr__(self) -> str:
        """Return the fields, the id in hexadecimal digits."""
        return shown(
            "SubscriptionPosition",
            topic=str(self.topic_id),
            name=self.name,
            after=self.after,
            version=self.version,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class SharedSubscription(SubscriptionPosition):
    """A group, as the Subscription table stores it: what never changes, and its settings."""

    kind: SubscriptionKind = SubscriptionKind.SHARED
    created: int
    """Its first version. The rows of its log are numbered from it."""
    settings: GroupSettings
    unknown: Sequence[str] = ()
    """Settings of later versions that this one does not know."""

    def check_known(self) -> None:
        """Raise `StoreFormatUnknown` if a setting that it must have is unknown."""
        if self.unknown:
            raise StoreFormatUnknown(
                topic=str(self.topic_id),
                group=self.name,
                unknown=list(self.unknown),
                reason="a later version of TMS set these settings of the group: use that version, "
                "or delete the group",
            )


@dataclass(frozen=True, slots=True)
class Advance:
    """A move of a position, from the version that the consumer knows."""

    topic_id: TopicId
    name: str
    after: bytes
    expected_version: int


class Subscriptions(Protocol):
    """Named positions. Each method may raise `TopicNotFound`, `Unavailable`, `InternalError`."""

    async def create_subscription(
        self, topic_id: TopicId, name: str, after: bytes | None = None
    ) -> SubscriptionPosition:
        """Create a position, by default before the oldest message.

        Raises `SubscriptionExists`, `InvalidRequest` (invalid_subscription_name,
        invalid_message_id).
        """
        ...

    async def subscription(self, topic_id: TopicId, name: str) -> SubscriptionPosition:
        """Return a position. Raises `SubscriptionNotFound`, `SubscriptionIsShared`."""
        ...

    async def subscriptions(self, topic_id: TopicId) -> Sequence[SubscriptionPosition]:
        """Return a topic's subscriptions and groups, ordered by name."""
        ...

    async def advance(self, advance: Advance) -> SubscriptionPosition:
        """Move a position, forwards or back; durable when it returns.

        Raises `SubscriptionNotFound`, `SubscriptionIsShared`, and `SubscriptionMoved` if its
        version is another one, which is in `detail`.
        """
        ...

    async def delete_subscription(self, topic_id: TopicId, name: str) -> None:
        """Delete a position. Raises `SubscriptionNotFound`, `SubscriptionIsShared`."""
        ...
