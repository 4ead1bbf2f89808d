"""Protobuf's messages as columns.

    bool, float, double, string, bytes   BOOLEAN, FLOAT, DOUBLE, STRING, BINARY
    signed of 32 bits; unsigned; of 64   INT; BIGINT; BIGINT
    unsigned of 64 bits                  DECIMAL(20, 0)
    an enum                              STRING: its name, or its number if that has none
    a message; repeated; map             STRUCT; ARRAY; MAP
    Timestamp; a wrapper                 TIMESTAMP; the wrapped type, which may be NULL
    other well-known types, messages within themselves, or without fields
                                         STRING of Protobuf's JSON

An unset field is NULL if it tracks presence, otherwise its default. A field that is NULL in a row
is not set.
"""

from collections.abc import Callable, Mapping, Sequence
from decimal import Decimal
from typing import Any

import pyarrow as pa
from google.protobuf import json_format, message_factory
from google.protobuf.descriptor import Descriptor, EnumDescriptor, FieldDescriptor

from tms.serdes.serde import Undecodable, Unencodable
from tms.spark.typed.columns import (
    ColumnForm,
    JsonColumn,
    ListColumn,
    MapColumn,
    NumberedColumn,
    PlainColumn,
    StructColumn,
    named_unfit,
)

_PLAIN = {
    FieldDescriptor.CPPTYPE_BOOL: pa.bool_(),
    FieldDescriptor.CPPTYPE_DOUBLE: pa.float64(),
    FieldDescriptor.CPPTYPE_FLOAT: pa.float32(),
    FieldDescriptor.CPPTYPE_INT32: pa.int32(),
    FieldDescriptor.CPPTYPE_INT64: pa.int64(),
    FieldDescriptor.CPPTYPE_UINT32: pa.int64(),
}
_WELL_KNOWN = "google.protobuf."
_TIMESTAMP = f"{_WELL_KNOWN}Timestamp"
_WRAPPERS = frozenset(
    f"{_WELL_KNOWN}{name}Value"
    for name in ("Bool", "Double", "Float", "Int32", "Int64", "UInt32", "UInt64", "String", "Bytes")
)


class MadeColumn:
    """Another form's column, with each value converted."""

    def __init__(
        self, form: ColumnForm, make: Callable[[Any], Any], value: Callable[[Any], Any]
    ) -> None:
        """Convert each non-null value; `value` converts it back."""
        self._form = form
        self._make = make
        self._value = value
        self.arrow = form.arrow

    def column(self, values: Sequence[Any]) -> pa.Array:
        """Return a column of values."""
        return self._form.column([None if value is None else self._make(value) for value in values])

    def values(self, column: pa.Array) -> list[Any]:
        """Return the values of a column."""
        made = self._form.values(column)
        return [None if each is None else self._value(each) for each in made]


class MessageColumn(StructColumn):
    """Messages, with their fields by name."""

    def __init__(self, message: Any, fields: Mapping[str, ColumnForm]) -> None:
        """Use the fields of a message."""
        super().__init__(fields)
        self._can_be_unset = {name for name in fields if message.fields_by_name[name].has_presence}
        self._class = _class(message)

    def of_field(self, values: Sequence[Any], name: str) -> list[Any]:
        """Return the values of a field."""
        if name in self._can_be_unset:
            return [
                getattr(value, name) if value is not None and value.HasField(name) else None
                for value in values
            ]
        return [None if value is None else getattr(value, name) for value in values]

    def values_of(self, columns: Mapping[str, pa.Array], count: int) -> list[Any]:
        """Return messages; a null field is not set. Raises `Unencodable`."""
        rows = super().values_of(columns, count)
        try:
            return [self._class(**row) for row in rows]
        except (ValueError, TypeError, OverflowError):
            for row in rows:
                self._find_unfit(row)
            raise

    def _find_unfit(self, row: Mapping[str, Any]) -> None:
        for name, value in row.items():
            with named_unfit(name, Unencodable):
                self._class(**{name: value})


def proto_form(message: Descriptor) -> ColumnForm:
    """Return the form of a message in a column; a `StructColumn` unless it is well-known."""
    return _message(message, ())


def _class(message: Any) -> Any:
    return message_factory.GetMessageClass(message)


def _message(message: Any, within: tuple[str, ...]) -> ColumnForm:
    name = message.full_name
    made = _class(message)
    if name == _TIMESTAMP:
        return _time(made)
    if name in _WRAPPERS:
        wrapped = _one(message.fields_by_name["value"], within)
        return MadeColumn(wrapped, lambda each: each.value, lambda each: made(value=each))
    is_plain = message.fields and not name.startswith(_WELL_KNOWN) and name not in within
    if not is_plain:
        return JsonColumn(_to_json, lambda text: _from_json(made(), text))
    within = (*within, name)
    return MessageColumn(message, {each.name: _field(each, within) for each in message.fields})


def _time(made: Any) -> ColumnForm:
    def message(number: int) -> Any:
        time = made()
        time.FromMicroseconds(number)
        return time

    form = NumberedColumn(pa.timestamp("us", tz="UTC"))
    return MadeColumn(form, lambda each: each.ToMicroseconds(), message)


def _field(field: Any, within: tuple[str, ...]) -> ColumnForm:
    message = field.message_type
    if message is not None and message.GetOptions().map_entry:
        key, value = (message.fields_by_name[name] for name in ("key", "value"))
        return MapColumn(_one(value, within), _one(key, within))
    return ListColumn(_one(field, within)) if field.is_repeated else _one(field, within)


def _one(field: Any, within: tuple[str, ...]) -> ColumnForm:
    """Return the form of one value of a field in a column."""
    match field.cpp_type:
        case FieldDescriptor.CPPTYPE_MESSAGE:
            return _message(field.message_type, within)
        case FieldDescriptor.CPPTYPE_ENUM:
            return MadeColumn(PlainColumn(pa.string()), *_names(field.enum_type))
        case FieldDescriptor.CPPTYPE_UINT64:
            return MadeColumn(PlainColumn(pa.decimal128(20, 0)), Decimal, int)
        case FieldDescriptor.CPPTYPE_STRING:
            is_bytes = field.type == FieldDescriptor.TYPE_BYTES
            return PlainColumn(pa.binary() if is_bytes else pa.string())
        case kind:
            return PlainColumn(_PLAIN[kind])


def _names(enum: EnumDescriptor) -> tuple[Callable[[int], str], Callable[[str], int]]:
    """Return functions from number to name, and back."""
    names = {number: each.name for number, each in enum.values_by_number.items()}
    numbers = {name: each.number for name, each in enum.values_by_name.items()}

    def number(text: str) -> int:
        value = numbers.get(text)
        if value is None and not text.lstrip("-").isdecimal():
            raise Unencodable(f"{enum.name} has no {text[:100]!r}")
        return int(text) if value is None else value

    return lambda number: names.get(number) or str(number), number


def _to_json(message: Any) -> bytes:
    pool: Any = message.DESCRIPTOR.file.pool
    try:
        text = json_format.MessageToJson(
            message, preserving_proto_field_name=True, indent=None, descriptor_pool=pool
        )
    except Exception as error:  # A well-known type may have a value that JSON lacks.
        raise Undecodable(f"it cannot be written as JSON: {error}") from None
    return text.encode()


def _from_json(message: Any, text: bytes) -> Any:
    pool: Any = message.DESCRIPTOR.file.pool
    try:
        made = json_format.Parse(text, message, descriptor_pool=pool)
        _to_json(made)  # A number in a Struct may be too large for a double.
    except Exception as error:  # The library raises Python's errors for a wrong value.
        raise Unencodable(str(error)) from None
    return made
