"""How payloads and keys are shown: as text, JSON, hexadecimal digits, or by their schemas."""

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
"""Texts, an unfinished one to its end, and all else that begins no line of JSON."""
INDENT = 2
_DECODED_BYTES_MAX = 256 * 1024
"""Larger payloads are not decoded by their schemas here."""


class Form(StrEnum):
    """A way to show payloads."""

    TEXT = "text"
    JSON = "json"
    HEX = "hex"
    SCHEMA = "schema"


def form_of(given: str) -> Form:
    """Return a form by its name; text, if there is no such form."""
    return Form(given) if given in set(Form) else Form.TEXT


class SchemaForm:
    """Messages by the schemas of their topic."""

    def __init__(self, values: PayloadValues | None, schemas: TopicSchemas, caller: Caller) -> None:
        self._values = values
        self._schemas = schemas
        self._caller = caller

    async def told(self, messages: Sequence[Message]) -> list[DecodedValue]:
        """Return what messages say; those that are too large say why they are not decoded."""
        if self._values is None:
            return [DecodedValue(error=no_registry())] * len(messages)
        small = [each for each in messages if len(each.payload) <= _DECODED_BYTES_MAX]
        try:
            told = iter(await self._values.decoded(self._schemas, small, caller=self._caller))
        except SchemasUnavailable as error:
            return [DecodedValue(error=str(error))] * len(messages)
        too_large = DecodedValue(
            error=f"larger than {_DECODED_BYTES_MAX:,} bytes: save the payload to see it"
        )
        return [
            next(told) if len(each.payload) <= _DECODED_BYTES_MAX else too_large
            for each in messages
        ]


def shown_payload(
    message: Message,
    form: Form,
    chars_max: int,
    told: DecodedValue | None = None,
    *,
    indent: int = 0,
) -> str:
    """Return the start of a payload; `told` is what it says, for the form of schemas.

    `indent` is that of JSON; 0: it is in one line.
    """
    if message.is_tombstone:
        return ""
    payload = message.payload
    if form is Form.HEX:
        return as_hex(payload, chars_max)
    if form is Form.SCHEMA and told is not None:
        return as_text(told.value, chars_max) if told.value is not None else f"({told.error})"
    if form is Form.JSON:
        bytes_max = _INDENTED_BYTES_MAX if indent else _JSON_BYTES_MAX
        return as_text(in_lines(payload, bytes_max, indent), chars_max)
    return as_text(payload, chars_max)


def in_lines(value: bytes, bytes_max: int, indent: int = INDENT) -> bytes:
    """Return JSON with a line for each of its parts, or in one line without an indent.

    What is not JSON, or has more than `bytes_max` bytes, is returned as it is. So is deep JSON,
    whose parts would get long indents.
    """
    if len(value) > bytes_max or (indent and _indents(value) * indent > _INDENTS_BYTES_MAX):
        return value
    try:
        value.decode()
        return msgspec.json.format(value, indent=indent)
    except (ValueError, RecursionError):
        return value


def _indents(value: bytes) -> int:
    """Return how many indents JSON gets, if it has a line for each of its parts."""
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
    """Return the names and values of headers, as far as they fit; the rest is one line."""
    shown: list[tuple[str, str]] = []
    left = chars_max
    for count, (name, value) in enumerate(message.headers.items()):
        if left <= 0:
            shown.append((f"and {len(message.headers) - count} more", ""))
            break
        pair = text(name[:left]), as_text(value, min(left, chars_max // 2))
        shown.append(pair)
        left -= sum(map(len, pair))
    return shown
