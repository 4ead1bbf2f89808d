"""Bodies that are messages by themselves: any payload, NDJSON, and CloudEvents.

The payload's media type becomes the header `content-type`, except `application/octet-stream`, which
says nothing. The key and the headers of the request are those of each of its messages.
"""

import io
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping
from typing import NamedTuple

import msgspec

from tms.core.errors import InvalidRequest
from tms.core.values.frame import bodies_of, encode_body
from tms.core.values.message import Message
from tms.wire import cloud_events
from tms.wire.bodies import MESSAGES_A_STEP, too_many_messages
from tms.wire.cloud_events import BATCH_TYPE, CONTENT_TYPE_HEADER, EVENT_TYPE
from tms.wire.json_values import check_body, decode
from tms.wire.media_types import JSON_TYPE, NDJSON_TYPE

_UNKNOWN_TYPE = "application/octet-stream"
_RAW = msgspec.json.Decoder(msgspec.Raw)


class RawRequest(NamedTuple):
    """The key, headers and kind of the messages in a body."""

    content_type: str
    """As received, with its parameters; empty if there is none, which only an event may lack."""
    key: bytes | None
    headers: Mapping[str, bytes]
    attributes: Mapping[str, str]
    """The attributes of an event in HTTP's binary mode; empty if it is none."""
    is_split: bool
    """Whether each item of a JSON array is a message."""


def bodies_in(
    request: RawRequest, body: bytes, messages_max: int
) -> Generator[None, None, list[bytes]]:
    """Return the messages' bodies, in steps between which others get a turn.

    Raises `InvalidRequest` (invalid_body), `TooLarge` (too_many_messages).
    """
    media_type = request.content_type.partition(";")[0].strip().lower()
    if request.is_split and media_type != JSON_TYPE:
        raise InvalidRequest("invalid_body", format="raw", reason=f"only {JSON_TYPE} can be split")
    messages = _messages_in(request, media_type, body, messages_max)
    bodies: list[tuple[bytes, bool]] = []
    for number, message in enumerate(messages, start=1):
        if number % MESSAGES_A_STEP == 0:
            yield
        if message is None:
            continue
        if len(bodies) == messages_max:
            raise too_many_messages(messages_max + 1, messages_max)
        headers = message.headers
        if request.headers:
            headers = {**headers, **request.headers}
        bodies.append(encode_body(message.payload, message.key, headers))
    return bodies_of(bodies)


def _messages_in(
    request: RawRequest, media_type: str, body: bytes, messages_max: int
) -> Iterable[Message | None]:
    """Return the messages in a body, None for each empty line.

    They are made one by one, so that the reader may stop at too many, and pause in between.
    """
    key = request.key
    if request.attributes:
        content_type = request.content_type or None
        return [cloud_events.message_of(request.attributes, body, content_type, key)]
    if media_type == EVENT_TYPE:
        check_body(body)
        return [cloud_events.message_of_json(body, key)]
    if media_type == BATCH_TYPE:
        return _each_item(body, messages_max, lambda text: cloud_events.message_of_json(text, key))
    if media_type == NDJSON_TYPE:
        return (_message(line, JSON_TYPE, key) if line else None for line in _lines(body))
    if request.is_split:
        return _each_item(body, messages_max, lambda text: _message(text, JSON_TYPE, key))
    return [_message(body, request.content_type if media_type != _UNKNOWN_TYPE else None, key)]


def _each_item(
    body: bytes, messages_max: int, make: Callable[[bytes], Message]
) -> Iterator[Message]:
    """Make a message of each item of a JSON array."""
    items = decode(list[msgspec.Raw], body, check=False)
    if len(items) > messages_max:
        raise too_many_messages(len(items), messages_max)
    for number, item in enumerate(items, start=1):
        text = bytes(item)
        try:
            check_body(text)
            message = make(text)
        except InvalidRequest as error:
            error.detail["item"] = number
            raise
        yield message


def _message(payload: bytes, content_type: str | None, key: bytes | None) -> Message:
    headers = {} if content_type is None else {CONTENT_TYPE_HEADER: content_type.encode()}
    return Message(payload, key, headers)


def _lines(body: bytes) -> Iterator[bytes]:
    for number, line in enumerate(io.BytesIO(body), start=1):
        text = line.strip(b" \t\r\n")
        if not text:
            yield b""
            continue
        try:
            _RAW.decode(text)
            text.decode()
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
            raise InvalidRequest(
                "invalid_body", format="ndjson", line=number, reason=str(error)
            ) from None
        yield text
