"""Messages in an Avro container file, as `tms export` writes it (docs/formats.md)."""

from collections.abc import Iterable, Iterator
from typing import Any, BinaryIO

import fastavro

from tms.core.values.frame import NO_HEADERS
from tms.core.values.message import Message, published_ms

_SCHEMA: Any = {
    "type": "record",
    "name": "Message",
    "namespace": "tms.export",
    "fields": [
        {"name": "id", "type": {"type": "fixed", "name": "Id", "size": 20}},
        {"name": "timestamp", "type": {"type": "long", "logicalType": "timestamp-millis"}},
        {"name": "key", "type": ["null", "bytes"]},
        {"name": "headers", "type": {"type": "map", "values": "bytes"}},
        {"name": "payload", "type": ["null", "bytes"]},
    ],
}


def write_container(out: BinaryIO, messages: Iterable[Message]) -> None:
    """Write messages with their ids, compressed by deflate."""
    fastavro.writer(out, _SCHEMA, map(_record_of, messages), codec="deflate")


def _record_of(message: Message) -> dict[str, Any]:
    return {
        "id": message.id,
        "timestamp": published_ms(message.id),
        "key": message.key,
        "headers": dict(message.headers),
        "payload": None if message.is_tombstone else message.payload,
    }


def read_container(source: BinaryIO) -> Iterator[Message]:
    """Yield the messages without their ids.

    Raises `ValueError`, `EOFError`, `KeyError` or `TypeError` if it is cut or not such a file.
    """
    record: Any
    for record in fastavro.reader(source):
        payload, headers = record["payload"], record["headers"] or NO_HEADERS
        yield Message(payload or b"", record["key"], headers, b"", payload is None)
