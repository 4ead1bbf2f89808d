"""Messages in the forms that callers pass: bytes, or `Message` with a key or headers."""

from collections.abc import Iterable, Mapping
from typing import Any

from tms.core.services.records import Record
from tms.core.values.frame import NO_HEADERS, bodies_of
from tms.core.values.message import Message

GivenMessage = bytes | Message
"""A payload, or a message, whose id is ignored."""
GivenMessages = GivenMessage | Iterable[GivenMessage]

_NOT_A_LIST = (str, Mapping, bytearray, memoryview)


def with_key(given: Any, key: Any, headers: Mapping[str, bytes] | None, *, has_schema: bool) -> Any:
    """Return `given`; with a key or headers, as one message or record that has them.

    Raises `TypeError` if they are given with more than one payload or value.
    """
    if key is None and headers is None:
        return given
    kind = Record if has_schema else Message
    if isinstance(given, Message | Record | list) or not (has_schema or isinstance(given, bytes)):
        of = "its value" if has_schema else "its bytes"
        raise TypeError(
            "key and headers are those of one message: give that as "
            f"{of}, and several each as tms.{kind.__name__}(…, key=…, headers=…)"
        )
    return kind(given, key, NO_HEADERS if headers is None else headers)


def bodies(messages: GivenMessages) -> list[bytes]:
    """Return the bodies of messages (`tms.core.values.frame`).

    Raises `TypeError` for anything that is not a message, and for a wrong type of key or headers.
    """
    if type(messages) is bytes:
        return [messages]
    if isinstance(messages, bytes | Message):
        messages = (messages,)
    if isinstance(messages, _NOT_A_LIST) or not isinstance(messages, Iterable):
        # Their items would be taken for messages, and an error about those would not help.
        kind = type(messages).__name__
        raise TypeError(
            f"a message is bytes or tms.Message, not {kind}: encode it first, or give schema="
        )
    items = list(messages)
    payloads = [message for message in items if type(message) is bytes]
    if len(payloads) == len(items):
        return payloads
    return bodies_of([_body_of(message) for message in items])


def _body_of(message: GivenMessage) -> tuple[bytes, bool]:
    if isinstance(message, bytes):
        return bytes(message), False
    if not isinstance(message, Message):
        raise TypeError(
            f"a message is bytes or tms.Message, not {type(message).__name__}: encode it first"
        )
    if not isinstance(message.payload, bytes):
        raise TypeError(f"a payload is bytes, not {type(message.payload).__name__}")
    if not isinstance(message.key, bytes | None):
        raise TypeError(f"a key is bytes, not {type(message.key).__name__}")
    if not isinstance(message.headers, Mapping) or not all(
        isinstance(name, str) and isinstance(value, bytes)
        for name, value in message.headers.items()
    ):
        raise TypeError("headers are a mapping of str to bytes")
    if message.is_tombstone and message.payload:
        raise ValueError("a tombstone has no payload")
    return message.body()
