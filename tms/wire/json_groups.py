"""Bodies of groups and their settings, both ways: JSON only."""

from collections.abc import Iterable, Mapping
from dataclasses import asdict, fields
from typing import Annotated, Any, Literal, NamedTuple, TypeVar

import msgspec

from tms.core.errors import InvalidRequest
from tms.core.values.group_counts import NO_COUNTS, GroupCounts
from tms.core.values.group_settings import DECLARED, SETTABLE, GroupSettings
from tms.core.values.groups import (
    Group,
    GroupMember,
    GroupState,
    OpenMessage,
    Position,
    SeekTo,
)
from tms.core.values.message import parse_id
from tms.core.values.topic import TopicId
from tms.wire.json_fields import (
    ID_EXAMPLE,
    Count,
    MessageIdText,
    TimeMs,
    Version,
    described_by,
)
from tms.wire.json_subscriptions import PositionBody
from tms.wire.json_takes import Limit, hex_of, id_of
from tms.wire.json_values import body_of, decode, decode_answer, encode, value_of

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
"""The id after which to continue, or an end of the topic."""
S = TypeVar("S", bound=msgspec.Struct)


class NewPositionBody(PositionBody):
    """A new position; null means before the oldest message."""

    kind: Annotated[Literal["single"], described_by({"const": "single"})] = "single"


class _GroupChanges(msgspec.Struct, forbid_unknown_fields=True):
    """Settings to change; missing ones stay as they are."""

    expected_version: Version | None = None


class _NewGroup(msgspec.Struct, forbid_unknown_fields=True):
    """A new group; it begins before the oldest message by default, or at `after` or `time_ms`."""

    kind: Annotated[Literal["shared"], described_by({"const": "shared"})]
    after: Place | None = None
    time_ms: TimeMs | None = None


def _with_settings(base: type[S], settings: Iterable[tuple[str, Any, Any]]) -> type[S]:
    """Return `base` with settings as fields: their names, types and defaults."""
    name, doc = base.__name__.removeprefix("_") + "Body", {"__doc__": base.__doc__}
    return msgspec.defstruct(name, settings, bases=(base,), namespace=doc)  # type: ignore[return-value]


_FIELDS = fields(GroupSettings)
GroupChangesBody = _with_settings(
    _GroupChanges,
    [(f.name, f.type | msgspec.UnsetType, msgspec.UNSET) for f in _FIELDS if f.name in SETTABLE],
)
NewGroupBody = _with_settings(_NewGroup, [(f.name, f.type, f.default) for f in _FIELDS])


class _KindBody(msgspec.Struct):
    """The kind of a new subscription."""

    kind: str = "single"


class GroupStateBody(msgspec.Struct):
    """The state of a group; unread messages are counted up to 10,000, or 8 MiB."""

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
    dying: Count = 0


class GroupBody(msgspec.Struct):
    """A group: a subscription of kind shared."""

    name: str
    after: MessageIdText | None
    version: Version
    settings: GroupSettings
    state: GroupStateBody
    kind: Annotated[Literal["shared"], described_by({"const": "shared"})] = "shared"
    counts: GroupCounts = NO_COUNTS


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
    state: Literal["available", "leased", "waiting", "blocked", "dying"]
    member: str | None
    until_ms: TimeMs | None
    last_member: str | None = None
    reason: str | None = None


class SeekBody(msgspec.Struct, forbid_unknown_fields=True, omit_defaults=True):
    """A place to continue from: after an id, at an end, or at a time."""

    after: Place | None = None
    time_ms: TimeMs | None = None


class NewSubscription(NamedTuple):
    """A new subscription, as a body describes it."""

    settings: GroupSettings | None
    """None if it is not a group."""
    after: Position


_ONE_PLACE = "either after or time_ms"
_ENDS = tuple(each.value for each in SeekTo)


def encode_new_group(settings: GroupSettings, after: Position) -> bytes:
    """Return the body that creates a group; it has a filter only if there is one."""
    body = {"kind": "shared", **_place(after), **asdict(settings)}
    if not settings.filter:
        del body["filter"]  # earlier servers do not know it
    return encode(body)


def decode_new(body: bytes) -> NewSubscription:
    """Return a new subscription. An empty body means a position before the oldest message."""
    if not body:
        return NewSubscription(None, SeekTo.START)
    if decode(_KindBody, body).kind != "shared":
        after = decode(NewPositionBody, body).after
        return NewSubscription(None, SeekTo.START if after is None else parse_id(after))
    value = decode(NewGroupBody, body)
    settings = GroupSettings(*(getattr(value, name) for name in DECLARED))
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
    """Return the target of a seek."""
    value: Any = decode(SeekBody, body)
    if (value.after is None) == (value.time_ms is None):
        raise InvalidRequest("invalid_body", format="json", expected=_ONE_PLACE)
    return _position(value.after, value.time_ms)


def encode_changes(changes: Mapping[str, Any], expected_version: int | None) -> bytes:
    """Return the body that changes settings."""
    return encode({**changes, "expected_version": expected_version})


def decode_changes(body: bytes) -> tuple[dict[str, Any], int | None]:
    """Return the settings to change, and the expected version."""
    value = decode(GroupChangesBody, body)
    changes = {name: getattr(value, name) for name in SETTABLE}
    changed = {name: new for name, new in changes.items() if new is not msgspec.UNSET}
    return changed, value.expected_version


def group_body(group: Group) -> GroupBody:
    """Return a group as JSON fields."""
    state = body_of(
        GroupStateBody,
        group.state,
        through=hex_of(group.state.through),
        oldest_open=hex_of(group.state.oldest_open),
        stopped_at=None if group.state.stopped_at is None else str(group.state.stopped_at),
    )
    return GroupBody(
        group.name,
        hex_of(group.after),
        group.version,
        group.settings,
        state,
        counts=group.counts,
    )


def group_record(group: Group) -> dict[str, Any]:
    """Return a group as values for JSON."""
    record: dict[str, Any] = msgspec.to_builtins(group_body(group))
    return record


def encode_group(group: Group) -> bytes:
    """Return the answer that shows a group."""
    return encode(group_body(group))


def decode_group(answer: bytes, topic_id: TopicId) -> Group:
    """Return the group in an answer."""
    body = decode_answer(GroupBody, answer)
    state = value_of(
        GroupState,
        body.state,
        through=id_of(body.state.through),
        oldest_open=id_of(body.state.oldest_open),
        stopped_at=None if body.state.stopped_at is None else int(body.state.stopped_at),
    )
    return Group(
        topic_id,
        body.name,
        body.version,
        id_of(body.after),
        body.settings,
        state,
        body.counts,
    )


def encode_members(members: Iterable[GroupMember]) -> bytes:
    """Return the answer that lists members."""
    return encode(list(members))


def decode_members(answer: bytes) -> list[GroupMember]:
    """Return the members in an answer."""
    return [value_of(GroupMember, each) for each in decode_answer(list[MemberBody], answer)]


def encode_open(messages: Iterable[OpenMessage]) -> bytes:
    """Return the answer that lists open messages."""
    return encode([body_of(OpenBody, message, id=message.id.hex()) for message in messages])


def decode_open(answer: bytes) -> list[OpenMessage]:
    """Return the open messages in an answer."""
    bodies = decode_answer(list[OpenBody], answer)
    return [value_of(OpenMessage, each, id=parse_id(each.id)) for each in bodies]
