"""A message, or a record whose values are JSON, as a line: for people and for programs."""

import base64
from datetime import UTC, datetime

import msgspec

from tms.core.services.records import Record
from tms.core.text.printable import printable
from tms.core.values.message import Message, published_ms
from tms.wire.json_values import json_of as json_bytes


def text_of(message: Message | Record) -> str:
    """Return the line for people. What a terminal would not print is escaped."""
    said = [utc_of(published_ms(message.id)), message.id.hex()]
    return "  ".join([*said, content_of(message)])


def utc_of(time_ms: int) -> str:
    """Return a time, in milliseconds since 1970, as text."""
    time = datetime.fromtimestamp(time_ms / 1000, UTC)
    return time.isoformat(timespec="milliseconds").replace("+00:00", "Z")


def content_of(message: Message | Record) -> str:
    """Return the key, the headers and the payload, for people."""
    said = [] if message.key is None else [f"key={_printable(message.key)}"]
    said += [
        f"{_printable(name.encode())}={_printable(value)}"
        for name, value in message.headers.items()
    ]
    said.append(_said_of(message))
    return "  ".join(said)


def _said_of(message: Message | Record) -> str:
    if isinstance(message, Record) and message.error is not None:
        return f"(damaged: {printable(message.error)})  {_printable(message.payload)}"
    if message.is_tombstone:
        return "(no payload)"
    return _printable(message.value if isinstance(message, Record) else message.payload)


def json_of(message: Message | Record) -> str:
    """Return the line for programs."""
    line: dict[str, object] = {"id": message.id.hex(), "timestamp": published_ms(message.id)}
    if isinstance(message, Record) and message.key_schema_id is not None:
        line["key"] = msgspec.Raw(message.key)
    elif message.key is not None:
        line |= _told("key", message.key)
    if message.headers:
        line["headers"] = {name: json_bytes(value) for name, value in message.headers.items()}
    line |= _told_by(message) if isinstance(message, Record) else _payload_of(message)
    return msgspec.json.encode(line).decode()


def _told_by(record: Record) -> dict[str, object]:
    named = {} if record.schema_id is None else {"schema_id": record.schema_id}
    if record.error is not None:
        return {**named, "error": record.error, **_told("payload", record.payload)}
    return {**named, "value": None if record.is_tombstone else msgspec.Raw(record.value)}


def _payload_of(message: Message) -> dict[str, object]:
    return {"payload": None} if message.is_tombstone else {**_told("payload", message.payload)}


def _printable(raw: bytes) -> str:
    return printable(raw.decode(errors="backslashreplace"))


def _told(name: str, raw: bytes) -> dict[str, str]:
    try:
        return {name: raw.decode()}
    except UnicodeDecodeError:
        return {f"{name}_base64": base64.b64encode(raw).decode()}
