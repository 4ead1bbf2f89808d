"""Rows as the server has them, as Spark wants them, and back; a batch of them at a time.

    column             Spark      default schema
    topic              STRING     yes
    message_id         STRING     yes: 40 hexadecimal digits, whose order is that of the messages
    timestamp          TIMESTAMP  yes: when it was published, by milliseconds, UTC
    seq                INT        yes: orders what was published in one millisecond
    payload            BINARY     yes
    payload_timestamp  TIMESTAMP  when it was stored, where a transaction published it as a whole
    payload_seq        INT

A writer takes `payload` or `value`, text or bytes, and `topic`; the others it passes over, so that
what was read can be written.
"""

from collections.abc import Iterator

import numpy as np
import pyarrow as pa

from tms.core.errors import InvalidRequest
from tms.core.message import ID_BYTES

_TIME = pa.timestamp("us", tz="UTC")
TYPES = {
    "topic": pa.string(),
    "message_id": pa.string(),
    "timestamp": _TIME,
    "seq": pa.int32(),
    "payload": pa.binary(),
    "payload_timestamp": _TIME,
    "payload_seq": pa.int32(),
}
DEFAULT_COLUMNS = ("topic", "message_id", "timestamp", "seq", "payload")
PAYLOADS = ("payload", "value")

_WRITABLE = (pa.binary(), pa.string(), pa.large_binary(), pa.large_string())

STORE_ROWS_MAX = 10_000
STORE_BYTES_MAX = 8 * 1024 * 1024
"""What goes to the server in one request: half of what it takes by default."""

_HEX_BYTES = 2 * ID_BYTES
_HEX = np.array([int.from_bytes(f"{byte:02x}".encode(), "little") for byte in range(256)], "<u2")
"""The two digits of each byte, as one number."""


def hexadecimal(ids: pa.FixedSizeBinaryArray) -> pa.StringArray:
    """Return message ids as text."""
    count = len(ids)
    raw = np.frombuffer(ids.buffers()[1], np.uint8)
    digits = _HEX[raw[ids.offset * ID_BYTES :][: count * ID_BYTES]]
    ends = np.arange(0, (count + 1) * _HEX_BYTES, _HEX_BYTES, dtype=np.int32)
    return pa.StringArray.from_buffers(count, pa.py_buffer(ends), pa.py_buffer(digits))


def spark_rows(rows: pa.RecordBatch, topic: str, schema: pa.Schema) -> pa.RecordBatch:
    """Return rows of one topic with the columns, and of the types, that `schema` has."""

    def column(name: str) -> pa.Array:
        match name:
            case "topic":
                return pa.repeat(pa.scalar(topic, pa.string()), rows.num_rows)
            case "message_id":
                return hexadecimal(rows.column(name))
            case _:
                return rows.column(name).cast(TYPES[name])

    return pa.RecordBatch.from_arrays([column(name) for name in schema.names], schema=schema)


def check_written(columns: list[str], topic: str | None) -> str:
    """Return which column has the payload.

    Raises `InvalidRequest` (invalid_row) where there is none or two, where no topic is named, and
    where a column is neither read nor written: it would be lost.
    """
    payloads = [name for name in columns if name in PAYLOADS]
    if len(payloads) != 1:
        raise InvalidRequest("invalid_row", columns=columns, expected="payload, or value")
    if topic is None and "topic" not in columns:
        raise InvalidRequest(
            "invalid_row", columns=columns, expected="a column topic, or the option topic"
        )
    lost = [name for name in columns if name not in {*TYPES, *payloads}]
    if lost:
        raise InvalidRequest("invalid_row", unknown_columns=lost)
    return payloads[0]


def by_topic(
    rows: pa.RecordBatch, payload: str, topic: str | None
) -> Iterator[tuple[str, pa.Array]]:
    """Give the payloads, in order, of each topic that the rows are for.

    Raises `InvalidRequest` (invalid_row) for a row without a payload or a topic.
    """
    payloads = rows.column(payload)
    if payloads.type not in _WRITABLE:
        raise InvalidRequest("invalid_row", column=payload, type=str(payloads.type))
    if payloads.null_count:
        raise InvalidRequest("invalid_row", column=payload, rows_with_null=payloads.null_count)
    if topic is not None:
        yield topic, payloads
        return
    topics = rows.column("topic")
    if topics.null_count:
        raise InvalidRequest("invalid_row", column="topic", rows_with_null=topics.null_count)
    names = topics.unique()
    if len(names) == 1:
        yield names[0].as_py(), payloads
        return
    numbers = topics.dictionary_encode()
    for number, name in enumerate(numbers.dictionary.to_pylist()):
        rows_of_it = np.flatnonzero(numbers.indices.to_numpy() == number)
        yield name, payloads.take(pa.array(rows_of_it))


def _ends(payloads: pa.Array) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
    """Return where each payload ends, in bytes, if they stand one behind the other."""
    is_large = payloads.type in (pa.large_binary(), pa.large_string())
    places = np.frombuffer(payloads.buffers()[1], np.int64 if is_large else np.int32)
    own = places[payloads.offset : payloads.offset + len(payloads) + 1]
    ends: np.ndarray[tuple[int], np.dtype[np.int64]] = own[1:].astype(np.int64) - int(own[0])
    return ends


def requests_of(payloads: pa.Array) -> Iterator[pa.Array]:
    """Give the payloads in runs that one request may have each; one alone may be larger."""
    if not len(payloads):
        return
    ends = _ends(payloads)
    at = 0
    while at < len(payloads):
        before = int(ends[at - 1]) if at else 0
        fitting = int(np.searchsorted(ends, before + STORE_BYTES_MAX, side="right"))
        end = min(max(at + 1, fitting), at + STORE_ROWS_MAX)
        yield payloads.slice(at, end - at).cast(pa.binary())
        at = end
