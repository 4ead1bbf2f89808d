"""CloudEvents 1.0 as messages, and messages as CloudEvents.

An event becomes a message as in the Kafka protocol binding: each attribute is the header
`ce_NAME`, except that `datacontenttype` is the header `content-type`; the data is the payload, and
the extension `partitionkey` is also the key. A message that was not an event becomes one as well:
its id is the message id, and its type `tms.message`. Each event of a poll has the extension
`tmsid`, the message id, from which a reader continues.

Sources: the specification's JSON event format, HTTP protocol binding and Kafka protocol binding.
"""

import base64
import re
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any, Final

import msgspec

from tms.core.errors import InvalidRequest
from tms.core.text.credentials import shortened
from tms.core.values.message import Message, MessageBlock, published_ms
from tms.core.values.topic import TopicId
from tms.wire.json_values import decode, encode, from_base64

EVENT_TYPE: Final = "application/cloudevents+json"
BATCH_TYPE: Final = "application/cloudevents-batch+json"
CONTENT_TYPE_HEADER: Final = "content-type"
_PREFIX: Final = "ce_"
_VERSION: Final = "1.0"
_REQUIRED: Final = ("id", "source", "specversion", "type")
_NOT_EMPTY: Final = ("dataschema", "subject")
_TEXTS: Final = frozenset((*_REQUIRED, *_NOT_EMPTY, "datacontenttype", "time"))
_NAME = re.compile(r"[a-z0-9]+", re.ASCII)
_MEDIA_TYPE = re.compile(r"[^\s/;]+/[^\s/;]+\s*(;.*)?", re.DOTALL)
_TIME = re.compile(  # RFC 3339
    r"\d{4}-(0[1-9]|1[0-2])-(0[1-9]|[12]\d|3[01])T([01]\d|2[0-3]):[0-5]\d:([0-5]\d|60)(\.\d+)?"
    r"(Z|[+-]([01]\d|2[0-3]):[0-5]\d)",
    re.ASCII | re.IGNORECASE,
)
_CHARS_SHOWN = 80
_JSON_TYPE = "application/json"

Attributes = Mapping[str, str]


def _refused(reason: str, **detail: str) -> InvalidRequest:
    return InvalidRequest("invalid_body", format="cloudevents", reason=reason, **detail)


def message_of(
    attributes: Attributes, data: bytes, content_type: str | None, key: bytes | None
) -> Message:
    """Return the message of an event. Raises `InvalidRequest` (invalid_body)."""
    _check(attributes, content_type)
    if key is None and "partitionkey" in attributes:
        key = attributes["partitionkey"].encode()
    headers = {f"{_PREFIX}{name}": value.encode() for name, value in attributes.items()}
    if content_type is not None:
        headers[CONTENT_TYPE_HEADER] = content_type.encode()
    return Message(data, key, headers)


def _check(attributes: Attributes, content_type: str | None) -> None:
    """Raise `InvalidRequest` for what the specification does not allow."""
    for name in attributes:
        if not _NAME.fullmatch(name):
            shown = shortened(name, _CHARS_SHOWN)
            raise _refused("names of attributes have lower-case letters and digits", name=shown)
    for name in _REQUIRED:
        if not attributes.get(name):
            raise _refused(f"the attribute {name} is missing or empty")
    for name in _NOT_EMPTY:
        if attributes.get(name) == "":
            raise _refused(f"the attribute {name} is empty")
    if "time" in attributes and not _TIME.fullmatch(attributes["time"]):
        shown = shortened(attributes["time"], _CHARS_SHOWN)
        raise _refused("the time is not one of RFC 3339", time=shown)
    if content_type is not None and not _MEDIA_TYPE.fullmatch(content_type):
        shown = shortened(content_type, _CHARS_SHOWN)
        raise _refused("the type of the data is not a media type", type=shown)
    if attributes["specversion"] != _VERSION:
        shown = shortened(attributes["specversion"], _CHARS_SHOWN)
        raise _refused("the only supported specversion is 1.0", specversion=shown)


def message_of_json(text: bytes, key: bytes | None) -> Message:
    """Return the message of an event in JSON, whose names were checked.

    Raises `InvalidRequest` (invalid_body).
    """
    event = decode(dict[str, msgspec.Raw], text, check=False)
    data, in_base64 = event.pop("data", None), event.pop("data_base64", None)
    attributes = {}
    for name, raw in event.items():
        value = msgspec.json.decode(raw)
        if value is not None and name in _TEXTS and not isinstance(value, str):
            raise _refused(f"the attribute {name} is a string")
        if isinstance(value, bool):
            attributes[name] = "true" if value else "false"
        elif isinstance(value, str | int):
            attributes[name] = str(value)
        elif value is not None:
            shown = shortened(name, _CHARS_SHOWN)
            raise _refused("an attribute is a string, an integer or a boolean", name=shown)
    content_type = attributes.pop("datacontenttype", None)
    if in_base64 is not None:
        if data is not None:
            raise _refused("an event has data or data_base64")
        payload = from_base64(decode(str, bytes(in_base64)))
    elif data is None:
        payload = b""
    elif content_type is None or is_json(content_type):
        payload = bytes(data)
        content_type = content_type or _JSON_TYPE
    else:
        value = msgspec.json.decode(data)
        payload = value.encode() if isinstance(value, str) else bytes(data)
    return message_of(attributes, payload, content_type, key)


def source_of(topic_id: TopicId) -> str:
    """Return the source of events that were published as other messages: the topic's path."""
    return f"/v1/namespaces/{topic_id.namespace}/topics/{topic_id.name}"


def is_json(content_type: str) -> bool:
    """Whether a media type is JSON: `…/json` or `…+json`, whatever its parameters."""
    name = content_type.partition(";")[0].strip().lower()
    return name.endswith(("/json", "+json"))


class CloudEventsFormat:
    """The answer to a poll as a batch of events."""

    content_type = BATCH_TYPE
    joined_messages = 0

    def __init__(self, topic_id: TopicId) -> None:
        """For the messages of one topic, whose path is the source of messages without one."""
        self._source = source_of(topic_id)

    def encode_block(self, block: MessageBlock, *, first: bool) -> bytes:
        """Return the next events, with a bracket or comma before them."""
        events = b",".join(encode_event(message, self._source) for message in block)
        return (b"[" if first else b",") + events

    def encode_end(self, *, first: bool) -> bytes:
        """Return the end of the array."""
        return b"[]" if first else b"]"


def encode_event(message: Message, source: str) -> bytes:
    """Return a message as an event in JSON.

    `source` is for messages that were published in another form.
    """
    headers = {name: _text_of(value) for name, value in message.headers.items()}
    event: dict[str, Any] = {
        name.removeprefix(_PREFIX): value
        for name, value in headers.items()
        if value is not None and name.startswith(_PREFIX) and _NAME.fullmatch(name[len(_PREFIX) :])
    }
    if not all(event.get(name) for name in _REQUIRED) or event["specversion"] != _VERSION:
        at = datetime.fromtimestamp(published_ms(message.id) / 1000, UTC)
        event = {
            "specversion": _VERSION,
            "id": message.id.hex(),
            "source": source,
            "type": "tms.message",
            "time": at.isoformat(timespec="milliseconds").replace("+00:00", "Z"),
        }
        if message.key is not None and (key := _text_of(message.key)) is not None:
            event["partitionkey"] = key
    event["tmsid"] = message.id.hex()
    content_type = headers.get(CONTENT_TYPE_HEADER)
    if content_type is not None:
        event["datacontenttype"] = content_type
    if message.payload:
        event |= _data_of(message.payload, content_type)
    return encode(event)


def _data_of(payload: bytes, content_type: str | None) -> dict[str, Any]:
    if content_type is not None and is_json(content_type):
        if _is_valid_json(payload):
            return {"data": msgspec.Raw(payload)}
    elif content_type is not None and (text := _text_of(payload)) is not None:
        return {"data": text}
    return {"data_base64": base64.b64encode(payload).decode()}


def _is_valid_json(payload: bytes) -> bool:
    try:
        msgspec.json.decode(payload, type=msgspec.Raw)
        payload.decode()
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return False
    return True


def _text_of(value: bytes) -> str | None:
    try:
        return value.decode()
    except UnicodeDecodeError:
        return None
