"""The names of columns: those of fields, and the message's own. Pure.

Columns that begin with one `_` are the message's own: `_topic`, `_key`. All others are fields, by
name; a field whose name begins with `_` gets one more `_`. So no field is mistaken for another
column, and rows that were read can be written. A value that is not a record is the column `value`.
"""

import pyarrow as pa

from tms.spark.rows import TYPES

VALUE = "value"
"""The column of a value that is not a record."""
IS_TOMBSTONE = "_is_tombstone"
SCHEMA_ID = "_schema_id"
PAYLOAD = "_payload"
ERROR = "_error"
TOPIC, MESSAGE_ID, KEY, HEADERS = "_topic", "_message_id", "_key", "_headers"

_AS_RAW = ("topic", "message_id", "timestamp", "seq", "key", "headers")
_ALSO_RAW = ("payload_timestamp", "payload_seq")
OWN_TYPES: dict[str, pa.DataType] = {
    **{f"_{name}": TYPES[name] for name in (*_AS_RAW, *_ALSO_RAW)},
    IS_TOMBSTONE: pa.bool_(),
    SCHEMA_ID: pa.int64(),
    PAYLOAD: pa.binary(),
    ERROR: pa.string(),
}
"""The message's own columns."""
AS_RAW = {f"_{name}": name for name in (*_AS_RAW, *_ALSO_RAW)}
"""The names of some of them in untyped rows."""
DEFAULT_OWN = (*(f"_{name}" for name in _AS_RAW), IS_TOMBSTONE, SCHEMA_ID)
OF_DAMAGED = (PAYLOAD, ERROR)
"""The additional ones if damaged rows are kept."""


def column_of(field: str) -> str:
    """Return the column of a field."""
    return f"_{field}" if field.startswith("_") else field


def field_of(column: str) -> str | None:
    """Return the field of a column, None if it is the message's own."""
    if not column.startswith("_"):
        return column
    return column[1:] if column.startswith("__") else None
