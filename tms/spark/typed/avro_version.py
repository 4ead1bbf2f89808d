"""Avro values by the reader's schema, whichever version wrote them.

fastavro takes more than twice as long to resolve a value as to read it. Usually there is nothing to
resolve: a field has the reader's type, or is missing and has a default. Then values are read as
they were written, and the defaults are filled in. fastavro resolves all other values.
"""

from collections.abc import Callable, Mapping
from typing import Any

from tms.core.values.schema_types import AVRO
from tms.serdes.avro_serde import AvroSerde
from tms.serdes.avro_tree import RECORDS
from tms.serdes.serde import SchemaSource, Undecodable, UnusableSchema
from tms.serdes.wire_format import START_BYTES
from tms.spark.typed.avro_types import AvroTypes


def avro_types(source: SchemaSource) -> AvroTypes:
    """Return a schema's types. Raises `UnusableSchema`."""
    AvroSerde(source)  # only a schema that it accepts is valid
    try:
        return AvroTypes(source.text)
    except RecursionError:
        raise UnusableSchema("it is nested too deeply") from None


def without_logical_types(source: SchemaSource) -> SchemaSource:
    """Return a schema whose values are those in columns. Raises `UnusableSchema`."""
    types = avro_types(source)
    return SchemaSource(AVRO, types.raw_text(types.top))


class AvroReading:
    """The columns to read, and the schema that reads them."""

    def __init__(self, source: SchemaSource, fields: frozenset[str]) -> None:
        """Read only a record's `fields`. Raises `UnusableSchema`."""
        self.types = types = avro_types(source)
        self._fields = fields
        self.text = types.raw_text(types.top, fields)
        self.serde = _serde(self.text)
        """The serde of the reader's schema, without logical types."""

    def reader_of(self, writer: SchemaSource) -> Callable[[bytes], Any]:
        """Return a reader of a version's payloads. Raises `UnusableSchema`, `Undecodable`."""
        types = avro_types(writer)
        misread = types.misread_by(self.types)
        if misread is not None:
            raise Undecodable(misread)
        return AvroVersion(types, self).value

    def defaults_for(self, writer: AvroTypes) -> Mapping[str, Any] | None:
        """Return the defaults to fill in, None if that is not enough."""
        mine, theirs = (each.described(each.top) for each in (self.types, writer))
        is_record = all(
            isinstance(each, dict) and each["type"] in RECORDS for each in (mine, theirs)
        )
        if not is_record or mine["name"] != theirs["name"]:
            return None
        written = {each["name"]: each["type"] for each in theirs["fields"]}
        # Here, defaults are values, as in decoded data, and not JSON.
        parsed = {each["name"]: each for each in self.serde.schema["fields"]}
        defaults = {}
        for field in mine["fields"]:
            name = field["name"]
            if name in written:
                is_same = writer.raw_text(written[name]) == self.types.raw_text(field["type"])
            else:
                is_same = "default" in field and "aliases" not in field
                if is_same and name in self._fields:
                    defaults[name] = parsed[name]["default"]
            if not is_same:
                return None
        return defaults


class AvroVersion:
    """Decodes the values of one writer's schema."""

    def __init__(self, writer: AvroTypes, reader: AvroReading) -> None:
        """Read the data of `writer`. Raises `UnusableSchema`."""
        text = writer.raw_text(writer.top)
        defaults = reader.defaults_for(writer)
        is_read_as_written = defaults is not None or text == reader.text
        serde = _serde(text)
        self._serde = serde if is_read_as_written else serde.read_as(reader.serde)
        self._defaults = defaults or None

    def value(self, payload: bytes) -> Any:
        """Return one value. Raises `Undecodable`."""
        value = self._serde.decode(payload, START_BYTES)
        if self._defaults is not None:
            value |= self._defaults
        return value


def _serde(text: str) -> AvroSerde:
    return AvroSerde(SchemaSource(AVRO, text))
