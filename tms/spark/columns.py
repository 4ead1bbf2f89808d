"""The columns of a reader, as Spark's schema has them."""

from collections.abc import Mapping

import pyarrow as pa
from pyspark.sql.pandas.types import from_arrow_type, to_arrow_schema
from pyspark.sql.types import (
    BinaryType,
    DataType,
    IntegerType,
    MapType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)

from tms.core.text.credentials import shortened
from tms.spark.option_values import refuse
from tms.spark.rows import DEFAULT_COLUMNS, HEADERS, TYPES

_TOPICS_CHARS = 500
_SPARK_TYPES: dict[pa.DataType, DataType] = {
    pa.string(): StringType(),
    pa.binary(): BinaryType(),
    pa.int32(): IntegerType(),
    pa.timestamp("us", tz="UTC"): TimestampType(),
    HEADERS: MapType(StringType(), BinaryType()),
}

DEFAULT_SCHEMA = StructType(
    [StructField(name, _SPARK_TYPES[TYPES[name]]) for name in DEFAULT_COLUMNS]
)


def arrow_schema(schema: StructType) -> pa.Schema:
    """Return a schema in Arrow. Raises `InvalidRequest` if it has an unknown column."""
    for field in schema.fields:
        if field.name not in TYPES:
            refuse("schema", f"there are the columns {', '.join(TYPES)}", field.name)
        expected = _SPARK_TYPES[TYPES[field.name]]
        if field.dataType != expected:
            refuse("schema", f"{field.name} is {expected.simpleString()}", field.simpleString())
    return pa.schema(
        [pa.field(field.name, TYPES[field.name], nullable=field.nullable) for field in schema]
    )


def typed_schema(columns: Mapping[str, pa.DataType]) -> StructType:
    """Return Spark's schema of typed columns."""
    return StructType(
        [StructField(name, from_arrow_type(column)) for name, column in columns.items()]
    )


def of_topics(schema: StructType, column: str, topics: str) -> StructType:
    """Return a schema with the topics in a column's comment, which DESCRIBE shows."""
    comment = {"comment": f"of {shortened(topics, _TOPICS_CHARS)}"}
    return StructType(
        [
            StructField(each.name, each.dataType, each.nullable, comment)
            if each.name == column
            else each
            for each in schema
        ]
    )


def typed_arrow_schema(schema: StructType, columns: Mapping[str, pa.DataType]) -> pa.Schema:
    """Return a schema of some typed columns in Arrow. Raises `InvalidRequest`."""
    for field in schema.fields:
        if field.name not in columns:
            refuse("schema", f"there are the columns {', '.join(columns)}", field.name)
        expected = from_arrow_type(columns[field.name]).simpleString()
        if field.dataType.simpleString() != expected:
            refuse("schema", f"{field.name} is {expected}", field.simpleString())
    return to_arrow_schema(schema, timezone="UTC")
