"""Confluent's wire format: which schema the bytes of a value belong to.

    framed  := 0x00, schema id uint32 big-endian, value
    value   := what the schema's type encodes
             | indexes, message                            if the schema is Protobuf's
    indexes := 0x00                                        the first message of the file
             | count, (index)*                             zigzag varints: the path to the message

From Confluent's "Wire format" page and the bytes of its clients (`tests/serdes`).
"""

import struct

from tms.core.values.avro_lengths import avro_length, read_length
from tms.serdes.serde import Undecodable

MAGIC = b"\x00"
START_BYTES = 5
"""The number of bytes before the value."""
_ID = struct.Struct(">xI")
_PATH_MAX = 64
"""The deepest nesting of messages; files have less."""
_PATH_BYTES_MAX = 10 * (1 + _PATH_MAX)


def start_of(schema_id: int) -> bytes:
    """Return the bytes before a value."""
    return _ID.pack(schema_id)


def schema_id_of(data: bytes) -> int:
    """Return the schema's id. Raises `Undecodable`."""
    if len(data) < START_BYTES or data[:1] != MAGIC:
        raise Undecodable("it does not begin with a zero byte and a schema's id")
    schema_id: int = _ID.unpack_from(data)[0]
    return schema_id


def encode_path(path: tuple[int, ...]) -> bytes:
    """Return the encoded path to a Protobuf message."""
    if path == (0,):
        return b"\x00"
    return b"".join(map(avro_length, (len(path), *path)))  # Avro's lengths are zigzag varints


def read_path(data: bytes, at: int) -> tuple[tuple[int, ...], int]:
    """Return the path to a Protobuf message, and where the message begins. Raises `Undecodable`."""
    start = data[at : at + _PATH_BYTES_MAX]
    try:
        count, end = read_length(start, 0)
        if count == 0:
            return (0,), at + end
        path = []
        for _ in range(min(count, _PATH_MAX + 1)):
            index, end = read_length(start, end)
            path.append(index)
    except (IndexError, ValueError):
        raise Undecodable("its message indexes are damaged") from None
    if count > _PATH_MAX:
        raise Undecodable(f"it has {count} message indexes")
    return tuple(path), at + end
