"""The answer to a poll as Arrow's columns.

    message_id fixed_size_binary(20), timestamp timestamp(ms, UTC), seq int32, payload binary,
    payload_timestamp timestamp(ms, UTC), payload_seq int32, key binary,
    headers map<string, binary>

`timestamp` and `seq` are those of the message's id: when it was published, and its order within
that millisecond. Those of the payload are null unless a transaction stored it earlier. A missing
payload, key or map of headers is null. The answer is an Arrow IPC stream: the schema, record
batches, and an end, without which it was cut off.

Columns are made from a whole block at once: as strides over its bytes if all messages have one
length, otherwise from the positions of the payloads. They are assembled from buffers, because
pyarrow loads pandas for numpy's arrays, which takes half a second.
"""

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from tms.core.values.message import ID_BYTES, KEY_BYTES, MessageBlock
from tms.core.values.varints import MORE_FOLLOWS
from tms.wire.media_types import POLLED_ARROW_TYPE

BATCH_MESSAGES_MAX = 10_000
"""The most messages in one record batch."""

_TIME = pa.timestamp("ms", tz="UTC")
HEADERS_TYPE = pa.map_(pa.string(), pa.binary())
SCHEMA = pa.schema(
    [
        pa.field("message_id", pa.binary(ID_BYTES), nullable=False),
        pa.field("timestamp", _TIME, nullable=False),
        pa.field("seq", pa.int32(), nullable=False),
        pa.field("payload", pa.binary()),
        pa.field("payload_timestamp", _TIME),
        pa.field("payload_seq", pa.int32()),
        pa.field("key", pa.binary()),
        pa.field("headers", HEADERS_TYPE),
    ]
)
_SCHEMA_MESSAGE: bytes = SCHEMA.serialize().to_pybytes()

_END = b"\xff\xff\xff\xff\x00\x00\x00\x00"
"""The end of an Arrow stream: a message's marker, and the length 0."""

Bytes = npt.NDArray[np.uint8]
Numbers = npt.NDArray[np.int64]


class ArrowFormat:
    """A poll's answer as Arrow (`tms.wire.bodies.MessagesFormat`)."""

    content_type = POLLED_ARROW_TYPE
    joined_messages = BATCH_MESSAGES_MAX

    def encode_block(self, block: MessageBlock, *, first: bool) -> bytes:
        """Return a record batch, after the schema if it is the first."""
        batch = record_batch(block).serialize().to_pybytes()
        return _SCHEMA_MESSAGE + batch if first else bytes(batch)

    def encode_end(self, *, first: bool) -> bytes:
        """Return the end of the stream, after the schema if there was no batch."""
        return _SCHEMA_MESSAGE + _END if first else _END


ARROW = ArrowFormat()


def record_batch(block: MessageBlock) -> pa.RecordBatch:
    """Return the messages of a block as columns."""
    items = np.frombuffer(block.items, np.uint8)
    uniform = None if block.framed else _uniform(items, block.count)
    frames = [pa.nulls(block.count, pa.binary()), pa.nulls(block.count, HEADERS_TYPE)]
    if uniform is not None:
        ids = np.ascontiguousarray(uniform[:, 1 : 1 + ID_BYTES])
        payloads = _of_one_length(uniform)
    elif block.framed:
        ids, payloads, frames = _of_frames(block)
    else:
        ids, payloads = _by_places(items, block)
    columns = [
        pa.Array.from_buffers(pa.binary(ID_BYTES), block.count, [None, pa.py_buffer(ids)]),
        *_key_columns(ids[:, :KEY_BYTES], None),
        payloads,
        *_key_columns(ids[:, KEY_BYTES:], np.any(ids[:, KEY_BYTES:], axis=1)),
        *frames,
    ]
    return pa.RecordBatch.from_arrays(columns, schema=SCHEMA)


def _uniform(items: Bytes, count: int) -> Bytes | None:
    """Return the items as rows of one length, or None if their lengths differ.

    If each row begins like the first, up to its id and in the length of its payload, each row is an
    item, by induction.
    """
    if not count or len(items) % count:
        return None
    rows = items.reshape(count, -1)
    first = rows[0]
    at = 1 + ID_BYTES
    while at < len(first) and first[at] >= MORE_FOLLOWS:
        at += 1
    if at >= len(first) or at + 1 + _length(first[1 + ID_BYTES : at + 1]) != len(first):
        return None
    lengths = rows[:, 1 + ID_BYTES : at + 1]
    return rows if bool((lengths == lengths[0]).all()) else None


def _length(number: Bytes) -> int:
    zigzag = 0
    for shift, byte in enumerate(number.tolist()):
        zigzag |= (byte & (MORE_FOLLOWS - 1)) << 7 * shift
    return zigzag >> 1


def _of_one_length(rows: Bytes) -> pa.Array:
    at = 1 + ID_BYTES
    while rows[0, at] >= MORE_FOLLOWS:
        at += 1
    payloads = np.ascontiguousarray(rows[:, at + 1 :])
    count, length = payloads.shape
    offsets = np.arange(count + 1, dtype=np.int32) * np.int32(length)
    return _binary(offsets, payloads)


def _binary(offsets: npt.NDArray[np.int32], payloads: Bytes | bytes) -> pa.Array:
    buffers = [None, pa.py_buffer(offsets), pa.py_buffer(payloads)]
    return pa.Array.from_buffers(pa.binary(), len(offsets) - 1, buffers)


def _by_places(items: Bytes, block: MessageBlock) -> tuple[Bytes, pa.Array]:
    """Return the ids and the payloads of items of any length, none of them framed."""
    starts, ends = block.payload_spans()
    ids = _ids_at(items, ends)
    offsets = np.zeros(block.count + 1, np.int32)
    np.cumsum(np.array(ends) - np.array(starts), out=offsets[1:])
    payloads = [block.items[start:end] for start, end in zip(starts, ends, strict=True)]
    return ids, _binary(offsets, b"".join(payloads))


def _ids_at(items: Bytes, ends: list[int]) -> Bytes:
    item_starts = np.array([0, *ends[:-1]], np.int64)[: len(ends)]
    ids: Bytes = items[item_starts[:, np.newaxis] + np.arange(1, 1 + ID_BYTES)]
    return ids


def _of_frames(block: MessageBlock) -> tuple[Bytes, pa.Array, list[pa.Array]]:
    """Return the ids, payloads, keys and headers of items, some of them framed."""
    messages = list(block)
    payloads = [None if message.is_tombstone else message.payload for message in messages]
    keys = [message.key for message in messages]
    headers = [list(message.headers.items()) or None for message in messages]
    ids = np.frombuffer(b"".join([message.id for message in messages]), np.uint8)
    frames = [pa.array(keys, pa.binary()), pa.array(headers, HEADERS_TYPE)]
    return ids.reshape(-1, ID_BYTES), pa.array(payloads, pa.binary()), frames


def _key_columns(keys: Bytes, present: npt.NDArray[np.bool_] | None) -> list[pa.Array]:
    """Return the times and sequence ids of keys of ten bytes, null where not `present`."""
    if present is not None and not present.any():
        return [pa.nulls(len(keys), _TIME), pa.nulls(len(keys), pa.int32())]
    valid = None if present is None else pa.py_buffer(np.packbits(present, bitorder="little"))
    times = np.ascontiguousarray(keys[:, :8]).view(">i8").ravel().astype(np.int64)
    sequences = np.ascontiguousarray(keys[:, 8:]).view(">u2").ravel().astype(np.int32)
    return [
        pa.Array.from_buffers(_TIME, len(keys), [valid, pa.py_buffer(times)]),
        pa.Array.from_buffers(pa.int32(), len(keys), [valid, pa.py_buffer(sequences)]),
    ]
