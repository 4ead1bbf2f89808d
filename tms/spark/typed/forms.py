"""The columns of whole values of a schema: a record's fields, or the one column `value`.

Guarantees that values come back from their columns, whatever the type of the schema, and that a
schema whose values cannot be columns is an `UnusableSchema`.
"""

from collections.abc import Collection, Mapping, Sequence
from typing import Any

import pyarrow as pa

from tms.core.schemas import AVRO, JSON
from tms.serdes.avro_serde import AvroSerde
from tms.serdes.proto_serde import ProtoSerde
from tms.serdes.serde import SchemaSource, Undecodable, Unencodable, UnusableSchema
from tms.spark.typed.avro_columns import avro_form
from tms.spark.typed.avro_types import AvroTypes
from tms.spark.typed.columns import ColumnForm, StructColumn, named_unfit
from tms.spark.typed.json_columns import json_form
from tms.spark.typed.names import VALUE, column_of, field_of
from tms.spark.typed.proto_columns import proto_form


class ValueForm:
    """The columns of values that one schema has."""

    def __init__(self, form: ColumnForm) -> None:
        """Have the fields of a record, or one column."""
        self._record = form if isinstance(form, StructColumn) else None
        self._forms = form.fields if isinstance(form, StructColumn) else {VALUE: form}
        self.types = {self._column(name): each.arrow for name, each in self._forms.items()}
        """By the column's name."""

    def _column(self, field: str) -> str:
        return field if self._record is None else column_of(field)

    def columns(self, values: Sequence[Any], wanted: Collection[str]) -> dict[str, pa.Array]:
        """Return the columns of values that are wanted; all are null for None.

        Raises `Undecodable`, which names the field.
        """
        made = {}
        for name, form in self._forms.items():
            column = self._column(name)
            if column in wanted:
                with named_unfit(name, Undecodable):
                    record = self._record
                    found = values if record is None else record.of_field(values, name)
                    made[column] = form.column(found)
        return made

    def values(self, columns: Mapping[str, pa.Array], count: int) -> list[Any]:
        """Return as many values, made of their columns. Raises `Unencodable`."""
        if self._record is not None:
            fields = {field_of(name) or name: column for name, column in columns.items()}
            return self._record.values_of(fields, count)
        if set(columns) != {VALUE}:
            raise Unencodable(f"its values are not records: give the one column {VALUE}")
        with named_unfit(VALUE, Unencodable):
            return self._forms[VALUE].values(columns[VALUE])


def form_of(source: SchemaSource) -> ValueForm:
    """Return what values of a schema are in columns. Raises `UnusableSchema`."""
    try:
        if source.kind == AVRO:
            return ValueForm(avro_form(avro_types(source)))
        if source.kind == JSON:
            return ValueForm(json_form(source.text))
        return ValueForm(proto_form(ProtoSerde(source).descriptor))
    except RecursionError:
        raise UnusableSchema("it is nested too deeply") from None


def avro_types(source: SchemaSource) -> AvroTypes:
    """Return an Avro schema, taken apart. Raises `UnusableSchema`."""
    AvroSerde(source)  # only what it takes is right
    try:
        return AvroTypes(source.text)
    except RecursionError:
        raise UnusableSchema("it is nested too deeply") from None
