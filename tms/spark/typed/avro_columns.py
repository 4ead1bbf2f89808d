"""Avro's types as columns; values are those of a raw schema (`avro_schema`).

    null or T                          T, because every column may be NULL
    boolean, int, long, float, double  BOOLEAN, INT, BIGINT, FLOAT, DOUBLE
    string, enum; bytes, fixed         STRING; BINARY
    array, map, record                 ARRAY, MAP, STRUCT
    date; decimal up to 38 digits      DATE; DECIMAL
    timestamp-millis, -micros          TIMESTAMP; TIMESTAMP_NTZ of local ones
    int or long; float or double       BIGINT; DOUBLE
    other unions, null alone, types within themselves, records without fields
                                       STRING of Avro's JSON encoding

Logical types that Spark lacks are ignored.
"""

from collections.abc import Sequence
from typing import Any

import pyarrow as pa

from tms.core.values.schema_types import AVRO
from tms.serdes.avro_serde import AvroSerde
from tms.serdes.serde import SchemaSource
from tms.spark.typed.avro_types import AvroTypes
from tms.spark.typed.columns import (
    ColumnForm,
    DecimalColumn,
    JsonColumn,
    ListColumn,
    MapColumn,
    NullableColumn,
    NumberedColumn,
    PlainColumn,
    StructColumn,
)

_DIGITS_MAX = 38
_PLAIN = {
    "boolean": pa.bool_(),
    "int": pa.int32(),
    "long": pa.int64(),
    "float": pa.float32(),
    "double": pa.float64(),
    "bytes": pa.binary(),
    "string": pa.string(),
    "fixed": pa.binary(),
    "enum": pa.string(),
}
_TIME = pa.timestamp("us", tz="UTC")
_LOCAL = pa.timestamp("us")
_NUMBERED = {
    ("int", "date"): (pa.date32(), 1),
    ("long", "timestamp-millis"): (_TIME, 1000),
    ("long", "timestamp-micros"): (_TIME, 1),
    ("long", "local-timestamp-millis"): (_LOCAL, 1000),
    ("long", "local-timestamp-micros"): (_LOCAL, 1),
}
_WIDER = {frozenset({"int", "long"}): "long", frozenset({"float", "double"}): "double"}


def avro_form(schema: AvroTypes) -> ColumnForm:
    """Return the form of a schema's values in a column; for a record, a `StructColumn`.

    A record that may be null is one column, because columns of its fields could not distinguish a
    null record from null fields.
    """
    if isinstance(schema.top, list):
        return NullableColumn(_form(schema, schema.top, ("",)))
    return _form(schema, schema.top, ())


def _form(schema: AvroTypes, part: Any, within: tuple[str, ...]) -> ColumnForm:
    if isinstance(part, list):
        return _union(schema, part, within)
    if isinstance(part, str):
        if part in within:
            return _json(schema, part)
        within = (*within, part)
    described = schema.described(part)
    form: ColumnForm
    match described["type"]:
        case "array":
            form = ListColumn(_form(schema, described["items"], within))
        case "map":
            form = MapColumn(_form(schema, described["values"], within))
        case "record" | "error":
            form = _record(schema, part, described["fields"], within)
        case "null":
            form = _json(schema, part)
        case kind:
            form = _logical(described, kind) or PlainColumn(_PLAIN[kind])
    return form


def _record(
    schema: AvroTypes, part: Any, fields: Sequence[Any], within: tuple[str, ...]
) -> ColumnForm:
    if not fields and len(within) > 1:
        return _json(schema, part)
    return StructColumn({field["name"]: _form(schema, field["type"], within) for field in fields})


def _union(schema: AvroTypes, branches: list[Any], within: tuple[str, ...]) -> ColumnForm:
    others = [branch for branch in branches if schema.described(branch)["type"] != "null"]
    if len(others) == 1:
        return _form(schema, others[0], within)
    plain = [other for other in others if isinstance(other, dict) and "logicalType" not in other]
    if len(plain) == len(others):
        wider = _WIDER.get(frozenset(each["type"] for each in plain))
        if wider is not None:
            return PlainColumn(_PLAIN[wider])
    return _json(schema, branches)


def _logical(described: Any, kind: str) -> ColumnForm | None:
    """Return the form of a logical type in a column, None if it is ignored."""
    logical = described.get("logicalType")
    if logical == "decimal" and kind in ("bytes", "fixed"):
        precision, scale = described.get("precision"), described.get("scale", 0)
        if not (isinstance(precision, int) and isinstance(scale, int)):
            return None
        if not (0 < precision <= _DIGITS_MAX and 0 <= scale <= precision):
            return None
        return DecimalColumn(precision, scale, described.get("size"))
    converter = _NUMBERED.get((kind, logical))
    return None if converter is None else NumberedColumn(*converter)


def _json(schema: AvroTypes, part: Any) -> JsonColumn:
    serde = AvroSerde(SchemaSource(AVRO, schema.raw_text(part)))
    return JsonColumn(serde.to_json, serde.from_json)
