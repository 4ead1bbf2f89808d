"""Messages in JSON: in the body of a publish, and in the answer to a poll.

A message with only a payload is its bytes (`json_values`). Any other is an object with `payload`,
null if it has none, `key` and `headers`. Instead of `payload` and `key`, an object may have `value`
and `keyValue`, JSON that the topic's schemas encode.
"""

from collections.abc import Sequence
from contextlib import suppress
from typing import Annotated, Any

import msgspec

from tms.core.errors import InvalidRequest
from tms.core.services.payload_values import ValueToEncode
from tms.core.values.frame import FramedBody, bodies_of, encode_body, read_frame
from tms.core.values.message import Message, MessageBlock, published_ms
from tms.wire.json_fields import (
    TIME,
    Json,
    MessageIdText,
    described_by,
    one_of,
    reference,
)
from tms.wire.json_values import Int64, JsonBytes, bytes_of, encode, from_base64, json_of

_BYTES = reference("Bytes")
_HEADERS: Json = {
    "type": "object",
    "description": "Headers of the message: values by name.",
    "additionalProperties": _BYTES,
}
_NULL: Json = {"type": "null"}
_WITH_KEY: Json = {
    "type": "object",
    "description": (
        "A message with a key or headers. A message with payload null needs a key, and marks "
        "this key as deleted (a tombstone)."
    ),
    "required": ["payload"],
    "properties": {
        "payload": one_of(_BYTES, _NULL),
        "key": one_of(_BYTES, _NULL),
        "headers": _HEADERS,
    },
    "additionalProperties": False,
    "if": {"properties": {"payload": _NULL}},
    "then": {"required": ["key"], "properties": {"key": _BYTES}},
}
_WITH_VALUE: Json = {
    "type": "object",
    "description": (
        "A message whose payload is encoded by the latest schema of the topic's subject. Avro is "
        "in its JSON encoding, Protobuf in its JSON mapping."
    ),
    "required": ["value"],
    "properties": {
        "value": {"description": "JSON that matches the schema."},
        "key": one_of(_BYTES, _NULL),
        "keyValue": {"description": "The key as JSON, if keys have schemas."},
        "headers": _HEADERS,
    },
    "additionalProperties": False,
    "not": {"required": ["key", "keyValue"]},
}
_GIVEN_BYTES = reference("GivenBytes")
_BytesOrNull = Annotated[JsonBytes | None, described_by(one_of(_GIVEN_BYTES, _NULL))]


class MessageObject(msgspec.Struct, forbid_unknown_fields=True):
    """An object for a message: bytes, or payload, key and headers."""

    base64: str | msgspec.UnsetType = msgspec.UNSET
    bytes: JsonBytes | msgspec.UnsetType = msgspec.UNSET
    payload: JsonBytes | msgspec.UnsetType | None = msgspec.UNSET
    value: msgspec.Raw | msgspec.UnsetType = msgspec.UNSET
    key: JsonBytes | None = None
    keyValue: msgspec.Raw | msgspec.UnsetType = msgspec.UNSET  # noqa: N815
    headers: dict[str, JsonBytes] = {}

    @property
    def is_value(self) -> bool:
        """Whether a schema must encode it."""
        return self.value is not msgspec.UNSET or self.keyValue is not msgspec.UNSET


MESSAGE_SCHEMAS: Json = {
    "KeyedMessage": _WITH_KEY,
    "MessageOfValue": _WITH_VALUE,
    "NewMessage": one_of(_BYTES, reference("KeyedMessage"), reference("MessageOfValue")),
    "NewEncodedMessage": one_of(_BYTES, reference("KeyedMessage")),
}
"""The schemas of messages in requests, by their names in the document."""
MessageInput = Annotated[str | MessageObject, described_by(reference("NewMessage"))]
PayloadInput = Annotated[str | MessageObject, described_by(reference("NewEncodedMessage"))]
"""A message in a body that does not accept values."""


class MessageBody(msgspec.Struct):
    """A message, as returned by a poll."""

    id: MessageIdText
    timestamp: Annotated[Int64, described_by({**TIME, "description": "The time of publishing."})]
    payload: Annotated[
        JsonBytes | None,
        described_by(
            {
                **one_of(_GIVEN_BYTES, {"type": "null"}),
                "description": "Null if there is none: the message is a tombstone.",
            }
        ),
    ]
    key: Annotated[JsonBytes | msgspec.UnsetType, described_by(_GIVEN_BYTES)] = msgspec.UNSET
    headers: Annotated[
        dict[str, JsonBytes] | msgspec.UnsetType,
        described_by({**_HEADERS, "additionalProperties": _GIVEN_BYTES}),
    ] = msgspec.UNSET


class ContentBody(msgspec.Struct, kw_only=True):
    """The payload, key and headers of a message that is shown."""

    payload: _BytesOrNull
    key: _BytesOrNull
    headers: Annotated[
        dict[str, JsonBytes],
        described_by({"type": "object", "additionalProperties": _GIVEN_BYTES}),
    ]


def content_of(message: Message) -> dict[str, Any]:
    """Return the fields of `ContentBody`."""
    return {
        "payload": None if message.is_tombstone else json_of(message.payload),
        "key": None if message.key is None else json_of(message.key),
        "headers": {name: json_of(value) for name, value in message.headers.items()},
    }


def message_in(body: ContentBody, message_id: bytes = b"") -> Message:
    """Return the message that is shown, with an id."""
    return Message(
        b"" if body.payload is None else bytes_of(body.payload),
        None if body.key is None else bytes_of(body.key),
        {name: bytes_of(value) for name, value in body.headers.items()},
        message_id,
        is_tombstone=body.payload is None,
    )


def are_all_text(messages: Sequence[Any]) -> bool:
    """Whether all messages in a request are text."""
    return all(type(message) is str for message in messages)


def message_bodies(messages: Sequence[Any]) -> list[bytes]:
    """Return the message bodies in a request. Raises `InvalidRequest`."""
    if are_all_text(messages):
        return [bytes_of(message) for message in messages]
    return bodies_of([_body_of(message) for message in messages])


def json_of_body(body: bytes) -> JsonBytes | dict[str, Any]:
    """Return the JSON value for a message body in a request."""
    if type(body) is not FramedBody:
        return json_of(body)
    frame = read_frame(body)
    payload = json_of(body[frame.end :]) if frame.has_payload else None
    message: dict[str, Any] = {"payload": payload}
    if frame.key is not None:
        message["key"] = json_of(frame.key)
    if frame.headers:
        headers = frame.headers.items()
        message["headers"] = {name: json_of(value) for name, value in headers}
    return message


def payload_bodies(messages: Sequence[Any]) -> list[bytes]:
    """Return message bodies, without accepting values. Raises `InvalidRequest`."""
    if values_to_encode(messages):
        raise InvalidRequest(
            "invalid_body", format="json", expected="values are published to one topic at a time"
        )
    return message_bodies(messages)


def values_to_encode(messages: Sequence[Any]) -> dict[int, ValueToEncode]:
    """Return the messages of a request that are values, by their indexes.

    Raises `InvalidRequest`.
    """
    return {
        index: _value_of(message)
        for index, message in enumerate(messages)
        if isinstance(message, MessageObject) and message.is_value
    }


def _value_of(message: MessageObject) -> ValueToEncode:
    forms = message.base64, message.bytes, message.payload, message.value
    forms_used = [form for form in forms if form is not msgspec.UNSET]
    is_tombstone = forms_used == [None]
    two_keys = message.key is not None and message.keyValue is not msgspec.UNSET
    if len(forms_used) != 1 or two_keys or not (is_tombstone or forms_used == [message.value]):
        raise InvalidRequest(
            "invalid_body",
            format="json",
            expected="value, or payload null; key or keyValue; and headers",
        )
    return ValueToEncode(
        None if isinstance(message.value, msgspec.UnsetType) else bytes(message.value),
        None if message.key is None else bytes_of(message.key),
        None if isinstance(message.keyValue, msgspec.UnsetType) else bytes(message.keyValue),
        _headers_of(message),
    )


def _headers_of(message: MessageObject) -> dict[str, bytes]:
    return {_name(name): bytes_of(value) for name, value in message.headers.items()}


def _body_of(message: str | MessageObject) -> tuple[bytes, bool]:
    if isinstance(message, str):
        return bytes_of(message), False
    if message.is_value:
        return b"", False  # a placeholder until it is encoded
    forms = {"base64": message.base64, "bytes": message.bytes, "payload": message.payload}
    forms_used = {name: value for name, value in forms.items() if value is not msgspec.UNSET}
    if len(forms_used) != 1 or (
        "payload" not in forms_used and (message.key is not None or message.headers)
    ):
        raise InvalidRequest(
            "invalid_body", format="json", expected="a message as text, base64, or with a payload"
        )
    if isinstance(message.base64, str):
        return from_base64(message.base64), False
    [(name, value)] = forms_used.items()
    payload = None if value is None else bytes_of(value)
    if name == "bytes":
        return payload or b"", False
    key = None if message.key is None else bytes_of(message.key)
    return encode_body(payload, key, _headers_of(message))


def _name(text: str) -> str:
    """Return the name of a header. Raises `InvalidRequest` for half of a surrogate pair."""
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise InvalidRequest("invalid_body", format="json", reason=str(error)) from None
    return text


def encode_rows(block: MessageBlock) -> bytes:
    """Return the messages of a block as an array."""
    if block.framed:
        return encode([_row(message) for message in block])
    ids, payloads = block.columns()
    return encode(
        [
            MessageBody(message_id.hex(), published_ms(message_id), text)
            for message_id, text in zip(ids, _all_json_of(payloads), strict=True)
        ]
    )


def encode_row(message: Message) -> bytes:
    """Return a message as `encode_rows` does."""
    return encode(_row(message))


def _all_json_of(payloads: Sequence[bytes]) -> Sequence[JsonBytes]:
    # Usually all of them are text.
    with suppress(UnicodeDecodeError):
        return [payload.decode() for payload in payloads]
    return [json_of(payload) for payload in payloads]


def _row(message: Message) -> MessageBody:
    payload = None if message.is_tombstone else json_of(message.payload)
    row = MessageBody(message.id.hex(), published_ms(message.id), payload)
    if message.key is not None:
        row.key = json_of(message.key)
    if message.headers:
        row.headers = {name: json_of(value) for name, value in message.headers.items()}
    return row
