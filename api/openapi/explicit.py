"""Rewrites the schemas of a document in the forms that all generators of clients understand.

1. A schema has at most one type; `oneOf` says what may be one of several.
2. A schema with `enum` or `const` has the type of its values.
3. A schema that has a name is a reference wherever it occurs.
4. An integer that may need more than 32 bits has the format `int64`, and a number `double`.

The meaning stays the same. Examples and defaults are values, so nothing in them is rewritten.
"""

from collections.abc import Mapping
from typing import Any

from api.http.operation import Json
from tms.wire.json_fields import reference

VALUES = frozenset(("const", "default", "enum", "example", "examples"))
"""Keys of a document below which there are values, not schemas."""
NAMED = frozenset(("properties", "schemas", "parameters", "responses", "headers", "paths"))
"""Keys of a document with objects by their names, which may be any words."""
_ANNOTATIONS = frozenset(("description", "default", "title", "example", "examples"))
_TYPES: dict[type, str] = {str: "string", bool: "boolean", int: "integer"}
"""In this order, because a boolean of Python is an integer too."""
_INT32_MAX = 2**31 - 1


def explicit(part: Any, named: Mapping[str, Json]) -> Any:
    """Return a part of a document with its schemas rewritten, and references to the `named`."""
    if isinstance(part, list):
        return [explicit(each, named) for each in part]
    if not isinstance(part, dict):
        return part
    for name, schema in named.items():
        if part == schema:
            return reference(name)
    return _schema({key: _below(key, value, named) for key, value in part.items()})


def _below(key: str, value: Any, named: Mapping[str, Json]) -> Any:
    if key in VALUES:
        return value
    if key in NAMED and isinstance(value, dict):
        return {name: explicit(each, named) for name, each in value.items()}
    return explicit(value, named)


def _schema(schema: Json) -> Json:
    kind = schema.get("type")
    if isinstance(kind, list):
        rest = {key: value for key, value in schema.items() if key != "type"}
        assert rest.keys() <= _ANNOTATIONS, f"which of its types has {rest}?"
        return {"oneOf": [_schema({"type": each}) for each in kind], **rest}
    values = [schema["const"]] if "const" in schema else schema.get("enum")
    if kind is None and values is not None:
        [only] = {next(_TYPES[each] for each in _TYPES if isinstance(v, each)) for v in values}
        schema = {"type": only, **schema}
    if schema.get("type") == "integer" and "format" not in schema and _is_long(schema):
        schema = {**schema, "format": "int64"}
    if schema.get("type") == "number" and "format" not in schema:
        schema = {**schema, "format": "double"}
    return schema


def _is_long(schema: Json) -> bool:
    values = [schema["const"]] if "const" in schema else schema.get("enum")
    largest = schema.get("maximum") if values is None else max(values)
    return largest is None or largest > _INT32_MAX
