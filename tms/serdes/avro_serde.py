"""Avro's values, by fastavro.

1. Values of a schema that contains itself are checked before fastavro reads or writes them, because
   its C code crashes the process if they are nested deeply (`avro_bounds`).
2. A schema with arrays whose items take no bytes is refused, because a few bytes could announce
   billions of items.
3. Encoding a value with a field that the schema lacks is an error.
4. Encoding a value that could not be decoded is an error: fastavro writes any text as a UUID, any
   number as a date, and a float that is too large as infinity.
5. Numbers and decimals are bounded (`avro_bounds`), and JSON is not fastavro's (`avro_json`).
"""

import io
import json
from bisect import bisect_left
from collections.abc import Mapping
from typing import Any

import fastavro
import msgspec
from fastavro.schema import SchemaParseException, UnknownType
from fastavro.validation import ValidationError

from tms.core.text.credentials import shortened
from tms.core.values.schema_types import AVRO
from tms.serdes.avro_bounds import HAS_OTHERS, check_levels, read_nested
from tms.serdes.avro_json import AvroJson, copied
from tms.serdes.avro_shape import AvroShape
from tms.serdes.avro_tree import (
    INNER,
    NAMED,
    RECORDS,
    WrongSchema,
    kind_of,
    loaded,
    record_name,
    spelled,
    tree_of,
)
from tms.serdes.serde import (
    SchemaSource,
    Serde,
    Undecodable,
    Unencodable,
    UnusableSchema,
    shown_value,
)

_REASON_CHARS = 500
_INFINITIES = (b"\0\0\x80\x7f", b"\0\0\x80\xff")
"""The bytes of an infinite float, and of one that is too large for 32 bits."""
_MARKS = ("__fastavro_parsed", "__named_schemas")


class AvroSerde(Serde):
    """One schema."""

    kind = AVRO
    has_readers = True

    def __init__(self, source: SchemaSource, reader: "AvroSerde | None" = None) -> None:
        """Compile a schema. With a `reader`, values have the form of that schema.

        Raises `UnusableSchema`.
        """
        try:
            self._tree = tree_of(loaded(source.text))
            self.schema, named = _parsed(self._tree.top)
            shape = AvroShape(self._tree)
            self.json_form = AvroJson(self.schema, named)
        except WrongSchema as error:
            raise UnusableSchema(shortened(str(error), _REASON_CHARS)) from None
        except RecursionError:
            raise UnusableSchema("it is nested too deeply") from None
        if shape.has_empty_items:
            raise UnusableSchema(
                "it has arrays whose items take no bytes, so their number has no bound"
            )
        self._source = source
        self._reader = reader
        self._named = named
        self._is_nested = shape.is_recursive
        self._has_logical_types = shape.has_logical_types
        self.record_name = record_name(self._tree.top)

    def read_as(self, reader: "AvroSerde") -> "AvroSerde":
        """Return a serde whose values have the form of the schema `reader`."""
        return AvroSerde(self._source, reader)

    def encode(self, value: Any) -> bytes:
        """Return the bytes of a payload after the id. Raises `Unencodable`."""
        out = io.BytesIO()
        try:
            if self._is_nested:
                check_levels(value)
            fastavro.validate(value, self.schema, raise_errors=True, strict=True)
            fastavro.schemaless_writer(out, self.schema, value, strict_allow_default=True)
            data = out.getvalue()
            if self._has_logical_types:
                self.decode(data, 0)
            if any(infinity in data for infinity in _INFINITIES):
                self.json_form.json_of(value)
        except ValidationError as error:
            raise _misfit(error) from None
        except Undecodable as error:
            raise Unencodable(error.reason, error.field) from None
        except RecursionError:
            raise Unencodable("it is nested too deeply") from None
        except Exception as error:  # fastavro raises Python's errors for a wrong value.
            raise Unencodable(_told(error)) from None
        return data

    def decode(self, data: bytes, at: int) -> Any:
        """Return the value from `at` to the end. Raises `Undecodable`."""
        stream = io.BytesIO(data)
        stream.seek(at)
        reader = self._reader
        try:
            value = self._read(stream, self.schema, self._named, reader and reader.schema)
        except Exception as error:  # Damaged bytes cause various errors of Python.
            raise self._undecodable(data, at, error) from None
        if stream.tell() != len(data):
            raise Undecodable(f"bytes left after the value: {len(data) - stream.tell()}")
        if reader is not None and reader.json_form.has_shared_defaults:
            return copied(value)
        return value

    def _read(self, stream: io.BytesIO, schema: Any, named: Mapping[str, Any], reader: Any) -> Any:
        if self._is_nested:
            return read_nested(stream, schema, named, reader)
        return fastavro.schemaless_reader(stream, schema, reader)

    def _undecodable(self, data: bytes, at: int, error: Exception) -> Undecodable:
        if isinstance(error, RecursionError):
            return Undecodable("it is nested too deeply")
        if isinstance(error, EOFError | IndexError):
            return Undecodable("it is cut off", self._damaged_field(data, at))
        return Undecodable(_told(error), self._damaged_field(data, at))

    def _damaged_field(self, data: bytes, at: int) -> str:
        """Return the first top-level field that cannot be read, empty if unknown."""
        top = self._tree.top
        if kind_of(top) not in RECORDS:
            return ""
        fields = top["fields"]

        def fails(count: int) -> bool:
            """Return whether a record of the fields up to a given one cannot be read."""
            beginning = {**top, "fields": fields[:count]}
            stream = io.BytesIO(data)
            stream.seek(at)
            try:
                self._read(stream, *_parsed(beginning), None)
            except Exception:  # the errors that it raised before
                return True
            return False

        first = bisect_left(range(1, len(fields) + 1), True, key=fails)
        return str(fields[first]["name"]) if first < len(fields) else ""

    def from_json(self, text: bytes) -> Any:
        """Return the value of Avro's JSON encoding. Raises `Unencodable`."""
        try:
            decoded = json.loads(text)
        except RecursionError:
            raise Unencodable("it is nested too deeply") from None
        except ValueError as error:
            raise Unencodable(f"it is not valid JSON: {error}") from None
        try:
            return self.json_form.value(decoded)
        except RecursionError:
            raise Unencodable("it is nested too deeply") from None

    def to_json(self, value: Any) -> bytes:
        """Return Avro's JSON encoding of a value; null for a number that JSON lacks."""
        try:
            return msgspec.json.encode((self._reader or self).json_form.json_of(value))
        except RecursionError:
            raise Undecodable("it is nested too deeply") from None
        except UnicodeError as error:
            raise Undecodable(f"it cannot be written as JSON: {_told(error)}") from None


def _told(error: Exception) -> str:
    return shortened(str(error) or type(error).__name__, _REASON_CHARS)


def _misfit(error: ValidationError) -> Unencodable:
    """Return what is wrong with a value, with the innermost field that is known."""
    datum, schema, path = error.errors[0]
    field = (path or "").rpartition(".")[2]
    if isinstance(datum, Mapping) and isinstance(schema, dict) and schema.get("type") in RECORDS:
        for each in schema["fields"]:
            if each["name"] not in datum and "default" not in each:
                return Unencodable("it is missing", each["name"])
    expected = " or ".join(_shown(each.schema) for each in error.errors if each.field == path)
    return Unencodable(f"{shown_value(datum)} is not of type {expected}", field)


def _shown(schema: Any) -> str:
    if isinstance(schema, dict):
        return str(schema.get("logicalType") or schema.get("name") or schema.get("type"))
    return str(schema)


def _parsed(top: Any) -> tuple[Any, dict[str, Any]]:
    """Return a tree's schema for fastavro, and its named types.

    Raises `UnusableSchema`, `RecursionError`.
    """
    named: dict[str, Any] = {}
    try:
        # The registry accepts a default of a wrong type, as Confluent's does.
        parsed = fastavro.parse_schema(_unmarked(top), named, _ignore_default_error=True)
    except (SchemaParseException, UnknownType, ValueError, KeyError, TypeError) as error:
        raise UnusableSchema(_told(error)) from None
    parsed = _undotted(parsed)
    for name in [*named]:
        described = named.pop(name)
        described["name"] = name.removeprefix(".")
        named[described["name"]] = described
    # These tell fastavro that a schema is parsed; it sets them in records only.
    for each in parsed if isinstance(parsed, list) else [parsed]:
        if isinstance(each, dict):
            each.update(__fastavro_parsed=True, __named_schemas=named)
    return parsed, named


def _unmarked(top: Any) -> Any:
    """Return a tree's JSON without fastavro's marks of a parsed schema."""
    if isinstance(top, list):
        return [_unmarked(branch) for branch in top]
    made = spelled(top)
    if not isinstance(made, dict):
        return made
    return {name: value for name, value in made.items() if name not in _MARKS}


def _undotted(parsed: Any) -> Any:
    """Return a parsed schema, changed, whose names have no leading dots (`spelled`).

    Dates in unions are marked.
    """
    if isinstance(parsed, str):
        return parsed.removeprefix(".")
    if isinstance(parsed, list):
        branches = [_undotted(branch) for branch in parsed]
        has_others = sum(kind_of(branch) != "null" for branch in branches) > 1
        for branch in branches if has_others else ():
            if isinstance(branch, dict) and branch.get("logicalType") == "date":
                branch[HAS_OTHERS] = True
        return branches
    kind = parsed["type"]
    if kind in INNER:
        parsed[INNER[kind]] = _undotted(parsed[INNER[kind]])
    elif kind in NAMED:
        parsed["name"] = _undotted(parsed["name"])
        if "aliases" in parsed:
            parsed["aliases"] = _undotted(parsed["aliases"])
    for field in parsed["fields"] if kind in RECORDS else ():
        field["type"] = _undotted(field["type"])
    return parsed
