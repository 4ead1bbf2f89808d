"""The columns of whole values of a schema: a record's fields, or the one column `value`.

Each type of schema has a row in `_COLUMNS`. Guarantees that columns return their values, and that a
schema whose values cannot be columns raises `UnusableSchema`.
"""

from collections.abc import Callable, Collection, Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple

import pyarrow as pa

from tms.core.values.schema_types import AVRO, JSON, PROTOBUF
from tms.serdes.compiling import compiled
from tms.serdes.proto_serde import ProtoSerde
from tms.serdes.serde import SchemaSource, Undecodable, Unencodable, UnusableSchema
from tms.serdes.wire_format import START_BYTES
from tms.spark.typed.avro_columns import avro_form
from tms.spark.typed.avro_version import AvroReading, avro_types, without_logical_types
from tms.spark.typed.columns import ColumnForm, StructColumn, named_unfit
from tms.spark.typed.json_columns import json_form
from tms.spark.typed.names import VALUE, column_of, field_of
from tms.spark.typed.proto_columns import proto_form


class ValueForm:
    """The columns of one schema's values."""

    def __init__(self, form: ColumnForm) -> None:
        """Use the fields of a record, or one column."""
        self._record = form if isinstance(form, StructColumn) else None
        self._forms = form.fields if isinstance(form, StructColumn) else {VALUE: form}
        self.types = {self._column(name): form.arrow for name, form in self._forms.items()}
        """By column name."""

    def _column(self, field: str) -> str:
        return field if self._record is None else column_of(field)

    def columns(self, values: Sequence[Any], names: Collection[str]) -> dict[str, pa.Array]:
        """Return the requested columns of values; all are null for None.

        Raises `Undecodable`, which names the field.
        """
        made = {}
        for name, form in self._forms.items():
            column = self._column(name)
            if column in names:
                with named_unfit(name, Undecodable):
                    record = self._record
                    part = values if record is None else record.of_field(values, name)
                    made[column] = form.column(part)
        return made

    def values(self, columns: Mapping[str, pa.Array], count: int) -> list[Any]:
        """Return `count` values from their columns. Raises `Unencodable`."""
        if self._record is not None:
            fields = {field_of(name) or name: column for name, column in columns.items()}
            return self._record.values_of(fields, count)
        if set(columns) != {VALUE}:
            raise Unencodable(f"its values are not records: give the one column {VALUE}")
        with named_unfit(VALUE, Unencodable):
            return self._forms[VALUE].values(columns[VALUE])


ReaderOf = Callable[[SchemaSource], Callable[[bytes], Any]]
"""Returns a decoder of a version's payloads, with values by the reader's schema.

Raises `UnusableSchema` and `Undecodable`; the decoder raises `Undecodable`.
"""


def _as_written(_: SchemaSource, __: frozenset[str]) -> ReaderOf:
    return lambda writer: partial(compiled(writer).decode, at=START_BYTES)


def _by_numbers(source: SchemaSource, _: frozenset[str]) -> ReaderOf:
    return lambda writer: partial(
        ProtoSerde(writer).read_as(ProtoSerde(source)).decode, at=START_BYTES
    )


class TypeColumns(NamedTuple):
    """The columns of one type of schema. Each function may raise `UnusableSchema`."""

    form: Callable[[SchemaSource], ColumnForm]
    reading: Callable[[SchemaSource, frozenset[str]], ReaderOf] = _as_written
    """Creates a reader of some fields by a schema."""
    written: Callable[[SchemaSource], SchemaSource] = lambda source: source
    """The schema that encodes the values of columns."""


_COLUMNS: Mapping[str, TypeColumns] = {
    AVRO: TypeColumns(
        lambda source: avro_form(avro_types(source)),
        lambda source, fields: AvroReading(source, fields).reader_of,
        without_logical_types,
    ),
    JSON: TypeColumns(lambda source: json_form(source.text)),
    PROTOBUF: TypeColumns(lambda source: proto_form(ProtoSerde(source).descriptor), _by_numbers),
}


def columns_of(source: SchemaSource) -> TypeColumns:
    """Return the column functions of a schema's type. Raises `UnusableSchema`."""
    columns = _COLUMNS.get(source.kind)
    if columns is None:
        raise UnusableSchema(f"its type is {source.kind!r}")
    return columns


def form_of(source: SchemaSource) -> ValueForm:
    """Return the form of a schema's values in columns. Raises `UnusableSchema`."""
    try:
        return ValueForm(columns_of(source).form(source))
    except RecursionError:
        raise UnusableSchema("it is nested too deeply") from None
