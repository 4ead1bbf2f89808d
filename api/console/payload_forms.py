"""Shows payloads and keys: as text, as JSON, as hexadecimal digits, or decoded by schemas."""

import re
from collections.abc import Sequence
from enum import StrEnum

import msgspec

from api.console.shown import payload as as_text
from api.console.shown import text
from tms.core.errors import SchemasUnavailable
from tms.core.services.payload_values import DecodedValue, PayloadValues, no_registry
from tms.core.values.caller import Caller
from tms.core.values.message import Message
from tms.core.values.topic_schemas import TopicSchemas

_JSON_BYTES_MAX = 64 * 1024
_INDENTED_BYTES_MAX = 16 * 1024
_INDENTS_BYTES_MAX = 1024 * 1024
_BESIDE_PARTS = re.compile(rb'"(?:[^"\\]|\\.)*+"?|[^]["{},]+', re.DOTALL)
"""Strings, even unterminated ones, and everything else that starts no line of JSON."""
INDENT = 2
_DECODED_BYTES_MAX = 256 * 1024
"""Payloads above this size are not decoded."""


class Form(StrEnum):
    """A way to show payloads."""

    TEXT = "text"
    JSON = "json"
    HEX = "hex"
    SCHEMA = "schema"


def form_of(name: str) -> Form:
    """Return a form by its name, or text if there is no such form."""
    return Form(name) if name in set(Form) else Form.TEXT


class SchemaForm:
    """Decodes messages by the schemas of their topic."""

    def __init__(self, values: PayloadValues | None, schemas: TopicSchemas, caller: Caller) -> None:
        self._values = values
        self._schemas = schemas
        self._caller = caller

    async def decoded(self, messages: Sequence[Message]) -> list[DecodedValue]:
        """Return the values of messages; those that are too large have an error instead."""
        if self._values is None:
            return [DecodedValue(error=no_registry())] * len(messages)
        small = [message for message in messages if len(message.payload) <= _DECODED_BYTES_MAX]
        try:
            decoded = iter(await self._values.decoded(self._schemas, small, caller=self._caller))
        except SchemasUnavailable as error:
            return [DecodedValue(error=str(error))] * len(messages)
        too_large = DecodedValue(
            error=f"larger than {_DECODED_BYTES_MAX:,} bytes: save the payload to see it"
        )
        return [
            next(decoded) if len(message.payload) <= _DECODED_BYTES_MAX else too_large
            for message in messages
        ]


def shown_payload(
    message: Message,
    form: Form,
    chars_max: int,
    decoded: DecodedValue | None = None,
    *,
    indent: int = 0,
) -> str:
    """Return the start of a payload; `decoded` is its value, for the form of schemas.

    JSON has that `indent`; 0 puts it on one line.
    """
    if message.is_tombstone:
        return ""
    payload = message.payload
    if form is Form.HEX:
        return as_hex(payload, chars_max)
    if form is Form.SCHEMA and decoded is not None:
        return (
            as_text(decoded.value, chars_max) if decoded.value is not None else f"({decoded.error})"
        )
    if form is Form.JSON:
        bytes_max = _INDENTED_BYTES_MAX if indent else _JSON_BYTES_MAX
        return as_text(in_lines(payload, bytes_max, indent), chars_max)
    return as_text(payload, chars_max)


def in_lines(value: bytes, bytes_max: int, indent: int = INDENT) -> bytes:
    """Return JSON with a line for each of its parts, or on one line if there is no indent.

    A text is returned as it is if it is not JSON, if it has more than `bytes_max` bytes, or if its
    depth would cause long indents.
    """
    if len(value) > bytes_max or (indent and _indents(value) * indent > _INDENTS_BYTES_MAX):
        return value
    try:
        value.decode()
        return msgspec.json.format(value, indent=indent)
    except (ValueError, RecursionError):
        return value


def _indents(value: bytes) -> int:
    """Return the number of indents in JSON that has a line for each of its parts."""
    depth = indents = 0
    for byte in _BESIDE_PARTS.sub(b"", value):
        if byte in b"[{":
            depth += 1
        elif byte in b"]}":
            depth -= 1
        indents += depth
    return indents


def as_hex(value: bytes, chars_max: int) -> str:
    """Return the start of bytes as hexadecimal digits."""
    bytes_max = chars_max // 3
    return value[:bytes_max].hex(" ") + ("…" if len(value) > bytes_max else "")


def shown_headers(message: Message, chars_max: int) -> list[tuple[str, str]]:
    """Return the names and values of the headers that fit; one line stands for the rest."""
    shown: list[tuple[str, str]] = []
    remaining = chars_max
    for count, (name, value) in enumerate(message.headers.items()):
        if remaining <= 0:
            shown.append((f"and {len(message.headers) - count} more", ""))
            break
        pair = text(name[:remaining]), as_text(value, min(remaining, chars_max // 2))
        shown.append(pair)
        remaining -= sum(map(len, pair))
    return shown
