"""Bodies of groups and their settings, both ways: JSON alone."""

from collections.abc import Iterable, Mapping
from operator import attrgetter
from typing import Annotated, Any, Literal, NamedTuple

import msgspec

from tms.core.errors import InvalidRequest
from tms.core.groups import (
    DEFAULTS,
    DELAY_S_MAX,
    OPEN_MAX,
    Group,
    GroupMember,
    GroupSettings,
    GroupState,
    OpenMessage,
    Order,
    Position,
    SeekTo,
)
from tms.core.message import parse_id
from tms.core.topic import TopicId
from tms.wire.json_fields import (
    ID_EXAMPLE,
    Count,
    MessageIdText,
    TimeMs,
    Version,
    described_by,
    reference,
)
from tms.wire.json_subscriptions import PositionBody
from tms.wire.json_takes import LeaseS, Limit, hex_of, id_of
from tms.wire.json_values import decode, decode_answer, encode

Place = Annotated[
    str,
    described_by(
        {
            "type": "string",
            "pattern": "^([0-7][0-9a-fA-F]{19}[0-7][0-9a-fA-F]{19}|start|end)$",
            "example": ID_EXAMPLE,
        }
    ),
]
"""The id behind which to read on, or an end of the topic."""
OrderName = Annotated[Order, described_by(reference("GroupOrder"))]
Wait = Annotated[int, msgspec.Meta(ge=0, le=DELAY_S_MAX)]
OpenMax = Annotated[int, msgspec.Meta(ge=1, le=OPEN_MAX)]


class NewPositionBody(PositionBody):
    """A new position; null is before the oldest message."""

    kind: Annotated[Literal["single"], described_by({"const": "single"})] = "single"


class GroupChangesBody(msgspec.Struct, forbid_unknown_fields=True):
    """Settings to change; what is missing stays."""

    lease_s: LeaseS | msgspec.UnsetType = msgspec.UNSET
    retry_s: Wait | msgspec.UnsetType = msgspec.UNSET
    retry_s_max: Wait | msgspec.UnsetType = msgspec.UNSET
    open_max: OpenMax | msgspec.UnsetType = msgspec.UNSET
    member_max: OpenMax | msgspec.UnsetType = msgspec.UNSET
    paused: bool | msgspec.UnsetType = msgspec.UNSET
    expected_version: Version | None = None


class NewGroupBody(msgspec.Struct, forbid_unknown_fields=True):
    """A new group; it begins before the oldest message, unless `after` or `time_ms` says where."""

    kind: Annotated[Literal["shared"], described_by({"const": "shared"})]
    after: Place | None = None
    time_ms: TimeMs | None = None
    order: OrderName = Order.NONE
    lease_s: LeaseS = DEFAULTS.lease_s
    retry_s: Wait = DEFAULTS.retry_s
    retry_s_max: Wait = DEFAULTS.retry_s_max
    open_max: OpenMax = DEFAULTS.open_max
    member_max: OpenMax = DEFAULTS.member_max
    paused: bool = False


class _KindBody(msgspec.Struct):
    """The kind of a new subscription."""

    kind: str = "single"


class GroupSettingsBody(msgspec.Struct):
    """The settings of a group."""

    order: OrderName
    lease_s: LeaseS
    retry_s: Wait
    retry_s_max: Wait
    open_max: OpenMax
    member_max: OpenMax
    paused: bool


class GroupStateBody(msgspec.Struct):
    """A moment of a group; unread messages are counted up to 10,000, or 8 MiB of them."""

    through: MessageIdText | None
    unread: Count
    open: Count
    leased: Count
    waiting: Count
    blocked: Count
    oldest_open: MessageIdText | None
    oldest_s: float | None
    members: Count
    limited_by: Limit
    stopped_at: str | None


class GroupBody(msgspec.Struct):
    """A group: a subscription of kind shared."""

    name: str
    after: MessageIdText | None
    version: Version
    settings: GroupSettingsBody
    state: GroupStateBody
    kind: Annotated[Literal["shared"], described_by({"const": "shared"})] = "shared"


class MemberBody(msgspec.Struct):
    """A member of a group."""

    name: str
    principal: str | None
    holds: Count
    since_ms: TimeMs
    seen_ms: TimeMs


class OpenBody(msgspec.Struct):
    """An open message of a group."""

    id: MessageIdText
    attempts: Count
    state: Literal["available", "leased", "waiting", "blocked"]
    member: str | None
    until_ms: TimeMs | None
    last_member: str | None = None
    reason: str | None = None


class SeekBody(msgspec.Struct, forbid_unknown_fields=True, omit_defaults=True):
    """A place to read on from: behind an id, at an end, or at a time."""

    after: Place | None = None
    time_ms: TimeMs | None = None


class NewSubscription(NamedTuple):
    """A new subscription, as a body tells it."""

    settings: GroupSettings | None
    """None: it is not a group."""
    after: Position


_ONE_PLACE = "either after or time_ms"
_ENDS = tuple(each.value for each in SeekTo)
_SETTINGS = ("order", "lease_s", "retry_s", "retry_s_max", "open_max", "member_max", "paused")


def _given(body: msgspec.Struct) -> dict[str, Any]:
    found = {name: getattr(body, name, msgspec.UNSET) for name in _SETTINGS}
    return {name: value for name, value in found.items() if value is not msgspec.UNSET}


def encode_new_group(settings: GroupSettings, after: Position) -> bytes:
    """Return the body that creates a group."""
    given = {name: getattr(settings, name) for name in _SETTINGS}
    return encode(NewGroupBody(kind="shared", **_place(after), **given))


def decode_new(body: bytes) -> NewSubscription:
    """Return a new subscription. An empty body: a position before the oldest message."""
    if not body:
        return NewSubscription(None, SeekTo.START)
    if decode(_KindBody, body).kind != "shared":
        after = decode(NewPositionBody, body).after
        return NewSubscription(None, SeekTo.START if after is None else parse_id(after))
    value = decode(NewGroupBody, body)
    settings = GroupSettings(*(getattr(value, name) for name in _SETTINGS))
    if value.after is not None and value.time_ms is not None:
        raise InvalidRequest("invalid_body", format="json", expected=_ONE_PLACE)
    return NewSubscription(settings, _position(value.after, value.time_ms))


def _place(to: Position) -> dict[str, Any]:
    if isinstance(to, SeekTo):
        return {"after": to.value}
    return {"time_ms": to} if isinstance(to, int) else {"after": to.hex()}


def _position(after: str | None, time_ms: int | None) -> Position:
    if after is None:
        return SeekTo.START if time_ms is None else time_ms
    return SeekTo(after) if after in _ENDS else parse_id(after)


def encode_seek(to: Position) -> bytes:
    """Return the body of a seek."""
    return encode(SeekBody(**_place(to)))


def decode_seek(body: bytes) -> Position:
    """Return the place of a seek."""
    value: Any = decode(SeekBody, body)
    if (value.after is None) == (value.time_ms is None):
        raise InvalidRequest("invalid_body", format="json", expected=_ONE_PLACE)
    return _position(value.after, value.time_ms)


def encode_changes(changes: Mapping[str, Any], expected_version: int | None) -> bytes:
    """Return the body that changes settings."""
    return encode({**changes, "expected_version": expected_version})


def decode_changes(body: bytes) -> tuple[dict[str, Any], int | None]:
    """Return the settings to change, and the version that is expected."""
    value = decode(GroupChangesBody, body)
    return _given(value), value.expected_version


def group_body(group: Group) -> GroupBody:
    """Return a group as it is told."""
    state, settings = group.state, group.settings
    return GroupBody(
        group.name,
        hex_of(group.after),
        group.version,
        GroupSettingsBody(*(getattr(settings, name) for name in _SETTINGS)),
        GroupStateBody(
            through=hex_of(state.through),
            unread=state.unread,
            open=state.open,
            leased=state.leased,
            waiting=state.waiting,
            blocked=state.blocked,
            oldest_open=hex_of(state.oldest_open),
            oldest_s=state.oldest_s,
            members=state.members,
            limited_by=state.limited_by,
            stopped_at=None if state.stopped_at is None else str(state.stopped_at),
        ),
    )


def encode_group(group: Group) -> bytes:
    """Return the answer that tells a group."""
    return encode(group_body(group))


def decode_group(answer: bytes, topic_id: TopicId) -> Group:
    """Return the group that a server told."""
    told = decode_answer(GroupBody, answer)
    state, settings = told.state, told.settings
    return Group(
        topic_id,
        told.name,
        told.version,
        id_of(told.after),
        GroupSettings(*(getattr(settings, name) for name in _SETTINGS)),
        GroupState(
            through=id_of(state.through),
            unread=state.unread,
            open=state.open,
            leased=state.leased,
            waiting=state.waiting,
            blocked=state.blocked,
            oldest_open=id_of(state.oldest_open),
            oldest_s=state.oldest_s,
            members=state.members,
            limited_by=state.limited_by,
            stopped_at=None if state.stopped_at is None else int(state.stopped_at),
        ),
    )


def encode_members(members: Iterable[GroupMember]) -> bytes:
    """Return the answer that tells members."""
    return encode(
        [
            MemberBody(each.name, each.principal, each.holds, each.since_ms, each.seen_ms)
            for each in members
        ]
    )


def decode_members(answer: bytes) -> list[GroupMember]:
    """Return the members that a server told."""
    return [
        GroupMember(each.name, each.principal, each.holds, each.since_ms, each.seen_ms)
        for each in decode_answer(list[MemberBody], answer)
    ]


_of_open = attrgetter(*OpenBody.__struct_fields__[1:])
"""Returns the fields that are the same in a body: all but the id."""


def encode_open(messages: Iterable[OpenMessage]) -> bytes:
    """Return the answer that tells open messages."""
    return encode([OpenBody(each.id.hex(), *_of_open(each)) for each in messages])


def decode_open(answer: bytes) -> list[OpenMessage]:
    """Return the open messages that a server told."""
    told = decode_answer(list[OpenBody], answer)
    return [OpenMessage(parse_id(each.id), *_of_open(each)) for each in told]
