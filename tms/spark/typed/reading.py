"""Converts rows of topics to typed rows, in the tasks of a reader.

Guarantees that each message becomes a row with its value, or a tombstone. A damaged one fails the
query with its topic, message id and reason, or becomes a row with them.
"""

import pyarrow as pa
import pyarrow.compute as pc

from tms.core.errors import PayloadUndecodable, SchemaRefused
from tms.core.values.topic_schemas import TopicSchemas
from tms.serdes.serde import SchemaSource, Undecodable
from tms.spark.rows import hexadecimal, spark_column
from tms.spark.typed.decoding import Decoded, PayloadDecoder
from tms.spark.typed.names import AS_RAW, ERROR, IS_TOMBSTONE, OF_DAMAGED, SCHEMA_ID
from tms.spark.typed.registered import RegisteredSchemas, context_of
from tms.spark.typed.schema import ReaderSchema

_NO_SUCH_ID = 40403


class TypedRows:
    """Creates typed rows, for one task."""

    def __init__(self, schemas: RegisteredSchemas, reader: ReaderSchema, schema: pa.Schema) -> None:
        """Use the columns and types of `schema`."""
        self._schemas = schemas
        self._reader = reader
        self._schema = schema
        self._topics: dict[str, TopicSchemas] = {}
        self._decoders: dict[str, PayloadDecoder] = {}
        """By the context of schema ids."""

    def rows(self, rows: pa.RecordBatch, topic: str) -> pa.RecordBatch:
        """Return rows of one topic. Raises `PayloadUndecodable`."""
        decoded = self._decoder(topic).decode(rows.column("payload").to_pylist())
        if not self._reader.gives_damaged:
            self._refuse_damaged(rows, topic, decoded)
        columns = [
            _as_type(self._column(rows, topic, decoded, field.name), field.type)
            for field in self._schema
        ]
        return pa.RecordBatch.from_arrays(columns, schema=self._schema)

    def _refuse_damaged(self, rows: pa.RecordBatch, topic: str, decoded: Decoded) -> None:
        for row, error in enumerate(decoded.errors):
            if error is not None:
                message_id = hexadecimal(rows.column("message_id"))[row].as_py()
                where = str(self._topics[topic].topic_id)
                raise PayloadUndecodable(topic=where, id=message_id, reason=error)

    def _column(self, rows: pa.RecordBatch, topic: str, decoded: Decoded, name: str) -> pa.Array:
        if name in AS_RAW:
            return spark_column(rows, topic, AS_RAW[name])
        if name == IS_TOMBSTONE:
            return rows.column("payload").is_null()
        if name == SCHEMA_ID:
            return pa.array(decoded.schema_ids, pa.int64())
        if name in OF_DAMAGED:
            return damaged_column(name, rows.column("payload"), decoded)
        return decoded.columns[name]

    def _decoder(self, topic: str) -> PayloadDecoder:
        cached = self._topics.get(topic)
        if cached is None:
            cached = self._topics[topic] = self._schemas.topic(topic)
        subject = cached.subject or ""
        context = context_of(subject)
        if context not in self._decoders:
            self._decoders[context] = payload_decoder(
                self._schemas, self._reader.source, subject, self._schema.names
            )
        return self._decoders[context]


def payload_decoder(
    schemas: RegisteredSchemas, source: SchemaSource, subject: str, columns: list[str] | None
) -> PayloadDecoder:
    """Return a decoder by a schema that reads writers' schemas from the registry."""

    def find(schema_id: int) -> SchemaSource:
        try:
            return schemas.of_id(schema_id, subject).source
        except SchemaRefused as refused:
            if refused.detail.get("error_code") != _NO_SUCH_ID:
                raise
            raise Undecodable(str(refused.detail.get("reason"))) from None

    return PayloadDecoder(source, find, columns)


def damaged_column(name: str, payloads: pa.Array, decoded: Decoded) -> pa.Array:
    """Return the column of errors, or of the payloads with errors."""
    if name == ERROR:
        return pa.array(decoded.errors, pa.string())
    is_damaged = pa.array([error is not None for error in decoded.errors], pa.bool_())
    return pc.if_else(is_damaged, payloads, pa.scalar(None, payloads.type))


def _as_type(column: pa.Array, target: pa.DataType) -> pa.Array:
    return column if column.type == target else column.cast(target)
