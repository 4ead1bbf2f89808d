"""Bodies of scheduled messages, both ways, in JSON; they are scheduled by that of a publish."""

from collections.abc import Iterable, Sequence
from typing import Annotated, Any

import msgspec

from tms.core.values.schedules import CommitSchedule, DeliveryTime, Scheduled, ScheduledMessage
from tms.core.values.topic import TopicId
from tms.wire.json_fields import Json, NamespaceName, TimeMs, TopicName, described_by, reference
from tms.wire.json_messages import (
    ContentBody,
    PayloadInput,
    content_of,
    json_of_body,
    message_in,
    payload_bodies,
)
from tms.wire.json_values import decode_answer, encode

SCHEDULED_ID: Json = {
    "type": "string",
    "description": "32 hexadecimal digits: the time when the message is due, and a number.",
    "pattern": "^[0-7][0-9a-fA-F]{15}[0-7][0-9a-fA-F]{15}$",
    "examples": ["0000018bcfe568000006105c5d2ee000"],
}
ScheduledId = Annotated[str, described_by(SCHEDULED_ID)]


class ScheduledIdsBody(msgspec.Struct):
    """The outcome of scheduling messages."""

    ids: list[ScheduledId]
    deliver_at: Annotated[TimeMs, msgspec.Meta(description="When they will be published.")]


class ScheduledMessageBody(ContentBody):
    """A message that waits to be published."""

    id: ScheduledId
    deliver_at: TimeMs


class CommitScheduleBody(msgspec.Struct, forbid_unknown_fields=True, omit_defaults=True):
    """Messages of a topic to publish later, with one of the two times."""

    namespace: NamespaceName
    topic: TopicName
    messages: Annotated[list[PayloadInput], msgspec.Meta(extra_json_schema={"minItems": 1})]
    deliver_at: TimeMs | None = None
    deliver_after: Annotated[
        Annotated[float, described_by({"type": "number", "minimum": 0})] | None,
        msgspec.Meta(description="Seconds after the server got the commit."),
    ] = None


def commit_schedule_bodies(schedule: Iterable[CommitSchedule]) -> list[CommitScheduleBody]:
    """Return what a commit schedules as JSON fields."""
    bodies = []
    for topic_id, payloads, delivery in schedule:
        messages: list[Any] = [*map(json_of_body, payloads)]
        bodies.append(CommitScheduleBody(topic_id.namespace, topic_id.name, messages, *delivery))
    return bodies


def commit_schedule_of(bodies: Iterable[CommitScheduleBody]) -> Sequence[CommitSchedule]:
    """Return what a commit schedules. Raises `InvalidRequest`."""
    return tuple(
        [
            CommitSchedule(
                TopicId(each.namespace, each.topic),
                payload_bodies(each.messages),
                DeliveryTime(each.deliver_at, each.deliver_after),
            )
            for each in bodies
        ]
    )


CommitScheduleOfTopic = Annotated[CommitScheduleBody, described_by(reference("CommitSchedule"))]


def encode_scheduled(scheduled: Scheduled) -> bytes:
    """Return the answer to scheduling messages."""
    return encode(ScheduledIdsBody(list(scheduled.ids), scheduled.at_ms))


def decode_scheduled(answer: bytes) -> Scheduled:
    """Return what a server answered to scheduling messages."""
    body = decode_answer(ScheduledIdsBody, answer)
    return Scheduled(body.ids, body.deliver_at)


def scheduled_record(each: ScheduledMessage) -> dict[str, Any]:
    """Return a message that waits as values for JSON."""
    record: dict[str, Any] = msgspec.to_builtins(_body_of(each))
    return record


def encode_waiting(messages: Sequence[ScheduledMessage]) -> bytes:
    """Return the answer that lists messages that wait."""
    return encode([_body_of(each) for each in messages])


def decode_waiting(answer: bytes) -> list[ScheduledMessage]:
    """Return the messages that a server listed."""
    return [_message_of(each) for each in decode_answer(list[ScheduledMessageBody], answer)]


def _body_of(each: ScheduledMessage) -> ScheduledMessageBody:
    return ScheduledMessageBody(each.id, each.at_ms, **content_of(each.message))


def _message_of(body: ScheduledMessageBody) -> ScheduledMessage:
    return ScheduledMessage(body.id, body.deliver_at, message_in(body))
