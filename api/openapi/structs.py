"""JSON schemas of bodies, generated from the types that decode and encode them.

msgspec generates the schemas. Fields of structs add details (`tms.wire.json_fields`); for
dataclasses of `tms.core`, the resource adds them.
"""

from collections.abc import Mapping
from typing import Any

import msgspec

from tms.core.limits import JSON_INTEGER_MAX
from tms.wire.json_fields import INSTEAD, Json

_DEFINED = "#/structs/"
_SAYS_NOTHING: tuple[object, ...] = (None, "", [])
"""Defaults that mean "nothing", which a schema need not mention."""


def schemas_of(structs: Mapping[str, type[msgspec.Struct]], *, answered: bool) -> Json:
    """Return the schemas of structs by their names in the document.

    Structs within others have no name, and are written in full. With `answered`, the server creates
    these bodies, so they have only the fields of the struct. In a request other fields are refused
    or ignored, as the struct says.
    """
    _, defined = msgspec.json.schema_components(
        structs.values(), ref_template=f"{_DEFINED}{{name}}"
    )
    return {
        name: _converted(defined[struct.__name__], defined, answered=answered)
        for name, struct in structs.items()
    }


def answer_of(kind: type, descriptions: Mapping[str, str | Json]) -> Json:
    """Return the schema of an answer that is a dataclass. No number in it is negative.

    `descriptions` has those of fields, by the names of class and field: `Size.bytes`. Instead of a
    description, a field may have the schema that replaces it in the answer.
    """
    [schema], defined = msgspec.json.schema_components([kind], ref_template=f"{_DEFINED}{{name}}")
    for place, description in descriptions.items():
        name, _, field = place.partition(".")
        fields = defined[name]["properties"]
        if isinstance(description, str):
            described = fields[field]
            described.get("anyOf", [described])[0]["description"] = description
        else:
            fields[field] = {**fields[field], INSTEAD: description}
    answer: Json = _from_zero(_converted(schema, defined, answered=True))
    return answer


def _from_zero(schema: Any) -> Any:
    if isinstance(schema, list):
        return [_from_zero(each) for each in schema]
    if not isinstance(schema, dict):
        return schema
    converted = {key: _from_zero(value) for key, value in schema.items()}
    if converted.get("type") == "integer":
        return {**converted, "minimum": 0, "maximum": JSON_INTEGER_MAX}
    return {**converted, "minimum": 0} if converted.get("type") == "number" else converted


def _converted(schema: Any, defined: Json, *, answered: bool) -> Any:
    """Return a schema of msgspec in the form of the document."""
    if isinstance(schema, list):
        return [_converted(each, defined, answered=answered) for each in schema]
    if not isinstance(schema, dict):
        return schema
    if INSTEAD in schema:
        kept = {key: value for key, value in schema.items() if key in ("description", "default")}
        return _without_empty_default({**schema[INSTEAD], **kept})
    if str(schema.get("$ref")).startswith(_DEFINED):
        meant = defined[schema["$ref"].removeprefix(_DEFINED)]
        rest = {key: value for key, value in schema.items() if key != "$ref"}
        # The field describes an enumeration; the docstring of the class is for readers of the code.
        target = {"enum": meant["enum"]} if "enum" in meant else meant
        return _converted({**target, **rest}, defined, answered=answered)
    converted = {
        "oneOf" if key == "anyOf" else key: (
            {name: _converted(each, defined, answered=answered) for name, each in value.items()}
            if key == "properties"
            else _converted(value, defined, answered=answered)
        )
        for key, value in schema.items()
        if key != "title"
    }
    if answered and "properties" in converted:
        return _as_answered(converted, schema["properties"])
    return _without_empty_default(converted)


def _as_answered(converted: Json, properties: Json) -> Json:
    """Return the schema of an object that the server creates: defaults are always present."""
    required = [n for n in properties if n in converted["required"] or "default" in properties[n]]
    for field in converted["properties"].values():
        field.pop("default", None)
    return {**converted, "required": required, "additionalProperties": False}


def _without_empty_default(schema: Json) -> Json:
    if "default" in schema and schema["default"] in _SAYS_NOTHING:
        return {key: value for key, value in schema.items() if key != "default"}
    return schema


def one_field_of(schema: Json) -> Json:
    """Return the schema of a body with exactly one field of `schema`, which is not null."""
    return {
        "description": schema["description"],
        "oneOf": [
            {
                "type": "object",
                "required": [name],
                "properties": {name: field["oneOf"][0]},
                "additionalProperties": False,
            }
            for name, field in schema["properties"].items()
        ],
    }
