"""Messages as Arrow's columns: a poll's answer, and what is published or stored in bulk.

Needs the extra `arrow` (pyarrow and numpy); nothing else of TMS imports this module unasked.

    poll    := message_id fixed_size_binary(20), timestamp timestamp(ms, UTC), seq int32,
               payload binary, payload_timestamp timestamp(ms, UTC), payload_seq int32
    publish := payload, binary or string, no nulls; other columns are not looked at

`timestamp` and `seq` are when and as which one a message was published, as its id has them; the
last two are null unless it was stored before, in a transaction. A poll's answer is a stream of
Arrow's (IPC): the schema, record batches, and an end, without which it is cut off.

Columns are made of a whole block at once: where all its messages have one length, as strides over
its bytes, otherwise by the places of the payloads. They are put together from buffers: to be given
arrays of numpy's, pyarrow would load pandas, which takes half a second.
"""

import struct
from collections.abc import Iterable

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from tms.core.errors import InvalidRequest
from tms.core.message import ID_BYTES, KEY_BYTES, MORE_FOLLOWS, MessageBlock
from tms.wire.caps import messages_cap
from tms.wire.media_types import ARROW_TYPE

BATCH_MESSAGES_MAX = 10_000
"""Messages in one record batch at most."""

_TIME = pa.timestamp("ms", tz="UTC")
SCHEMA = pa.schema(
    [
        pa.field("message_id", pa.binary(ID_BYTES), nullable=False),
        pa.field("timestamp", _TIME, nullable=False),
        pa.field("seq", pa.int32(), nullable=False),
        pa.field("payload", pa.binary(), nullable=False),
        pa.field("payload_timestamp", _TIME),
        pa.field("payload_seq", pa.int32()),
    ]
)
PAYLOAD = "payload"
_PAYLOAD_TYPES = (pa.binary(), pa.string(), pa.large_binary(), pa.large_string())
_UINT16, _UINT32, _INT32 = struct.Struct("<H"), struct.Struct("<I"), struct.Struct("<i")

_SCHEMA_MESSAGE = SCHEMA.serialize().to_pybytes()
_END = b"\xff\xff\xff\xff\x00\x00\x00\x00"
"""What ends a stream of Arrow's: the mark of a message, and the length 0."""

Bytes = npt.NDArray[np.uint8]
Numbers = npt.NDArray[np.int64]


class ArrowFormat:
    """A poll's answer as Arrow (`tms.wire.bodies.MessagesFormat`)."""

    content_type = ARROW_TYPE
    joined_messages = BATCH_MESSAGES_MAX

    def encode_block(self, block: MessageBlock, *, first: bool) -> bytes:
        """Return a record batch, behind the schema where it is the first."""
        batch = record_batch(block).serialize().to_pybytes()
        return _SCHEMA_MESSAGE + batch if first else bytes(batch)

    def encode_end(self, *, first: bool) -> bytes:
        """Return the end of the stream, behind the schema where there was no batch."""
        return _SCHEMA_MESSAGE + _END if first else _END


ARROW = ArrowFormat()


def record_batch(block: MessageBlock) -> pa.RecordBatch:
    """Return the messages of a block as columns of `SCHEMA`."""
    items = np.frombuffer(block.items, np.uint8)
    uniform = _uniform(items, block.count)
    if uniform is None:
        ids, payloads = _by_places(items, block)
    else:
        ids = np.ascontiguousarray(uniform[:, 1 : 1 + ID_BYTES])
        payloads = _of_one_length(uniform)
    columns = [
        pa.Array.from_buffers(pa.binary(ID_BYTES), block.count, [None, pa.py_buffer(ids)]),
        *_key_columns(ids[:, :KEY_BYTES], None),
        payloads,
        *_key_columns(ids[:, KEY_BYTES:], np.any(ids[:, KEY_BYTES:], axis=1)),
    ]
    return pa.RecordBatch.from_arrays(columns, schema=SCHEMA)


def _uniform(items: Bytes, count: int) -> Bytes | None:
    """Return the items as rows of one length, or None where they are not all of one length.

    Where each row begins as the first does, up to its id and in the length of its payload, then
    each is an item: that follows from one row to the next.
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
    """Return the ids and the payloads of items of any lengths."""
    starts, ends = block.payload_spans()
    item_starts = np.array([0, *ends[:-1]], np.int64)[: block.count]
    ids = items[item_starts[:, np.newaxis] + np.arange(1, 1 + ID_BYTES)]
    offsets = np.zeros(block.count + 1, np.int32)
    np.cumsum(np.array(ends) - np.array(starts), out=offsets[1:])
    payloads = [block.items[start:end] for start, end in zip(starts, ends, strict=True)]
    return ids, _binary(offsets, b"".join(payloads))


def _key_columns(keys: Bytes, given: npt.NDArray[np.bool_] | None) -> list[pa.Array]:
    """Return the times and the sequence ids of keys of ten bytes, null where not `given`."""
    if given is not None and not given.any():
        return [pa.nulls(len(keys), _TIME), pa.nulls(len(keys), pa.int32())]
    valid = None if given is None else pa.py_buffer(np.packbits(given, bitorder="little"))
    times = np.ascontiguousarray(keys[:, :8]).view(">i8").ravel().astype(np.int64)
    sequences = np.ascontiguousarray(keys[:, 8:]).view(">u2").ravel().astype(np.int32)
    return [
        pa.Array.from_buffers(_TIME, len(keys), [valid, pa.py_buffer(times)]),
        pa.Array.from_buffers(pa.int32(), len(keys), [valid, pa.py_buffer(sequences)]),
    ]


def encode_batches(batches: Iterable[pa.RecordBatch]) -> bytes:
    """Return the body of a publish or store, of record batches that have a column of payloads.

    At least one batch.
    """
    sink = pa.BufferOutputStream()
    writer = None
    for batch in batches:
        writer = writer or pa.ipc.new_stream(sink, batch.schema)
        writer.write_batch(batch)
    assert writer is not None
    writer.close()
    return bytes(sink.getvalue())


def decode_payloads(body: bytes, messages_max: int) -> list[bytes]:
    """Return the payloads that the body of a publish or store has, in order.

    Raises `InvalidRequest` (invalid_body), and `TooLarge` (too_many_messages) before more than
    `messages_max` are taken in. Nothing in the body is trusted: it cannot make us read beside it,
    or hold much more than its own size.
    """
    payloads: list[bytes] = []
    try:
        messages = iter(pa.ipc.MessageReader.open_stream(pa.py_buffer(body)))
        schema = pa.ipc.read_schema(next(messages))
        index = _payload_column(schema)
        for message in messages:
            if message.type != "record batch" or _is_compressed(bytes(message.metadata)):
                raise _invalid("batches are neither compressed nor of dictionaries")
            batch = pa.ipc.read_record_batch(message, schema)
            count = len(payloads) + batch.num_rows
            messages_cap(messages_max).check(count)
            payloads += _payloads_of(batch.column(index))
    except StopIteration:
        raise _invalid("there is no schema") from None
    except (pa.ArrowException, OSError, ValueError, struct.error) as error:
        raise _invalid(str(error)) from None
    return payloads


def _payload_column(schema: pa.Schema) -> int:
    found = schema.get_all_field_indices(PAYLOAD)
    if len(found) != 1 or schema.field(found[0]).type not in _PAYLOAD_TYPES:
        raise _invalid("one column `payload` of binary or string is wanted")
    return int(found[0])


def _payloads_of(column: pa.Array) -> list[bytes]:
    column.validate(full=True)
    if column.null_count:
        raise _invalid("a payload is null")
    if column.type in (pa.string(), pa.large_string()):
        column = column.cast(pa.large_binary())
    payloads: list[bytes] = column.to_pylist()
    return payloads


def _is_compressed(metadata: bytes) -> bool:
    """Whether the message of a record batch says that its buffers are compressed.

    A few bytes could be unpacked to more than there is memory. Arrow's library does not tell, so
    this looks into the flatbuffer: the field 3 of the table that is the field 2 of the message.
    """
    [root] = _UINT32.unpack_from(metadata)
    header = _field(metadata, root, 2)
    if header is None:
        return False
    [offset] = _UINT32.unpack_from(metadata, header)
    return _field(metadata, header + offset, 3) is not None


def _field(metadata: bytes, table: int, number: int) -> int | None:
    """Return where a field of a table in a flatbuffer is, None where it is not given."""
    [back] = _INT32.unpack_from(metadata, table)
    entry = 4 + 2 * number
    if entry >= _UINT16.unpack_from(metadata, table - back)[0]:
        return None
    [offset] = _UINT16.unpack_from(metadata, table - back + entry)
    return table + offset if offset else None


def _invalid(reason: str) -> InvalidRequest:
    return InvalidRequest("invalid_body", format="arrow", reason=reason)
