"""The columns of a reader, as Spark's schema has them."""

import pyarrow as pa
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

from tms.spark.option_values import refuse
from tms.spark.rows import DEFAULT_COLUMNS, HEADERS, TYPES

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
    """Return a schema as Arrow has it. Raises `InvalidRequest` where one of its columns is none."""
    for field in schema.fields:
        if field.name not in TYPES:
            refuse("schema", f"there are the columns {', '.join(TYPES)}", field.name)
        wanted = _SPARK_TYPES[TYPES[field.name]]
        if field.dataType != wanted:
            refuse("schema", f"{field.name} is {wanted.simpleString()}", field.simpleString())
    return pa.schema(
        [pa.field(field.name, TYPES[field.name], nullable=field.nullable) for field in schema]
    )
