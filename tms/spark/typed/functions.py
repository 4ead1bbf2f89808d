"""Converts payloads in any column to values, and back: `from_tms` and `to_tms`.

For DataFrames, also of streams, that were not read from topics with the option `schema`. The call
reads the schema from the registry and sends it to the tasks, which work like those of a reader and
a writer (`decoding.py`, `encoding.py`).
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
from pyspark.sql import Column
from pyspark.sql import functions as f
from pyspark.sql.pandas.functions import arrow_udf
from pyspark.sql.pandas.types import to_arrow_type
from pyspark.sql.types import BinaryType, DataType

from tms.core.errors import PayloadUndecodable
from tms.serdes.serde import Unencodable
from tms.spark.columns import typed_schema
from tms.spark.option_types import ServerOptions
from tms.spark.options import batch_write, check_message, chosen_damaged, chosen_schema
from tms.spark.server import SparkServer
from tms.spark.typed.decoding import Decoded
from tms.spark.typed.encoding import RowEncoder
from tms.spark.typed.names import OF_DAMAGED, OWN_TYPES, VALUE
from tms.spark.typed.reading import damaged_column, payload_decoder
from tms.spark.typed.registered import KnownSchema
from tms.spark.typed.schema import ReaderSchema, reader_schema, written_schema
from tms.spark.typed.writing import unfit

Arrays = Iterator[pa.Array]


def from_tms(
    column: str | Column,
    *,
    url: str,
    topic: str,
    schema: str | int = "latest",
    message: str = "",
    damaged: str = "raise",
    **options: str,
) -> Column:
    """Return a column's payloads as structs of their fields; NULL stays NULL.

    The schemas are those of the registry at `url`, and `schema` is as in `format("tms")`: "latest"
    of the topic's subject, an id, or Avro's text; `message` is the full name of a message in a
    Protobuf file, by default the first. With `damaged="give"` a struct also has `_payload` and
    `_error`. The `options` are those of the connection (`namespace`). Raises `InvalidRequest`.
    """
    connection = batch_write({"url": url, **options}).connection
    gives = chosen_damaged("damaged", damaged)
    choice = chosen_schema("schema", str(schema))
    check_message(message, choice)
    with SparkServer(connection) as server:
        reader = reader_schema(
            server.schemas, [topic], choice, gives_damaged=gives, message=message
        )
        subject = server.schemas.topic(topic).subject or ""
    selected = {
        name: column
        for name, column in reader.columns().items()
        if name not in OWN_TYPES or name in OF_DAMAGED
    }
    struct = typed_schema(selected)
    arrow = to_arrow_type(struct, timezone="UTC")
    work = _Decoding(connection, reader, subject, arrow)
    return _applied(work, struct, column)


def to_tms(
    *columns: str | Column,
    url: str,
    topic: str,
    schema: str | int = "latest",
    message: str = "",
    **options: str,
) -> Column:
    """Return payloads of columns, each a field by its name, or of one column of structs.

    Schema and message are as in `from_tms`; a text is registered under the topic's subject. A row
    that does not fit is an error that names its field. A struct that is NULL stays NULL.
    """
    connection = batch_write({"url": url, **options}).connection
    choice = chosen_schema("schema", str(schema))
    check_message(message, choice)
    with SparkServer(connection) as server:
        topic_schema = written_schema(server.schemas, topic, choice, message)
    work = _Encoding(topic_schema, topic)
    value = columns[0] if len(columns) == 1 else f.struct(*columns)
    return _applied(work, BinaryType(), value)


def _applied(work: Callable[[Arrays], Arrays], to: DataType, column: str | Column) -> Column:
    """Return a column with the results of `work` on another one."""

    # The annotations tell Spark that it takes many arrays, one after another.
    def arrays(batches: Iterator[pa.Array]) -> Iterator[pa.Array]:
        return work(batches)

    as_udf: Any = arrow_udf
    made: Column = as_udf(arrays, to)(column)
    return made


@dataclass(frozen=True)
class _Decoding:
    """`from_tms` in a task; it requests each writer's schema once."""

    connection: ServerOptions
    reader: ReaderSchema
    subject: str
    struct: pa.StructType

    def __call__(self, arrays: Arrays) -> Arrays:
        names = [field.name for field in self.struct]
        with SparkServer(self.connection) as server:
            decoder = payload_decoder(server.schemas, self.reader.source, self.subject, names)
            for payloads in arrays:
                decoded = decoder.decode(payloads.to_pylist())
                if not self.reader.gives_damaged:
                    self._refuse_damaged(decoded)
                columns = [self._column(field, payloads, decoded) for field in self.struct]
                yield pa.StructArray.from_arrays(
                    columns, fields=list(self.struct), mask=payloads.is_null()
                )

    def _refuse_damaged(self, decoded: Decoded) -> None:
        for row, error in enumerate(decoded.errors):
            if error is not None:
                raise PayloadUndecodable(row=row, reason=error)

    def _column(self, field: pa.Field, payloads: pa.Array, decoded: Decoded) -> pa.Array:
        if field.name in decoded.columns:
            return decoded.columns[field.name].cast(field.type)
        return damaged_column(field.name, payloads, decoded).cast(field.type)


@dataclass(frozen=True)
class _Encoding:
    """`to_tms` in a task."""

    schema: KnownSchema
    topic: str

    def __call__(self, arrays: Arrays) -> Arrays:
        encoder = RowEncoder(self.schema)
        for rows in arrays:
            there = rows.filter(rows.is_valid())
            is_struct = pa.types.is_struct(rows.type)
            parts = there.flatten() if is_struct else [there]
            names = [field.name for field in rows.type] if is_struct else [VALUE]
            try:
                made = encoder.payloads(dict(zip(names, parts, strict=True)), len(there))
            except Unencodable as error:
                raise unfit(self.topic, error) from None
            payloads = iter(made)
            yield pa.array(
                [next(payloads) if each else None for each in rows.is_valid().to_pylist()],
                pa.binary(),
            )
