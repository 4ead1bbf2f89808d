"""JSON schemas of bodies, made from the types that decode and encode them.

msgspec makes the schemas. What is finer, a field of a struct says itself (`tms.wire.json_fields`);
for a dataclass of `tms.core` the resource says it.
"""

from collections.abc import Mapping
from typing import Any

import msgspec

from tms.core.limits import JSON_INTEGER_MAX
from tms.wire.json_fields import INSTEAD, Json

_DEFINED = "#/structs/"
_SAYS_NOTHING: tuple[object, ...] = (None, "", [])
"""Defaults that stand for nothing: a schema need not tell them."""


def schemas_of(structs: Mapping[str, type[msgspec.Struct]], *, answered: bool) -> Json:
    """Return the schemas of structs by the names that they are to have.

    Structs within others have no name, and are told in full. `answered`: the server makes these
    bodies, so they have no other fields than those of the struct. In a request such fields are
    refused or ignored, as the struct says.
    """
    _, defined = msgspec.json.schema_components(
        structs.values(), ref_template=f"{_DEFINED}{{name}}"
    )
    return {
        name: _told(defined[struct.__name__], defined, answered=answered)
        for name, struct in structs.items()
    }


def answer_of(kind: type, descriptions: Mapping[str, str | Json]) -> Json:
    """Return the schema of an answer that is a dataclass. No number in it is negative.

    `descriptions` has those of fields, by the names of class and field: `Size.bytes`. Instead of a
    description, a field may have the schema of what the answer has in its place.
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
    answer: Json = _from_zero(_told(schema, defined, answered=True))
    return answer


def _from_zero(schema: Any) -> Any:
    if isinstance(schema, list):
        return [_from_zero(each) for each in schema]
    if not isinstance(schema, dict):
        return schema
    told = {key: _from_zero(value) for key, value in schema.items()}
    if told.get("type") == "integer":
        return {**told, "minimum": 0, "maximum": JSON_INTEGER_MAX}
    return {**told, "minimum": 0} if told.get("type") == "number" else told


def _told(schema: Any, defined: Json, *, answered: bool) -> Any:
    """Return a schema of msgspec's as the document has it."""
    if isinstance(schema, list):
        return [_told(each, defined, answered=answered) for each in schema]
    if not isinstance(schema, dict):
        return schema
    if INSTEAD in schema:
        kept = {key: value for key, value in schema.items() if key in ("description", "default")}
        return _without_empty_default({**schema[INSTEAD], **kept})
    if str(schema.get("$ref")).startswith(_DEFINED):
        meant = defined[schema["$ref"].removeprefix(_DEFINED)]
        rest = {key: value for key, value in schema.items() if key != "$ref"}
        # What an enumeration is for says the field; its docstring is for who reads the code.
        known = {"enum": meant["enum"]} if "enum" in meant else meant
        return _told({**known, **rest}, defined, answered=answered)
    told = {
        "oneOf" if key == "anyOf" else key: (
            {name: _told(each, defined, answered=answered) for name, each in value.items()}
            if key == "properties"
            else _told(value, defined, answered=answered)
        )
        for key, value in schema.items()
        if key != "title"
    }
    if answered and "properties" in told:
        return _as_answered(told, schema["properties"])
    return _without_empty_default(told)


def _as_answered(told: Json, properties: Json) -> Json:
    """Return the schema of an object of the server's: a default is written too."""
    required = [n for n in properties if n in told["required"] or "default" in properties[n]]
    for field in told["properties"].values():
        field.pop("default", None)
    return {**told, "required": required, "additionalProperties": False}


def _without_empty_default(schema: Json) -> Json:
    if "default" in schema and schema["default"] in _SAYS_NOTHING:
        return {key: value for key, value in schema.items() if key != "default"}
    return schema


def one_field_of(schema: Json) -> Json:
    """Return the schema of a body that has one of the fields of `schema`, and it is not null."""
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
