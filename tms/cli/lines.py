"""A message, or a record whose values are JSON, as a line: for people and for programs."""

import base64
from datetime import UTC, datetime

import msgspec

from tms.core.services.records import Record
from tms.core.text.printable import printable
from tms.core.values.message import Message, published_ms
from tms.wire.json_values import json_of as json_bytes


def text_of(given: Message | Record) -> str:
    """Return the line for people. What a terminal would not print is escaped."""
    said = [utc_of(published_ms(given.id)), given.id.hex()]
    return "  ".join([*said, content_of(given)])


def utc_of(time_ms: int) -> str:
    """Return a time, in milliseconds since 1970, as text."""
    time = datetime.fromtimestamp(time_ms / 1000, UTC)
    return time.isoformat(timespec="milliseconds").replace("+00:00", "Z")


def content_of(given: Message | Record) -> str:
    """Return the key, the headers and the payload, for people."""
    said = [] if given.key is None else [f"key={_printable(given.key)}"]
    said += [
        f"{_printable(name.encode())}={_printable(value)}" for name, value in given.headers.items()
    ]
    said.append(_said_of(given))
    return "  ".join(said)


def _said_of(given: Message | Record) -> str:
    if isinstance(given, Record) and given.error is not None:
        return f"(damaged: {printable(given.error)})  {_printable(given.payload)}"
    if given.is_tombstone:
        return "(no payload)"
    return _printable(given.value if isinstance(given, Record) else given.payload)


def json_of(given: Message | Record) -> str:
    """Return the line for programs."""
    line: dict[str, object] = {"id": given.id.hex(), "timestamp": published_ms(given.id)}
    if isinstance(given, Record) and given.key_schema_id is not None:
        line["key"] = msgspec.Raw(given.key)
    elif given.key is not None:
        line |= _told("key", given.key)
    if given.headers:
        line["headers"] = {name: json_bytes(value) for name, value in given.headers.items()}
    line |= _told_by(given) if isinstance(given, Record) else _payload_of(given)
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
