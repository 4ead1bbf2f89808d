"""Converts batches of rows between the server's and Spark's form.

    column             Spark      default schema
    topic              STRING     yes
    message_id         STRING     yes: 40 hexadecimal digits, whose order is that of the messages
    timestamp          TIMESTAMP  yes: when it was published, by milliseconds, UTC
    seq                INT        yes: orders what was published in one millisecond
    payload            BINARY     yes: null if the message is a tombstone
    key                BINARY     yes: null if it has none
    headers            MAP<STRING, BINARY>  yes: null if it has none
    payload_timestamp  TIMESTAMP  when it was stored, where a transaction published it as a whole
    payload_seq        INT
    value              BINARY     the payload, as Spark's Kafka calls it

A writer takes `payload` or `value` and `key`, text or bytes, `headers`, as a map or in the form of
Spark's Kafka source, and `topic`. It ignores the other columns, so rows that were read can be
written.
"""

from collections.abc import Iterator
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tms.core.errors import InvalidRequest
from tms.core.text.credentials import shortened
from tms.core.values.message import ID_BYTES

_TIME = pa.timestamp("us", tz="UTC")
HEADERS = pa.map_(pa.string(), pa.binary())
TYPES = {
    "topic": pa.string(),
    "message_id": pa.string(),
    "timestamp": _TIME,
    "seq": pa.int32(),
    "payload": pa.binary(),
    "key": pa.binary(),
    "headers": HEADERS,
    "payload_timestamp": _TIME,
    "payload_seq": pa.int32(),
    "value": pa.binary(),
}
DEFAULT_COLUMNS = ("topic", "message_id", "timestamp", "seq", "payload", "key", "headers")
PAYLOADS = ("payload", "value")

_WRITABLE = (pa.binary(), pa.string(), pa.large_binary(), pa.large_string())

STORE_ROWS_MAX = 10_000
STORE_BYTES_MAX = 8 * 1024 * 1024
"""The most bytes of one request to the server: half of its default limit."""

_SHOWN_CHARS = 60
_HEX_BYTES = 2 * ID_BYTES
_HEX = np.array([int.from_bytes(f"{byte:02x}".encode(), "little") for byte in range(256)], "<u2")
"""The two hexadecimal digits of each byte, as one number."""


def hexadecimal(ids: pa.FixedSizeBinaryArray) -> pa.StringArray:
    """Return message ids as text."""
    count = len(ids)
    raw = np.frombuffer(ids.buffers()[1], np.uint8)
    digits = _HEX[raw[ids.offset * ID_BYTES :][: count * ID_BYTES]]
    ends = np.arange(0, (count + 1) * _HEX_BYTES, _HEX_BYTES, dtype=np.int32)
    return pa.StringArray.from_buffers(count, pa.py_buffer(ends), pa.py_buffer(digits))


def spark_rows(rows: pa.RecordBatch, topic: str, schema: pa.Schema) -> pa.RecordBatch:
    """Return rows of one topic with the columns and types of `schema`."""
    columns = [spark_column(rows, topic, name) for name in schema.names]
    return pa.RecordBatch.from_arrays(columns, schema=schema)


def spark_column(rows: pa.RecordBatch, topic: str, name: str) -> pa.Array:
    """Return one of these columns."""
    match name:
        case "topic":
            return pa.repeat(pa.scalar(topic, pa.string()), rows.num_rows)
        case "message_id":
            return hexadecimal(rows.column(name))
        case "value":
            return rows.column("payload")
        case _:
            return rows.column(name).cast(TYPES[name])


def check_written(columns: list[str], topic: str | None) -> str:
    """Return which column has the payload.

    Raises `InvalidRequest` (invalid_row) if there are none or two, if no topic is named, or if a
    column is neither read nor written, because it would be lost.
    """
    payloads = [name for name in columns if name in PAYLOADS]
    if len(payloads) != 1:
        raise InvalidRequest("invalid_row", columns=columns, expected="payload, or value")
    if topic is None and "topic" not in columns:
        raise InvalidRequest(
            "invalid_row", columns=columns, expected="a column topic, or the option topic"
        )
    lost = [name for name in columns if name not in TYPES]
    if lost:
        expected = f"{', '.join(TYPES)}: drop the other columns"
        raise InvalidRequest("invalid_row", unknown_columns=lost, expected=expected)
    return payloads[0]


def by_topic(
    rows: pa.RecordBatch, payload: str, topic: str | None
) -> Iterator[tuple[str, pa.RecordBatch]]:
    """Yield the messages for each topic, in order.

    Raises `InvalidRequest` (invalid_row) for a row without a topic, and for one without a payload
    that has no key either.
    """
    for name, part in parts_of(rows, "topic", topic):
        yield name, messages_of(part, payload)


def parts_of(
    rows: pa.RecordBatch, column: str, topic: str | None
) -> Iterator[tuple[str, pa.RecordBatch]]:
    """Yield the rows for each topic in a column, in order, or all for one topic if it is given.

    Raises `InvalidRequest` (invalid_row) for a row without a topic.
    """
    if topic is not None:
        yield topic, rows
        return
    topics = rows.column(column)
    if topics.null_count:
        raise InvalidRequest(
            "invalid_row", column=column, rows_with_null=topics.null_count, expected="a topic"
        )
    names = topics.unique()
    if len(names) == 1:
        yield names[0].as_py(), rows
        return
    numbers = topics.dictionary_encode()
    for number, name in enumerate(numbers.dictionary.to_pylist()):
        rows_of_it = np.flatnonzero(numbers.indices.to_numpy() == number)
        yield name, rows.take(pa.array(rows_of_it))


def messages_of(rows: pa.RecordBatch, payload: str) -> pa.RecordBatch:
    """Return the columns of a message; of key and headers, only those in use.

    Raises `InvalidRequest` for a row with neither payload nor key (invalid_row), and, like the
    server, for invalid headers (invalid_body).
    """
    payloads = rows.column(payload)
    columns = {"payload": payloads}
    for name in ("key", "headers"):
        if name in rows.schema.names and rows.column(name).null_count < rows.num_rows:
            columns[name] = rows.column(name)
    for name in ("payload", "key"):
        if name in columns and columns[name].type not in _WRITABLE:
            kind = str(columns[name].type)
            raise InvalidRequest("invalid_row", column=name, type=kind, expected="bytes or text")
    without = payloads.null_count
    if without and "key" in columns:
        without = pc.sum(pc.and_(payloads.is_null(), columns["key"].is_null())).as_py()
    if without:
        expected = "a payload, or a key"
        raise InvalidRequest(
            "invalid_row", column=payload, rows_with_null=without, expected=expected
        )
    messages = pa.RecordBatch.from_pydict(columns)
    if "headers" in columns:
        _check_headers(messages)
    return messages


def _check_headers(messages: pa.RecordBatch) -> None:
    """Raise `InvalidRequest` (invalid_body) for the first row with invalid headers."""
    headers = messages.column("headers")
    if pa.types.is_map(headers.type):
        pair = [("key", headers.type.key_type), ("value", headers.type.item_type)]
        headers = headers.cast(pa.list_(pa.struct(pair)))
    if not pa.types.is_list(headers.type) or not pa.types.is_struct(headers.type.value_type):
        return  # The server enforces the rest.
    names, values, *_ = headers.flatten().flatten()
    lengths = pc.fill_null(pc.list_value_length(headers), 0)
    rows = np.repeat(np.arange(len(headers)), lengths.to_numpy(zero_copy_only=False))
    is_unfit = pc.or_(names.is_null(), values.is_null()).to_numpy(zero_copy_only=False)
    distinct = names.dictionary_encode()
    codes = pc.fill_null(distinct.indices, 0).to_numpy(zero_copy_only=False)
    is_again = np.ones(len(names), bool)
    is_again[np.unique(rows * (len(distinct.dictionary) + 1) + codes, return_index=True)[1]] = False
    [unfit] = np.nonzero(is_unfit | is_again)
    if len(unfit):
        row = int(rows[unfit[0]])
        shown = {
            name: shortened(repr(messages.column(name)[row].as_py()), _SHOWN_CHARS)
            for name in messages.schema.names
            if name != "headers"
        }
        reason = "a header of a row has no name or no value, or occurs twice"
        header = names[unfit[0]].as_py()
        raise InvalidRequest("invalid_body", reason=reason, header=header, row=row, **shown)


Numbers = np.ndarray[tuple[int], np.dtype[np.int64]]


def _ends(messages: pa.RecordBatch) -> Numbers:
    """Return the end of each message in bytes, if they are concatenated."""
    payloads = messages.column("payload")
    if messages.num_columns > 1:
        return np.cumsum(_sizes(messages))
    is_large = payloads.type in (pa.large_binary(), pa.large_string())
    places = np.frombuffer(payloads.buffers()[1], np.int64 if is_large else np.int32)
    own = places[payloads.offset : payloads.offset + len(payloads) + 1]
    ends: Numbers = own[1:].astype(np.int64) - int(own[0])
    return ends


def _sizes(messages: pa.RecordBatch) -> Numbers:
    """Return the approximate bytes of each message, with its key and headers."""
    sizes: Numbers = np.zeros(messages.num_rows, np.int64)
    for column in messages.columns:
        if column.type in _WRITABLE:
            lengths = pc.fill_null(pc.binary_length(column), 0)
            sizes += lengths.to_numpy(zero_copy_only=False).astype(np.int64)
        else:
            rows = (row or () for row in column.to_pylist())
            sizes += np.array([sum(map(_header_bytes, row)) for row in rows], np.int64)
    return sizes


def _header_bytes(header: Any) -> int:
    """Return the bytes of a header, a pair or a struct of name and value."""
    pair = header.values() if isinstance(header, dict) else header
    parts = (part.encode() if isinstance(part, str) else part or b"" for part in pair)
    return sum(map(len, parts))


def requests_of(messages: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
    """Yield the messages in runs, one per request; a single message may be larger."""
    if not messages.num_rows:
        return
    ends = _ends(messages)
    at = 0
    while at < messages.num_rows:
        before = int(ends[at - 1]) if at else 0
        fitting = int(np.searchsorted(ends, before + STORE_BYTES_MAX, side="right"))
        end = min(max(at + 1, fitting), at + STORE_ROWS_MAX)
        yield _with_bytes(messages.slice(at, end - at))
        at = end


def _with_bytes(messages: pa.RecordBatch) -> pa.RecordBatch:
    """Return the messages with payloads and keys as bytes with 32-bit offsets."""
    columns = {
        name: column.cast(pa.binary()) if column.type in _WRITABLE else column
        for name, column in zip(messages.schema.names, messages.columns, strict=True)
    }
    return pa.RecordBatch.from_pydict(columns)
