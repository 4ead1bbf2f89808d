"""JSON values, checked by jsonschema-rs, whose patterns run in linear time.

A value is checked when it is encoded and when it is decoded.
"""

import json
from typing import Any

import jsonschema_rs
import msgspec

from tms.core.text.credentials import shortened
from tms.core.values.schema_types import JSON
from tms.serdes.json_references import resources_of
from tms.serdes.serde import SchemaSource, Serde, Undecodable, Unencodable, UnusableSchema

_REASON_CHARS = 500


class JsonSerde(Serde):
    """One schema."""

    kind = JSON

    def __init__(self, source: SchemaSource) -> None:
        """Compile a schema. Raises `UnusableSchema`."""
        try:
            schema = json.loads(source.text)
            named = [(name, json.loads(text)) for name, text in source.references]
            self._validator = _validator(schema, named)
        except RecursionError:
            raise UnusableSchema("it is nested too deeply") from None
        except (ValueError, jsonschema_rs.ReferencingError) as error:
            reason = getattr(error, "message", str(error))  # The rest repeats the schema.
            raise UnusableSchema(shortened(reason, _REASON_CHARS)) from None
        title = schema.get("title", "") if isinstance(schema, dict) else ""
        self.record_name = title if isinstance(title, str) else ""

    def encode(self, value: Any) -> bytes:
        """Return the bytes of a payload after the id. Raises `Unencodable`."""
        try:
            encoded = msgspec.json.encode(value)
            # In the form in which it will be read: a tuple is an array, a date is text.
            plain = msgspec.json.decode(encoded)
        except RecursionError:
            raise Unencodable("it is nested too deeply") from None
        except (TypeError, ValueError) as error:
            raise Unencodable(str(error)) from None
        problem = self._problem(plain)
        if problem is not None:
            raise Unencodable(*problem)
        return encoded

    def decode(self, data: bytes, at: int) -> Any:
        """Return the value from `at` to the end. Raises `Undecodable`."""
        try:
            value = msgspec.json.decode(data[at:])
        except RecursionError:
            raise Undecodable("it is nested too deeply") from None
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            raise Undecodable(str(error)) from None
        problem = self._problem(value)
        if problem is not None:
            raise Undecodable(*problem)
        return value

    def _problem(self, value: Any) -> tuple[str, str] | None:
        """Return why a value does not fit, and where; None if it does."""
        try:
            self._validator.validate(value)
        except jsonschema_rs.ValidationError as error:
            path = ".".join(map(str, error.instance_path))
            return shortened(error.message, _REASON_CHARS), path
        except ValueError as error:  # numbers that the library does not accept
            return shortened(str(error), _REASON_CHARS), ""
        return None

    def from_json(self, text: bytes) -> Any:
        """Return the value of JSON. Raises `Unencodable`."""
        try:
            return msgspec.json.decode(text)
        except RecursionError:
            raise Unencodable("it is nested too deeply") from None
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            raise Unencodable(str(error)) from None

    def to_json(self, value: Any) -> bytes:
        """Return the JSON of a value."""
        return msgspec.json.encode(value)


def _validator(schema: Any, named: list[tuple[str, Any]]) -> Any:
    """Return a validator for a schema, of draft 7 if it has no `$schema`."""
    schema, resources = resources_of(schema, named)
    registry = jsonschema_rs.Registry(resources, draft=jsonschema_rs.Draft7, retriever=_not_there)
    has_draft = isinstance(schema, dict) and "$schema" in schema
    make = jsonschema_rs.validator_for if has_draft else jsonschema_rs.Draft7Validator
    return make(schema, registry=registry, retriever=_not_there)


def _not_there(uri: str) -> Any:
    """Find nothing: a schema must not read files or contact other servers."""
    raise ValueError(f"it is not a reference of the schema: {uri}")
