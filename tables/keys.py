"""Row keys and values: the only place that encodes or decodes them.

    metadata row key := namespace ":" topic ":"                          UTF-8
    prefix           := metadata row key, generation int32
    message row key  := prefix, publish_timestamp int64 ms, sequence_id uint16
    payload row key  := prefix, write_pointer int64, write_timestamp int64 ms, sequence_id uint16
                      | the same, 0x01                                   of a framed message
    message value    := 0x00 payload                                     plain
                      | 0x01 write_pointer int64 payload                 transactional
                      | 0x02 write_pointer int64                         reference
                      | 0x03 frame payload                               plain, framed
                      | 0x04 write_pointer int64 frame payload           transactional, framed

Big-endian. A rolled back entry has its write pointer's sign inverted. The layout without frames is
CDAP's. DO NOT CHANGE: it is on disk. `docs/formats.md` has worked examples, `tms.core.values.frame`
the frames.
"""

import struct

from tms.core.errors import InvalidRequest, StoreCorrupt
from tms.core.values.message import KEY_BYTES
from tms.core.values.topic import TopicId

PLAIN_KIND = 0
TRANSACTIONAL_KIND = 1
REFERENCE_KIND = 2
FRAMED_KIND = 3
TRANSACTIONAL_FRAMED_KIND = 4
KINDS_WITHOUT_POINTER = (PLAIN_KIND, FRAMED_KIND)
_KINDS_WITH_POINTER = (TRANSACTIONAL_KIND, REFERENCE_KIND, TRANSACTIONAL_FRAMED_KIND)

PLAIN_START = b"\x00"
FRAMED_START = b"\x03"
FRAMED_END = b"\x01"
"""Ends the key of a Payload row whose value begins with a frame."""
POINTER = struct.Struct(">q")
"""A write pointer in a key."""
_GENERATION = struct.Struct(">i")
_TRANSACTIONAL_START = struct.Struct(">Bq")
POINTER_END = _TRANSACTIONAL_START.size
"""The offset of the payload in the value of a transactional entry."""

FIRST_GENERATION = 1


def metadata_key(topic_id: TopicId) -> bytes:
    """Return the row key of a topic's metadata, the start of all of its rows."""
    return f"{topic_id.namespace}:{topic_id.name}:".encode()


def topic_of(key: bytes) -> TopicId:
    """Return the topic whose metadata row key is `key`. Raises `StoreCorrupt`."""
    try:
        namespace, name = key.decode().removesuffix(":").split(":")
        return TopicId(namespace, name)
    except (ValueError, InvalidRequest):
        raise StoreCorrupt(table="metadata", key=key.hex()) from None


def topic_start(key: bytes) -> bytes:
    """Return the metadata row key that a row key begins with; a key without one, whole."""
    end = key.find(b":", key.find(b":") + 1)
    return key[: end + 1] if end > 0 else key


def namespace_start(namespace: str) -> bytes:
    """Return the start of the metadata row keys of a namespace."""
    return f"{namespace}:".encode()


def prefix(topic_id: TopicId, generation: int) -> bytes:
    """Return the start of the data rows of a topic's `generation` (positive int32)."""
    return metadata_key(topic_id) + _GENERATION.pack(generation)


def payload_prefix(topic_prefix: bytes, write_pointer: int) -> bytes:
    """Return the start of the Payload rows under a write pointer, whatever its sign."""
    return topic_prefix + POINTER.pack(abs(write_pointer))


def payload_pointer_of(key: bytes) -> int:
    """Return the write pointer in the key of a Payload row. Raises `StoreCorrupt`."""
    at = _pointer_at(key)
    if len(key) < at + POINTER.size + KEY_BYTES:
        raise StoreCorrupt(table="payload", key=key.hex())
    return int(POINTER.unpack_from(key, at)[0])


def message_key_of(key: bytes) -> bytes:
    """Return the ten bytes of time and sequence in the key of a Message row."""
    return key[-KEY_BYTES:]


def payload_key_of(key: bytes) -> bytes:
    """Return the ten bytes of time and sequence in the key of a Payload row."""
    at = _pointer_at(key) + POINTER.size
    return key[at : at + KEY_BYTES]


def is_framed_payload(key: bytes) -> bool:
    """Whether the value of a Payload row begins with a frame."""
    return len(key) - _pointer_at(key) > POINTER.size + KEY_BYTES


def run_prefix_of(key: bytes) -> bytes:
    """Return the payload prefix in the key of a Payload row."""
    return key[: _pointer_at(key) + POINTER.size]


def _pointer_at(key: bytes) -> int:
    return len(topic_start(key)) + _GENERATION.size


def prefix_of(key: bytes) -> tuple[TopicId, int, bytes]:
    """Return the topic and generation of a data row, and the prefix. Raises `StoreCorrupt`."""
    end = key.find(b":", key.find(b":") + 1) + 1
    if not end or len(key) < end + _GENERATION.size:
        raise StoreCorrupt(key=key.hex())
    [generation] = _GENERATION.unpack_from(key, end)
    return topic_of(key[:end]), generation, key[: end + _GENERATION.size]


def after_prefix(start: bytes) -> bytes:
    """Return the smallest key above all keys that begin with `start`, which has a byte < 255."""
    kept = start.rstrip(b"\xff")
    return kept[:-1] + bytes((kept[-1] + 1,))


def transactional_start(write_pointer: int) -> bytes:
    """Return the bytes before the payload of a transactional entry."""
    return _TRANSACTIONAL_START.pack(TRANSACTIONAL_KIND, write_pointer)


def transactional_framed_start(write_pointer: int) -> bytes:
    """Return the bytes before the frame of a transactional entry."""
    return _TRANSACTIONAL_START.pack(TRANSACTIONAL_FRAMED_KIND, write_pointer)


def entry_pointer_of(value: bytes) -> int:
    """Return the stored pointer of any value of a Message row, 0 if it has none.

    Raises `StoreCorrupt`.
    """
    return 0 if value and value[0] in KINDS_WITHOUT_POINTER else write_pointer_of(value)


def reference_value(write_pointer: int) -> bytes:
    """Return the value of a reference to the payloads stored under `write_pointer`."""
    return _TRANSACTIONAL_START.pack(REFERENCE_KIND, write_pointer)


def write_pointer_of(value: bytes) -> int:
    """Return the stored pointer of a value that is not plain. Raises `StoreCorrupt`."""
    kind = value[0] if value else -1
    if kind not in _KINDS_WITH_POINTER or len(value) < POINTER_END:
        raise StoreCorrupt(table="message", value_start=value[:POINTER_END].hex())
    return int(POINTER.unpack_from(value, 1)[0])


def inverted(value: bytes) -> bytes:
    """Return the message value with the sign of its write pointer inverted."""
    start = _TRANSACTIONAL_START.pack(value[0], -write_pointer_of(value))
    return start + value[POINTER_END:]
