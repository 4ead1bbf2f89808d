"""Converts typed rows to messages: a writer's checks, and its tasks.

Columns that do not begin with `_` are fields. `_topic`, `_key`, `_headers` and `_is_tombstone` are
the message's. A reader's other columns are ignored, so rows that were read can be written, except
those of damaged rows, which are refused because they would be lost silently.
"""

from collections.abc import Collection, Iterator, Sequence

import pyarrow as pa
import pyarrow.compute as pc

from tms.core.errors import InvalidRequest, PayloadRefused
from tms.core.text.credentials import shortened
from tms.serdes.serde import Unencodable, UnusableSchema
from tms.spark.rows import messages_of, parts_of
from tms.spark.typed.encoding import RowEncoder
from tms.spark.typed.forms import form_of
from tms.spark.typed.names import (
    HEADERS,
    IS_TOMBSTONE,
    KEY,
    OF_DAMAGED,
    OWN_TYPES,
    TOPIC,
    field_of,
)
from tms.spark.typed.registered import KnownSchema, RegisteredSchemas
from tms.spark.typed.schema import written_schema

_FRAME = {"key": KEY, "headers": HEADERS}
_INVALID = "invalid_row"
_FIELDS_CHARS = 500


def check_typed(columns: Sequence[str], topic: str | None, schema: KnownSchema | None) -> None:
    """Raise `InvalidRequest` (invalid_row) for columns that cannot be written.

    The schema's columns are checked if it is already `known`.
    """
    if topic is None and TOPIC not in columns:
        expected = f"a column {TOPIC}, or the option topic"
        raise InvalidRequest(_INVALID, columns=list(columns), expected=expected)
    own = [name for name in columns if field_of(name) is None]
    lost = [name for name in own if name not in OWN_TYPES or name in OF_DAMAGED]
    fields: Collection[str] = ()
    if schema is not None:
        try:
            fields = form_of(schema.source).types
        except UnusableSchema as error:
            raise PayloadRefused("schema_unusable", topic=topic, reason=str(error)) from None
        lost += [name for name in columns if name not in own and name not in fields]
    if lost:
        expected = _expected(fields)
        raise InvalidRequest(_INVALID, unknown_columns=lost, expected=expected)


def _expected(fields: Collection[str]) -> str:
    there = ", ".join(name for name in OWN_TYPES if name not in OF_DAMAGED)
    of_schema = f" ({shortened(', '.join(fields), _FIELDS_CHARS)})" if fields else ""
    return f"fields of the schema{of_schema}, and {there}: drop the others, or change the schema"


class TypedMessages:
    """Creates messages from rows, for one task."""

    def __init__(
        self,
        schemas: RegisteredSchemas,
        topic: str | None,
        choice: str | int,
        message: str,
        schema: KnownSchema | None,
    ) -> None:
        """Encode by the known schema, or by the chosen one for each topic."""
        self._schemas = schemas
        self._topic = topic
        self._choice = choice
        self._message = message
        self._known = schema
        self._encoders: dict[str, RowEncoder] = {}

    def by_topic(self, rows: pa.RecordBatch) -> Iterator[tuple[str, pa.RecordBatch]]:
        """Yield the messages for each topic, in order.

        Raises `InvalidRequest` (invalid_row) and `PayloadRefused`, which names the field.
        """
        for topic, part in parts_of(rows, TOPIC, self._topic):
            columns = {"payload": self._payloads(topic, part)}
            for name, own in _FRAME.items():
                if own in part.schema.names:
                    columns[name] = part.column(own)
            yield topic, messages_of(pa.RecordBatch.from_pydict(columns), "payload")

    def _payloads(self, topic: str, rows: pa.RecordBatch) -> pa.Array:
        is_there = None
        if IS_TOMBSTONE in rows.schema.names:
            is_there = pc.invert(pc.fill_null(rows.column(IS_TOMBSTONE), fill_value=False))
            whole, rows = rows, rows.filter(is_there)
        fields = {name: rows.column(name) for name in rows.schema.names if field_of(name)}
        try:
            payloads = self._encoder(topic).payloads(fields, rows.num_rows)
        except Unencodable as error:
            raise unfit(topic, error) from None
        if is_there is None or rows.num_rows == whole.num_rows:
            return pa.array(payloads, pa.large_binary())
        remaining = iter(payloads)
        padded = [next(remaining) if each else None for each in is_there.to_pylist()]
        return pa.array(padded, pa.large_binary())

    def _encoder(self, topic: str) -> RowEncoder:
        cached = self._encoders.get(topic)
        if cached is None:
            schema = self._known or written_schema(
                self._schemas, topic, self._choice, self._message
            )
            try:
                cached = RowEncoder(schema)
            except UnusableSchema as error:
                raise PayloadRefused("schema_unusable", topic=topic, reason=str(error)) from None
            self._encoders[topic] = cached
        return cached


def unfit(topic: str, error: Unencodable) -> PayloadRefused:
    """Return the error for a row that does not fit."""
    named = {"field": error.field} if error.field else {}
    return PayloadRefused("value_unfit", topic=topic, **named, reason=error.reason)
