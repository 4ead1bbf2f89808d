"""Groups: subscriptions of kind `shared`, whose messages many members take and settle.

For a group each committed message is unread, open or settled. A take leases open messages to a
member, under a number: a delivery. One durable edit settles a message. A message whose lease ends,
or that fails, is given again later, so without transactions each is given at least once. If acks
go with a commit (`CommitRequest.acks`), they hold if and only if it commits.

With the order `key`, at most one member has messages of a key, and none is acknowledged before an
earlier one of its key is settled. A message without a key is a key of its own.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Final, Literal, Protocol

from tms.core.errors import InvalidRequest
from tms.core.values.caller import ANYBODY, Caller
from tms.core.values.dead_letters import DeadLetter
from tms.core.values.group_settings import DEFAULTS, DELAY_S_MAX, GroupSettings
from tms.core.values.message import MessageBlock, shown_fields
from tms.core.values.topic import TopicId

MEMBER_CHARS_MAX: Final = 128
REASON_BYTES_MAX: Final = 200
TAKE_MESSAGES_MAX: Final = 1_000
REDRIVEN_MAX: Final = 1_000
"""The most dead letters that one request names or deals with."""
SETTLED_IDS_MAX: Final = 10_000
"""The most messages that one settle names."""
_MEMBER = re.compile(rf"[A-Za-z0-9_.:-]{{1,{MEMBER_CHARS_MAX}}}", re.ASCII)


def check_member(name: str) -> str:
    """Return the name of a member. Raises `InvalidRequest` (invalid_member)."""
    if not _MEMBER.fullmatch(name):
        raise InvalidRequest("invalid_member", member=name)
    return name


def check_delay(delay_s: float | None) -> None:
    """Check the seconds before another attempt. Raises `InvalidRequest` (invalid_group)."""
    if delay_s is not None and not 0 <= delay_s <= DELAY_S_MAX:
        raise InvalidRequest("invalid_group", delay_s=delay_s, delay_s_max=DELAY_S_MAX)


def kept_of(reason: str) -> str:
    """Return as much of the reason of a nack as is kept; half a surrogate pair is escaped."""
    kept = reason[:REASON_BYTES_MAX].encode(errors="backslashreplace")[:REASON_BYTES_MAX]
    return kept.decode(errors="ignore")


class LimitedBy(StrEnum):
    """The reason why a take got less than it asked for."""

    TRANSACTION = "transaction"
    """The next message is behind one whose transaction is in progress."""
    OPEN_MAX = "open_max"
    """As many messages are open as the group may have."""
    MEMBER_MAX = "member_max"
    """The member has as many as a member may."""
    KEYS = "keys"
    """Messages are there, but others of their keys are leased or wait."""
    RETRY = "retry"
    """Messages are there that failed, and wait for their next attempt."""
    PAUSED = "paused"
    DEAD_LETTER = "dead_letter"
    """Messages are there whose dead letters cannot be written now."""
    SERVER = "server"
    """As many messages are open as the server may have."""


class Refusal(StrEnum):
    """The reason why a message was not settled."""

    SETTLED = "settled"
    """It is settled already."""
    LEASE_LOST = "lease_lost"
    """Another delivery has it, it was not read into the group, or the delivery is not this
    member's, or from before a seek."""
    EARLIER_OPEN = "earlier_open"
    """By key: an earlier message of its key is not settled."""
    NO_DEAD_LETTER = "no_dead_letter"
    """The group has no topic of dead letters; the member still has the message."""


@dataclass(frozen=True, slots=True)
class GroupState:
    """A moment of a group."""

    through: bytes | None
    """All committed messages up to this id have been read into the group; None: none yet."""
    unread: int
    """How many follow, counted up to 10,000, or 8 MiB of them."""
    open: int
    leased: int
    waiting: int
    blocked: int
    oldest_open: bytes | None
    oldest_s: float | None
    """The age in seconds of the oldest open message."""
    members: int
    dying: int
    """How many are about to become dead letters."""
    limited_by: LimitedBy | None
    """The reason why a take would get nothing now."""
    stopped_at: int | None
    """The write pointer of the transaction in progress that is in the way."""

    def __repr__(self) -> str:
        """Return the fields, ids in hexadecimal digits."""
        return shown_fields(self)


@dataclass(frozen=True, slots=True)
class Group:
    """A group, as it is shown."""

    topic_id: TopicId
    name: str
    version: int
    """The microseconds since 1970 when it was created, and one more for each change of settings."""
    after: bytes | None
    """The id behind which it began."""
    settings: GroupSettings
    state: GroupState

    def __repr__(self) -> str:
        """Return the fields, ids in hexadecimal digits."""
        return shown_fields(self)


@dataclass(frozen=True, slots=True)
class Acks:
    """Messages of one delivery that are done."""

    delivery: int
    ids: Sequence[bytes] | None = None
    """None: all that the delivery still has."""


@dataclass(frozen=True, slots=True)
class Nacks:
    """Messages of one delivery that failed."""

    delivery: int
    ids: Sequence[bytes] | None = None
    delay_s: float | None = None
    """The seconds before the next attempt; None: the back-off of the group's settings."""
    reason: str = ""
    """At most `REASON_BYTES_MAX` bytes of it are kept."""
    dead: bool = False
    """Whether it was the last attempt: the messages become dead letters."""


@dataclass(frozen=True, slots=True)
class Releases:
    """Messages of one delivery that its member gives back; no attempt is counted."""

    delivery: int
    ids: Sequence[bytes] | None = None


@dataclass(frozen=True, slots=True)
class Settle:
    """The end of a member's work on at most `SETTLED_IDS_MAX` messages."""

    acks: Sequence[Acks] = ()
    nacks: Sequence[Nacks] = ()
    releases: Sequence[Releases] = ()
    extend: Sequence[int] | None = None
    """The deliveries whose leases go on; empty: all that the member has; None: none."""
    lease_s: int | None = None
    """The seconds for which `extend` extends from now; None: the group's setting."""
    leave: bool = False
    """Whether all that the member still has is released."""


NO_SETTLE: Final = Settle()


@dataclass(frozen=True, slots=True)
class RefusedMessage:
    """A message that was not settled."""

    delivery: int
    id: bytes | None
    """None: the delivery as a whole is not known."""
    reason: Refusal


@dataclass(frozen=True, slots=True)
class Settled:
    """The outcome of a settle, durable."""

    settled: int
    """How many messages were acknowledged."""
    refused: Sequence[RefusedMessage] = ()
    lease_s: float | None = None
    """The seconds for which `extend` extended, at least; None if it did not."""


@dataclass(frozen=True, slots=True)
class Take:
    """A request for messages."""

    member: str
    messages: int = 1
    """How many at most."""
    bytes_max: int | None = None
    """No more once this many bytes of payload are reached, at least one; None: the server's."""
    lease_s: int | None = None
    """None: the group's setting."""
    sequence: int | None = None
    """The member's number of this take: a repeat with the same gets the same delivery again, as
    far as it still holds. None: it cannot be repeated."""
    anew: bool = False
    """Whether the member begins anew: what its name held before is released, uncounted."""
    settle: Settle = NO_SETTLE
    """Settled first, durably."""


@dataclass(frozen=True, slots=True)
class Taken:
    """The answer to a take."""

    delivery: int | None = None
    """None where there is nothing."""
    lease_s: float = 0
    blocks: Sequence[MessageBlock] = ()
    """The messages, in the order of their ids."""
    attempts: Sequence[int] = ()
    """The number of the attempt for each message, from 1; empty: all are 1."""
    limited_by: LimitedBy | None = None
    """None if the take got all that it asked for, or the topic has no more."""
    stopped_at: int | None = None
    """With `TRANSACTION`: its write pointer."""
    settled: Settled = field(default_factory=lambda: Settled(0))

    def with_settled(self, settled: Settled) -> "Taken":
        """Return it with the outcome of the settle that was done first."""
        given = (self.delivery, self.lease_s, self.blocks, self.attempts)
        return Taken(*given, self.limited_by, self.stopped_at, settled)


@dataclass(frozen=True, slots=True)
class GroupMember:
    """A member that holds messages, or that was seen of late."""

    name: str
    principal: str | None
    holds: int
    since_ms: int
    """When this server saw it first, ms since 1970."""
    seen_ms: int


@dataclass(frozen=True, slots=True)
class OpenMessage:
    """An open message of a group."""

    id: bytes
    attempts: int
    """How many attempts have failed."""
    state: Literal["available", "leased", "waiting", "blocked", "dying"]
    member: str | None
    """Who has it, if it is leased."""
    until_ms: int | None
    """When its lease ends, or when it is given again; ms since 1970."""
    last_member: str | None = None
    """The member that had it last; None if that is not known."""
    reason: str | None = None
    """Why it failed last, as its member said; kept for the newest 1,000 failed messages."""

    def __repr__(self) -> str:
        """Return the fields, ids in hexadecimal digits."""
        return shown_fields(self)


@dataclass(frozen=True, slots=True)
class DeadLetters:
    """Dead letters of a group that are not dealt with."""

    letters: Sequence[DeadLetter]
    next: bytes | None
    """The id behind which to go on; None at the end."""


@dataclass(frozen=True, slots=True)
class Redriven:
    """The outcome of a redrive."""

    redriven: int
    """How many messages are given again, or were published anew."""
    expired: Sequence[bytes]
    """The dead letters whose messages are not in the topic any more; they can be published anew."""


class SeekTo(StrEnum):
    """A place of a topic that has no id."""

    START = "start"
    END = "end"


Position = bytes | int | SeekTo
"""A place in a topic: behind a message id of 20 bytes, at a time in ms since 1970, or an end."""


@dataclass(frozen=True, slots=True)
class CommitAcks:
    """Messages of a group that a commit acknowledges."""

    topic_id: TopicId
    name: str
    member: str
    delivery: int
    ids: Sequence[bytes]


class Groups(Protocol):
    """Groups. Each method may raise `TopicNotFound`, `Unavailable`, `InternalError`.

    Those that name a group may raise `SubscriptionNotFound`, and `SubscriptionIsSingle` (409
    subscription_is_single) where the name is that of a position.
    """

    async def create_group(
        self,
        topic_id: TopicId,
        name: str,
        settings: GroupSettings = DEFAULTS,
        after: Position = SeekTo.START,
    ) -> Group:
        """Create a group. If there is one of that order, return it as it is.

        Raises `SubscriptionExists` for another order, `InvalidRequest` (invalid_subscription_name,
        invalid_group), `TooLarge` (too_many_subscriptions), and `TransactionsElsewhere`.
        """
        ...

    async def group(self, topic_id: TopicId, name: str) -> Group:
        """Return a group."""
        ...

    async def groups(self, topic_id: TopicId) -> Sequence[Group]:
        """Return a topic's groups in the order of their names."""
        ...

    async def set_group(
        self,
        topic_id: TopicId,
        name: str,
        changes: Mapping[str, Any],
        expected_version: int | None = None,
    ) -> Group:
        """Change some of the `SETTABLE`; durable when it returns.

        Raises `InvalidRequest` (invalid_group), and `SubscriptionMoved` where the group has
        another version than the one that is expected.
        """
        ...

    async def delete_group(self, topic_id: TopicId, name: str) -> None:
        """Delete a group; the messages stay."""
        ...

    async def take(
        self,
        topic_id: TopicId,
        name: str,
        take: Take,
        *,
        wait_s: float = 0,
        caller: Caller = ANYBODY,
    ) -> Taken:
        """Lease messages to a member; wait up to `wait_s` seconds for the first one.

        Raises `InvalidRequest` (invalid_group, invalid_member).
        """
        ...

    async def settle(
        self, topic_id: TopicId, name: str, member: str, settle: Settle, *, caller: Caller = ANYBODY
    ) -> Settled:
        """Acknowledge, fail, release or extend; durable when it returns."""
        ...

    async def members(self, topic_id: TopicId, name: str) -> Sequence[GroupMember]:
        """Return the members by name."""
        ...

    async def open_messages(
        self, topic_id: TopicId, name: str, *, after: bytes | None = None, limit: int = 100
    ) -> Sequence[OpenMessage]:
        """Return open messages behind the id `after`, ascending."""
        ...

    async def seek(self, topic_id: TopicId, name: str, to: Position) -> Group:
        """Drop all that is open, and read on from `to`; acks from before are refused."""
        ...

    async def skip(self, topic_id: TopicId, name: str, ids: Sequence[bytes]) -> int:
        """Settle open messages, whoever has them; return how many were open. Durable.

        Raises `InvalidRequest` (invalid_group, invalid_message_id), as do the methods below.
        """
        ...

    async def take_back(
        self,
        topic_id: TopicId,
        name: str,
        ids: Sequence[bytes] = (),
        *,
        member: str | None = None,
        failed: bool = False,
    ) -> int:
        """Take leased messages back from their members; return how many. Durable.

        These are the messages with `ids`, and all that a `member` holds. No attempt is counted,
        unless they `failed`.
        """
        ...

    async def dead_letters(
        self, topic_id: TopicId, name: str, *, after: bytes | None = None, limit: int = 100
    ) -> DeadLetters:
        """Return dead letters of the group that are not dealt with, behind the id `after`.

        Fewer than `limit` may be followed by more: `next` says so.
        """
        ...

    async def redrive(
        self,
        topic_id: TopicId,
        name: str,
        ids: Sequence[bytes] | None = None,
        *,
        limit: int = 100,
        publish: bool = False,
    ) -> Redriven:
        """Give the messages of dead letters again, to this group alone, from the first attempt.

        Of those with `ids`, or the oldest `limit`. With `publish` they are published to the topic
        anew, for all its readers. Durable when it returns.
        """
        ...

    async def drop_dead_letters(self, topic_id: TopicId, name: str, ids: Sequence[bytes]) -> int:
        """Deal with dead letters by doing nothing; return how many there were."""
