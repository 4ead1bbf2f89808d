"""Groups: subscriptions of kind `shared`, whose messages many members take and settle.

For a group each committed message is unread, open or settled. A take leases open messages to a
member, under a number: a delivery. One durable edit settles a message. A message that fails, or
whose lease ends, is delivered again later, so without transactions delivery is at least once. Acks
in a commit (`CommitRequest.acks`) take effect if and only if it commits.

With the order `key`, at most one member has messages of a key, and none is acknowledged before the
earlier ones of its key are settled. A message without a key counts as a key of its own.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Final, Literal, Protocol

from tms.core.errors import InvalidRequest
from tms.core.values.caller import ANYBODY, Caller
from tms.core.values.dead_letters import DeadLetter
from tms.core.values.group_counts import NO_COUNTS, GroupCounts
from tms.core.values.group_settings import DEFAULTS, DELAY_S_MAX, GroupSettings
from tms.core.values.message import MessageBlock, shown_fields
from tms.core.values.topic import TopicId

MEMBER_CHARS_MAX: Final = 128
REASON_BYTES_MAX: Final = 200
TAKE_MESSAGES_MAX: Final = 1_000
REDRIVEN_MAX: Final = 1_000
"""The most dead letters that one request may name."""
SETTLED_IDS_MAX: Final = 10_000
"""The most messages that one settle may name."""
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
    """Return the part of a nack's reason that is stored; half a surrogate pair is escaped."""
    kept = reason[:REASON_BYTES_MAX].encode(errors="backslashreplace")[:REASON_BYTES_MAX]
    return kept.decode(errors="ignore")


class LimitedBy(StrEnum):
    """Why a take returned less than it requested."""

    TRANSACTION = "transaction"
    """The next message comes after one whose transaction is in progress."""
    OPEN_MAX = "open_max"
    """The group has its maximum of open messages."""
    MEMBER_MAX = "member_max"
    """The member has its maximum of messages."""
    KEYS = "keys"
    """The remaining messages have keys of which others are leased or wait."""
    RETRY = "retry"
    """The remaining messages failed, and wait for their next attempt."""
    PAUSED = "paused"
    RATE = "rate"
    """Takes have got as many messages as the group's rate allows."""
    DEAD_LETTER = "dead_letter"
    """The remaining messages have dead letters that cannot be written now."""
    SERVER = "server"
    """The server has its maximum of open messages."""


class Refusal(StrEnum):
    """Why a message was not settled."""

    SETTLED = "settled"
    """It is settled already."""
    LEASE_LOST = "lease_lost"
    """Another delivery has it, the group has not read it, or the delivery is another member's or
    from before a seek.
    """
    EARLIER_OPEN = "earlier_open"
    """In key order: an earlier message of its key is not settled."""
    NO_DEAD_LETTER = "no_dead_letter"
    """The group has no topic of dead letters; the member keeps the message."""


@dataclass(frozen=True, slots=True)
class GroupState:
    """The state of a group at one moment."""

    through: bytes | None
    """All committed messages up to this id have been read into the group; None before the first."""
    unread: int
    """How many messages follow, counted up to 10,000, or 8 MiB of them."""
    open: int
    leased: int
    waiting: int
    blocked: int
    oldest_open: bytes | None
    oldest_s: float | None
    """The age in seconds of the oldest open message."""
    members: int
    dying: int
    """How many will become dead letters."""
    limited_by: LimitedBy | None
    """Why a take would return nothing now."""
    stopped_at: int | None
    """The write pointer of the transaction in progress at which it stops."""

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
    """The id after which it began."""
    settings: GroupSettings
    state: GroupState
    counts: GroupCounts = NO_COUNTS

    def __repr__(self) -> str:
        """Return the fields, ids in hexadecimal digits."""
        return shown_fields(self)


@dataclass(frozen=True, slots=True)
class Acks:
    """Messages of one delivery that are done."""

    delivery: int
    ids: Sequence[bytes] | None = None
    """None for all that the delivery still has."""


@dataclass(frozen=True, slots=True)
class Nacks:
    """Messages of one delivery that failed."""

    delivery: int
    ids: Sequence[bytes] | None = None
    delay_s: float | None = None
    """The seconds before the next attempt; None for the back-off of the group's settings."""
    reason: str = ""
    """At most `REASON_BYTES_MAX` bytes of it are stored."""
    dead: bool = False
    """Whether it was the last attempt: the messages become dead letters."""


@dataclass(frozen=True, slots=True)
class Releases:
    """Messages of one delivery that its member returns; no attempt is counted."""

    delivery: int
    ids: Sequence[bytes] | None = None


@dataclass(frozen=True, slots=True)
class Settle:
    """The end of a member's work on at most `SETTLED_IDS_MAX` messages."""

    acks: Sequence[Acks] = ()
    nacks: Sequence[Nacks] = ()
    releases: Sequence[Releases] = ()
    extend: Sequence[int] | None = None
    """The deliveries whose leases are extended; empty for all of the member's; None for none."""
    lease_s: int | None = None
    """The seconds from now that `extend` gives; None for the group's setting."""
    leave: bool = False
    """Whether to release all that the member still has."""


NO_SETTLE: Final = Settle()


@dataclass(frozen=True, slots=True)
class RefusedMessage:
    """A message that was not settled."""

    delivery: int
    id: bytes | None
    """None if the whole delivery is unknown."""
    reason: Refusal


@dataclass(frozen=True, slots=True)
class Settled:
    """The durable outcome of a settle."""

    settled: int
    """How many messages were acknowledged."""
    refused: Sequence[RefusedMessage] = ()
    lease_s: float | None = None
    """The least number of seconds that `extend` gave; None if it extended nothing."""


@dataclass(frozen=True, slots=True)
class Take:
    """A request for messages."""

    member: str
    messages: int = 1
    """How many at most."""
    bytes_max: int | None = None
    """Stop once this many bytes of payload are reached, after at least one message; None for the
    server's default.
    """
    lease_s: int | None = None
    """None for the group's setting."""
    sequence: int | None = None
    """The member's number for this take: a repeat with the same number gets the same delivery, as
    far as it still holds. None if it cannot be repeated.
    """
    anew: bool = False
    """Whether the member starts again: what it held before is released without counting an attempt.
    """
    settle: Settle = NO_SETTLE
    """Settled first, durably."""


@dataclass(frozen=True, slots=True)
class Taken:
    """The answer to a take."""

    delivery: int | None = None
    """None if there are no messages."""
    lease_s: float = 0
    blocks: Sequence[MessageBlock] = ()
    """The messages, ordered by id."""
    attempts: Sequence[int] = ()
    """The attempt number of each message, from 1; empty if all are 1."""
    limited_by: LimitedBy | None = None
    """None if the take got all that it requested, or the topic has no more."""
    stopped_at: int | None = None
    """With `TRANSACTION`: its write pointer."""
    settled: Settled = field(default_factory=lambda: Settled(0))

    def with_settled(self, settled: Settled) -> "Taken":
        """Return the answer with the outcome of the settle that was done first."""
        fields = (self.delivery, self.lease_s, self.blocks, self.attempts)
        return Taken(*fields, self.limited_by, self.stopped_at, settled)


@dataclass(frozen=True, slots=True)
class GroupMember:
    """A member that holds messages, or was seen recently."""

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
    """The member that has it, if it is leased."""
    until_ms: int | None
    """When its lease ends, or when it is delivered again; ms since 1970."""
    last_member: str | None = None
    """The last member that held it; None if unknown."""
    reason: str | None = None
    """Why it failed last, as its member said; stored for the newest 1,000 failed messages."""

    def __repr__(self) -> str:
        """Return the fields, ids in hexadecimal digits."""
        return shown_fields(self)


@dataclass(frozen=True, slots=True)
class DeadLetters:
    """Unresolved dead letters of a group."""

    letters: Sequence[DeadLetter]
    next: bytes | None
    """The id after which to continue; None at the end."""


@dataclass(frozen=True, slots=True)
class Redriven:
    """The outcome of a redrive."""

    redriven: int
    """How many messages are delivered or published again."""
    expired: Sequence[bytes]
    """The dead letters whose messages are no longer in the topic; they can be published again."""
    next: bytes | None = None
    """If it is not None, more may follow: redrive them with this as `after`."""
    limited_by: LimitedBy | None = None
    """The limit of open messages that was reached; the other dead letters stay."""


class SeekTo(StrEnum):
    """A place of a topic that has no id."""

    START = "start"
    END = "end"


Position = bytes | int | SeekTo
"""A place in a topic: after a message id of 20 bytes, at a time in ms since 1970, or an end."""


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
    subscription_is_single) if the name is that of a position.
    """

    async def create_group(
        self,
        topic_id: TopicId,
        name: str,
        settings: GroupSettings = DEFAULTS,
        after: Position = SeekTo.START,
    ) -> Group:
        """Create a group, or return the existing one if it has the same order.

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

        Raises `InvalidRequest` (invalid_group), and `SubscriptionMoved` if the group's version is
        not the expected one.
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
        """Return open messages after the id `after`, ascending."""
        ...

    async def seek(self, topic_id: TopicId, name: str, to: Position) -> Group:
        """Drop all open messages, and continue from `to`; earlier acks are refused."""
        ...

    async def skip(self, topic_id: TopicId, name: str, ids: Sequence[bytes]) -> int:
        """Settle open messages, even leased ones; return how many were open. Durable.

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
        """Return unresolved dead letters of the group after the id `after`.

        More may follow even if fewer than `limit` are returned: `next` says so.
        """
        ...

    async def redrive(
        self,
        topic_id: TopicId,
        name: str,
        ids: Sequence[bytes] | None = None,
        *,
        after: bytes | None = None,
        limit: int = 100,
        publish: bool = False,
    ) -> Redriven:
        """Deliver the messages of dead letters again, to this group only, from the first attempt.

        The dead letters are those with `ids`, or the oldest `limit` after the id `after`. With
        `publish` the messages are published to the topic again, for all its readers. More may
        follow even if fewer than `limit` are redriven: `next` says so. Durable when it returns.
        Raises `TooLarge` (too_many_open) if the group may not open any message.
        """
        ...

    async def drop_dead_letters(self, topic_id: TopicId, name: str, ids: Sequence[bytes]) -> int:
        """Resolve dead letters without doing anything; return how many there were."""
