"""Arrow columns of messages: the body of a publish or a store.

    payload or value, and key: binary or string
    headers: map<string, binary> or list<struct<string, binary>>

Other columns are ignored. A message whose payload is null is a tombstone. The name `value`, and
headers as a list of names and values, are those of Spark's Kafka. Nothing in a body is trusted: it
cannot cause a read outside it, or use much more memory than its size.
"""

import struct
from collections.abc import Iterable, Sequence
from itertools import count
from typing import Any, NamedTuple

import pyarrow as pa

from tms.core.errors import InvalidRequest
from tms.core.text.credentials import shortened
from tms.core.values.frame import bodies_of, encode_body
from tms.wire.bodies import too_many_messages

PAYLOAD, VALUE, KEY, HEADERS = "payload", "value", "key", "headers"
_BYTES_TYPES = (pa.binary(), pa.string(), pa.large_binary(), pa.large_string())
_NAME_AND_VALUE = 2
_NAME_CHARS = 100
_UINT16, _UINT32, _INT32 = struct.Struct("<H"), struct.Struct("<I"), struct.Struct("<i")


def decode_bodies(body: bytes, messages_max: int) -> list[bytes]:
    """Return the bodies of the messages in a publish or store, in order.

    Raises `InvalidRequest` (invalid_body), and `TooLarge` (too_many_messages) before more than
    `messages_max` are read.
    """
    bodies: list[bytes] = []
    try:
        messages = iter(pa.ipc.MessageReader.open_stream(pa.py_buffer(body)))
        first = next(messages)
        if first.type != "schema":
            raise _invalid("the first message is not a schema")  # Arrow would detect it itself
        schema = pa.ipc.read_schema(first)
        columns = _Columns.of(schema)
        for message in messages:
            if message.type != "record batch" or _is_compressed(bytes(message.metadata)):
                raise _invalid("batches must not be compressed or have dictionaries")
            batch = pa.ipc.read_record_batch(message, schema)
            if len(bodies) + batch.num_rows > messages_max:
                raise too_many_messages(len(bodies) + batch.num_rows, messages_max)
            bodies += bodies_of(list(columns.bodies(batch)))
    except StopIteration:
        raise _invalid("there is no schema") from None
    except (pa.ArrowException, OSError, ValueError, struct.error) as error:
        raise _invalid(str(error)) from None
    return bodies


class _Columns(NamedTuple):
    """The columns of messages."""

    payload: int
    key: int | None
    headers: int | None

    @classmethod
    def of(cls, schema: pa.Schema) -> "_Columns":
        """Find the columns. Raises `InvalidRequest` (invalid_body)."""
        payload = [*schema.get_all_field_indices(PAYLOAD), *schema.get_all_field_indices(VALUE)]
        if len(payload) != 1 or schema.field(payload[0]).type not in _BYTES_TYPES:
            raise _invalid("give one column `payload`, or `value`, of binary or string")
        key = schema.get_all_field_indices(KEY)
        if len(key) > 1 or any(schema.field(each).type not in _BYTES_TYPES for each in key):
            raise _invalid("give at most one column `key`, of binary or string")
        headers = schema.get_all_field_indices(HEADERS)
        if len(headers) > 1 or any(
            not _are_headers(schema.field(header).type) for header in headers
        ):
            raise _invalid("give at most one column `headers`, a map of string to binary")
        return cls(payload[0], key[0] if key else None, headers[0] if headers else None)

    def bodies(self, batch: pa.RecordBatch) -> Iterable[tuple[bytes, bool]]:
        """Return the bodies of a batch, each with whether it is framed."""
        payloads = _bytes_of(batch.column(self.payload))
        if self.key is None and self.headers is None:
            if not batch.column(self.payload).null_count:
                return ((payload or b"", False) for payload in payloads)
            return map(encode_body, payloads)
        nothing = [None] * batch.num_rows
        keys = nothing if self.key is None else _bytes_of(batch.column(self.key))
        headers = nothing if self.headers is None else _headers_of(batch.column(self.headers))
        return map(_body, count(), payloads, keys, headers)


def _body(
    number: int, payload: bytes | None, key: bytes | None, headers: Sequence[Any] | None
) -> tuple[bytes, bool]:
    if not headers:
        return encode_body(payload, key)
    named: dict[str, bytes] = {}
    for header in headers:
        name, value = header.values() if isinstance(header, dict) else header
        if name is None or value is None or name in named:
            raise _invalid(
                f"a header of message {number} of its batch has no name or no value, or occurs "
                f"twice: {shortened(str(name), _NAME_CHARS)}"
            )
        named[name] = value.encode() if isinstance(value, str) else value
    return encode_body(payload, key, named)


def _are_headers(kind: pa.DataType) -> bool:
    if pa.types.is_map(kind):
        name, value = kind.key_type, kind.item_type
    elif pa.types.is_list(kind) and pa.types.is_struct(kind.value_type):
        if kind.value_type.num_fields != _NAME_AND_VALUE:
            return False
        name, value = (kind.value_type.field(index).type for index in range(_NAME_AND_VALUE))
    else:
        return False
    return name in (pa.string(), pa.large_string()) and value in _BYTES_TYPES


def _headers_of(column: pa.Array) -> list[Any]:
    column.validate(full=True)
    values: list[Any] = column.to_pylist()
    return values


def _bytes_of(column: pa.Array) -> list[bytes | None]:
    column.validate(full=True)
    if column.type in (pa.string(), pa.large_string()):
        column = column.cast(pa.large_binary())
    values: list[bytes | None] = column.to_pylist()
    return values


def _is_compressed(metadata: bytes) -> bool:
    """Whether the message of a record batch says that its buffers are compressed.

    A few bytes could unpack to more than the memory. Arrow's library does not report it, so this
    reads the flatbuffer: field 3 of the table that is field 2 of the message.
    """
    [root] = _UINT32.unpack_from(metadata)
    header = _field(metadata, root, 2)
    if header is None:
        return False
    [offset] = _UINT32.unpack_from(metadata, header)
    return _field(metadata, header + offset, 3) is not None


def _field(metadata: bytes, table: int, number: int) -> int | None:
    """Return where a field of a flatbuffer's table is, None if it is absent."""
    [back] = _INT32.unpack_from(metadata, table)
    entry = 4 + 2 * number
    if entry >= _UINT16.unpack_from(metadata, table - back)[0]:
        return None
    [offset] = _UINT16.unpack_from(metadata, table - back + entry)
    return table + offset if offset else None


def _invalid(reason: str) -> InvalidRequest:
    return InvalidRequest("invalid_body", format="arrow", reason=reason)
