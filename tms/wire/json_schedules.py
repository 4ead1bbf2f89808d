"""Bodies of scheduled messages, both ways, in JSON; they are scheduled by that of a publish."""

from collections.abc import Sequence
from typing import Annotated, Any

import msgspec

from tms.core.values.message import Message
from tms.core.values.schedules import Scheduled, ScheduledMessage
from tms.wire.json_fields import Json, TimeMs, described_by, one_of, reference
from tms.wire.json_values import JsonBytes, bytes_of, decode_answer, encode, json_of

SCHEDULED_ID: Json = {
    "type": "string",
    "description": "32 hexadecimal digits: the time when the message is due, and a number.",
    "pattern": "^[0-7][0-9a-fA-F]{15}[0-7][0-9a-fA-F]{15}$",
    "examples": ["0000018bcfe568000006105c5d2ee000"],
}
_BYTES = reference("GivenBytes")
_OrNull = Annotated[JsonBytes | None, described_by(one_of(_BYTES, {"type": "null"}))]
ScheduledId = Annotated[str, described_by(SCHEDULED_ID)]


class ScheduledIdsBody(msgspec.Struct):
    """The outcome of scheduling messages."""

    ids: list[ScheduledId]
    deliver_at: Annotated[TimeMs, msgspec.Meta(description="When they will be published.")]


class ScheduledMessageBody(msgspec.Struct):
    """A message that waits to be published."""

    id: ScheduledId
    deliver_at: TimeMs
    payload: _OrNull
    key: _OrNull
    headers: Annotated[
        dict[str, JsonBytes], described_by({"type": "object", "additionalProperties": _BYTES})
    ]


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


def encode_waiting(found: Sequence[ScheduledMessage]) -> bytes:
    """Return the answer that lists messages that wait."""
    return encode([_body_of(each) for each in found])


def decode_waiting(answer: bytes) -> list[ScheduledMessage]:
    """Return the messages that a server listed."""
    return [_message_of(each) for each in decode_answer(list[ScheduledMessageBody], answer)]


def _body_of(each: ScheduledMessage) -> ScheduledMessageBody:
    message = each.message
    return ScheduledMessageBody(
        each.id,
        each.at_ms,
        None if message.is_tombstone else json_of(message.payload),
        None if message.key is None else json_of(message.key),
        {name: json_of(value) for name, value in message.headers.items()},
    )


def _message_of(body: ScheduledMessageBody) -> ScheduledMessage:
    message = Message(
        b"" if body.payload is None else bytes_of(body.payload),
        None if body.key is None else bytes_of(body.key),
        {name: bytes_of(value) for name, value in body.headers.items()},
        is_tombstone=body.payload is None,
    )
    return ScheduledMessage(body.id, body.deliver_at, message)
