"""Bodies of takes and settles, both ways: JSON, except for the messages of a take's answer.

A delivery is a number of microseconds since 1970, which every program reads exactly in JSON.
"""

from collections.abc import Iterable, Sequence
from typing import Annotated, Any

import msgspec

from tms.core.limits import JSON_INTEGER_MAX
from tms.core.values.group_settings import DELAY_S_MAX, LEASE_S_MAX
from tms.core.values.groups import (
    MEMBER_CHARS_MAX,
    SETTLED_IDS_MAX,
    TAKE_MESSAGES_MAX,
    Acks,
    CommitAcks,
    LimitedBy,
    Nacks,
    Refusal,
    RefusedMessage,
    Releases,
    Settle,
    Settled,
    Take,
    Taken,
    kept_of,
)
from tms.core.values.message import parse_id
from tms.core.values.topic import TopicId
from tms.wire.json_fields import (
    COUNT,
    Count,
    MessageIdText,
    NamespaceName,
    SubscriptionName,
    TopicName,
    described_by,
    reference,
)
from tms.wire.json_values import Int64, decode, decode_answer, encode

_PARTS_MAX = 1_000
Delivery = Annotated[
    Int64,
    described_by({**COUNT, "format": "int64", "description": "The number that a take returned."}),
]
Ids = Annotated[list[MessageIdText], msgspec.Meta(max_length=SETTLED_IDS_MAX)]
MemberName = Annotated[
    str,
    described_by(
        {
            "type": "string",
            "pattern": f"^[A-Za-z0-9_.:-]{{1,{MEMBER_CHARS_MAX}}}$",
            "description": "A name that the member has chosen.",
        }
    ),
]
Delay = Annotated[float, msgspec.Meta(ge=0, le=DELAY_S_MAX)]
LeaseS = Annotated[int, msgspec.Meta(ge=1, le=LEASE_S_MAX)]
Limit = Annotated[
    LimitedBy | None,
    described_by(
        {
            "type": ["string", "null"],
            "description": f"One of {', '.join(LimitedBy)}; null if nothing limits it.",
        }
    ),
]
TakeMessages = Annotated[int, msgspec.Meta(ge=1, le=TAKE_MESSAGES_MAX)]
TakeBytes = Annotated[int, msgspec.Meta(ge=1, le=JSON_INTEGER_MAX)]


def hex_of(message_id: bytes | None) -> str | None:
    """Return an id as text."""
    return None if message_id is None else message_id.hex()


def id_of(text: str | None) -> bytes | None:
    """Return the id in a text. Raises `InvalidRequest` (invalid_message_id)."""
    return None if text is None else parse_id(text)


class AcksBody(msgspec.Struct, forbid_unknown_fields=True):
    """Messages of a delivery; without ids, all that are left in it."""

    delivery: Delivery
    ids: Ids | None = None


class NacksBody(msgspec.Struct, forbid_unknown_fields=True, omit_defaults=True):
    """Messages of a delivery that failed; without a delay, the group's back-off applies."""

    delivery: Delivery
    ids: Ids | None = None
    delay_s: Delay | None = None
    reason: Annotated[str, msgspec.Meta(max_length=10_000)] = ""
    dead: Annotated[
        bool, msgspec.Meta(description="It was the last attempt: they become dead letters.")
    ] = False


MessagesOfDelivery = Annotated[AcksBody, described_by(reference("MessagesOfDelivery"))]
FailedMessages = Annotated[NacksBody, described_by(reference("FailedMessages"))]


class SettlePartsBody(msgspec.Struct, forbid_unknown_fields=True, omit_defaults=True):
    """The end of a member's work on messages."""

    acks: Annotated[list[MessagesOfDelivery], msgspec.Meta(max_length=_PARTS_MAX)] = []
    nacks: Annotated[list[FailedMessages], msgspec.Meta(max_length=_PARTS_MAX)] = []
    release: Annotated[list[MessagesOfDelivery], msgspec.Meta(max_length=_PARTS_MAX)] = []
    extend: Annotated[
        Annotated[list[Delivery], msgspec.Meta(max_length=_PARTS_MAX)] | None,
        msgspec.Meta(
            description="The deliveries whose leases to extend; if empty, all deliveries of the "
            "member."
        ),
    ] = None
    lease_s: LeaseS | None = None
    leave: bool = False


class SettleBody(SettlePartsBody, kw_only=True):
    """The end of a member's work on messages, with the member's name."""

    member: MemberName


SettleParts = Annotated[SettlePartsBody, described_by(reference("SettleParts"))]


class TakeBody(msgspec.Struct, forbid_unknown_fields=True, omit_defaults=True):
    """A request for messages."""

    member: MemberName
    messages: TakeMessages = 1
    bytes: TakeBytes | None = None
    lease_s: LeaseS | None = None
    sequence: Annotated[
        Count | None,
        msgspec.Meta(description="A take with the same number gets the same delivery again."),
    ] = None
    anew: Annotated[
        bool, msgspec.Meta(description="First release all messages that this name had before.")
    ] = False
    settle: SettleParts | msgspec.UnsetType = msgspec.UNSET


class RefusedBody(msgspec.Struct):
    """A message that was not settled."""

    delivery: Delivery
    id: MessageIdText | None
    reason: Refusal


RefusedMessageBody = Annotated[RefusedBody, described_by(reference("RefusedMessage"))]


class SettledBody(msgspec.Struct):
    """The outcome of a settle; `settled` counts acknowledged messages."""

    settled: Count
    refused: list[RefusedMessageBody]
    lease_s: Annotated[
        float | msgspec.UnsetType,
        msgspec.Meta(
            description="The minimum number of seconds by which the leases were extended."
        ),
    ] = msgspec.UNSET


class TakenHeadBody(msgspec.Struct):
    """The answer to a take, without its messages; without `attempts`, all attempts are 1."""

    delivery: Delivery | None
    lease_s: float
    limited_by: Limit
    stopped_at: str | None
    attempts: list[Count]
    settled: Count
    refused: list[RefusedMessageBody]


class CommitAcksBody(msgspec.Struct, forbid_unknown_fields=True):
    """Messages of a group that a commit acknowledges."""

    namespace: NamespaceName
    topic: TopicName
    subscription: SubscriptionName
    member: MemberName
    delivery: Delivery
    ids: Ids


def _parts_of(settle: Settle) -> dict[str, Any]:
    """Return the fields of a settle."""
    return {
        "acks": [AcksBody(ack.delivery, _hexes(ack.ids)) for ack in settle.acks],
        "nacks": [
            NacksBody(
                nack.delivery, _hexes(nack.ids), nack.delay_s, kept_of(nack.reason), nack.dead
            )
            for nack in settle.nacks
        ],
        "release": [AcksBody(release.delivery, _hexes(release.ids)) for release in settle.releases],
        "extend": None if settle.extend is None else list(settle.extend),
        "lease_s": settle.lease_s,
        "leave": settle.leave,
    }


def _hexes(ids: Sequence[bytes] | None) -> list[str] | None:
    return None if ids is None else [each.hex() for each in ids]


def _ids(texts: Iterable[str] | None) -> list[bytes] | None:
    return None if texts is None else [parse_id(text) for text in texts]


def _settle_of(body: SettlePartsBody) -> Settle:
    return Settle(
        [Acks(ack.delivery, _ids(ack.ids)) for ack in body.acks],
        [
            Nacks(nack.delivery, _ids(nack.ids), nack.delay_s, nack.reason, nack.dead)
            for nack in body.nacks
        ],
        [Releases(each.delivery, _ids(each.ids)) for each in body.release],
        body.extend,
        body.lease_s,
        body.leave,
    )


def encode_settle(member: str, settle: Settle) -> bytes:
    """Return the body of a settle."""
    return encode(SettleBody(member=member, **_parts_of(settle)))


def decode_settle(body: bytes) -> tuple[str, Settle]:
    """Return a member, and what it settles."""
    value = decode(SettleBody, body)
    return value.member, _settle_of(value)


def _refused_bodies(refused: Iterable[RefusedMessage]) -> list[RefusedBody]:
    return [RefusedBody(each.delivery, hex_of(each.id), each.reason) for each in refused]


def encode_settled(settled: Settled) -> bytes:
    """Return the answer to a settle."""
    lease_s = msgspec.UNSET if settled.lease_s is None else settled.lease_s
    return encode(SettledBody(settled.settled, _refused_bodies(settled.refused), lease_s))


def decode_settled(answer: bytes) -> Settled:
    """Return the outcome of a settle."""
    body = decode_answer(SettledBody, answer)
    refused = [RefusedMessage(each.delivery, id_of(each.id), each.reason) for each in body.refused]
    lease_s = None if body.lease_s is msgspec.UNSET else body.lease_s
    return Settled(body.settled, refused, lease_s)


def encode_take(take: Take) -> bytes:
    """Return the body of a take."""
    settle = msgspec.UNSET if take.settle == Settle() else SettlePartsBody(**_parts_of(take.settle))
    return encode(
        TakeBody(
            take.member,
            take.messages,
            take.bytes_max,
            take.lease_s,
            take.sequence,
            take.anew,
            settle,
        )
    )


def decode_take(body: bytes) -> Take:
    """Return a take."""
    value = decode(TakeBody, body)
    settle = Settle() if value.settle is msgspec.UNSET else _settle_of(value.settle)
    return Take(
        value.member,
        value.messages,
        value.bytes,
        value.lease_s,
        value.sequence,
        value.anew,
        settle,
    )


def encode_taken_head(taken: Taken) -> bytes:
    """Return the answer to a take up to its messages; an array and `}` follow."""
    head = TakenHeadBody(
        taken.delivery,
        taken.lease_s,
        taken.limited_by,
        None if taken.stopped_at is None else str(taken.stopped_at),
        list(taken.attempts),
        taken.settled.settled,
        _refused_bodies(taken.settled.refused),
    )
    return encode(head)[:-1] + b',"messages":'


def decode_taken_head(head: bytes) -> Taken:
    """Return the answer to a take, without its messages."""
    body_head = decode_answer(TakenHeadBody, head)
    refused = [
        RefusedMessage(each.delivery, id_of(each.id), each.reason) for each in body_head.refused
    ]
    return Taken(
        body_head.delivery,
        body_head.lease_s,
        (),
        body_head.attempts,
        body_head.limited_by,
        None if body_head.stopped_at is None else int(body_head.stopped_at),
        Settled(body_head.settled, refused),
    )


def commit_acks_bodies(acks: Iterable[CommitAcks]) -> list[CommitAcksBody]:
    """Return the acks of a commit as JSON fields."""
    return [
        CommitAcksBody(
            ack.topic_id.namespace,
            ack.topic_id.name,
            ack.name,
            ack.member,
            ack.delivery,
            [message_id.hex() for message_id in ack.ids],
        )
        for ack in acks
    ]


def commit_acks_of(bodies: Iterable[CommitAcksBody]) -> Sequence[CommitAcks]:
    """Return the acks of a commit. Raises `InvalidRequest` (invalid_message_id)."""
    return tuple(
        [
            CommitAcks(
                TopicId(body.namespace, body.topic),
                body.subscription,
                body.member,
                body.delivery,
                [parse_id(message_id) for message_id in body.ids],
            )
            for body in bodies
        ]
    )


CommitAcksOfGroup = Annotated[CommitAcksBody, described_by(reference("CommitAcks"))]
