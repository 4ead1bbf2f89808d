"""An Avro schema as JSON with all names in full. Pure.

Avro's names depend on their context. They are resolved once, here, as in Avro's Java library; all
other code works on a schema's *tree* and needs no namespaces. In a tree

    a union is a list, and a primitive type without attributes is its name
    a type that was defined before, here or in a referenced type, is its full name
    anything else is an object with its original attributes

A type's name is its last part, of Latin letters, digits and `_`. The namespace is any text.
"""

import json
import math
import re
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Never

Json = Any

PRIMITIVES = frozenset(("null", "boolean", "int", "long", "float", "double", "bytes", "string"))
RECORDS = ("record", "error")
NAMED = (*RECORDS, "enum", "fixed")
INNER = {"array": "items", "map": "values"}
"""For each container type, the attribute with the type of its contents."""

_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_NUMBER = re.compile(r"[+-]?[0-9]+(\.[0-9]*)?([eE][+-]?[0-9]+)?")
_COMMENT = re.compile(r'"(?:[^"\\]|\\.)*"?|//[^\n]*|/\*.*?(?:\*/|\Z)', re.DOTALL)


class WrongSchema(ValueError):
    """Raised when a text does not have the form of an Avro schema; it says why."""


@dataclass(frozen=True, slots=True)
class AvroTree:
    """A schema."""

    top: Json
    types: dict[str, dict[str, Json]] = field(default_factory=dict)
    """The types that it defines, in order, by full name."""


def loaded(text: str) -> Json:
    """Return the JSON of a text, with comments, as Java's Avro accepts it.

    A number that is too large is the text "Infinity". Raises `WrongSchema`, `RecursionError`.
    """
    if "//" in text or "/*" in text:
        text = _COMMENT.sub(_without_comment, text)
    try:
        return json.loads(text, parse_float=number_of, parse_constant=_not_json)
    except json.JSONDecodeError as error:
        raise WrongSchema(str(error)) from None


def _without_comment(match: re.Match[str]) -> str:
    if match[0].startswith('"'):
        return match[0]
    if match[0].startswith("/*") and (len(match[0]) < len("/**/") or match[0][-2:] != "*/"):
        raise WrongSchema("a comment does not end")
    return " "


def number_of(text: str) -> float | str:
    """Return a number in a text; `Infinity` as text, with a sign, if it is too large."""
    value = float(text)
    if math.isfinite(value):
        return value
    return "Infinity" if value > 0 else "-Infinity"


def _not_json(text: str) -> Never:
    raise WrongSchema(f"{text} is not a number of JSON")


def full_name(name: str, namespace: str) -> str:
    """Return the full name of a name within a namespace, which may be empty."""
    if "." not in name:
        return f"{namespace}.{name}" if namespace else name
    own, last = split(name)
    return f"{own}.{last}" if own else last


def split(full: str) -> tuple[str, str]:
    """Return the namespace of a full name, which may be empty, and the last part."""
    namespace, _, last = full.rpartition(".")
    return namespace, last


def tree_of(schema: Json, referenced: Collection[str] = ()) -> AvroTree:
    """Return the tree of a schema, as `loaded` returned it.

    `referenced` are the full names of further types that it may refer to. Raises `WrongSchema`, and
    `RecursionError` if it is nested too deeply.
    """
    builder = _Builder(referenced)
    top = builder.tree(schema, "")
    return AvroTree(top, builder.types)


class _Builder:
    def __init__(self, referenced: Collection[str]) -> None:
        self.types: dict[str, dict[str, Json]] = {}
        self._referenced = referenced

    def tree(self, schema: Json, namespace: str) -> Json:
        if isinstance(schema, list):
            if any(isinstance(branch, list) for branch in schema):
                raise WrongSchema("a union has a union in it")
            return [self.tree(branch, namespace) for branch in schema]
        if isinstance(schema, str):
            return self._defined(schema, namespace)
        if not isinstance(schema, Mapping):
            raise WrongSchema(f"{json.dumps(schema)} is not a schema")
        kind = schema.get("type")
        if not isinstance(kind, str):
            raise WrongSchema(f"No type: {json.dumps(schema):.200}")
        if kind in NAMED:
            return self._definition(schema, kind, namespace)
        if kind in INNER:
            part = INNER[kind]
            if part not in schema:
                raise WrongSchema(f"{kind} has no {part}")
            return {**schema, part: self.tree(schema[part], namespace)}
        if kind in PRIMITIVES:
            return dict(schema) if len(schema) > 1 else kind
        return self._defined(kind, namespace)

    def _defined(self, name: str, namespace: str) -> str:
        """Return the full name of a type defined before, or the name of a primitive."""
        if name in PRIMITIVES:
            return name
        # Java also looks for a name without a namespace.
        for full in (full_name(name, namespace), split(name)[1]):
            if full in self.types or full in self._referenced:
                return full
        raise WrongSchema(f'The type "{name}" is not defined')

    def _definition(self, schema: Mapping[str, Json], kind: str, namespace: str) -> dict[str, Json]:
        name, names = schema.get("name"), schema.get("namespace", namespace)
        if not isinstance(name, str) or not isinstance(names, str):
            raise WrongSchema(f"The name and the namespace of {kind} must be texts")
        full = full_name(name, names)
        own, last = split(full)
        _check_name(last)
        if full in PRIMITIVES:
            raise WrongSchema(f"{full} is the name of a primitive type")
        if full in self.types or full in self._referenced:
            raise WrongSchema(f'The type "{full}" is defined twice')
        made = self.types[full] = {
            attribute: value for attribute, value in schema.items() if attribute != "namespace"
        }
        made["name"] = full
        if "aliases" in made:
            aliases = _texts(made["aliases"], "aliases")
            made["aliases"] = list(dict.fromkeys(full_name(alias, own) for alias in aliases))
        if kind in RECORDS:
            fields = schema.get("fields")
            if not isinstance(fields, list):
                raise WrongSchema(f"{full} has no fields")
            made["fields"] = [self._field(each, own) for each in fields]
        return made

    def _field(self, field: Json, namespace: str) -> dict[str, Json]:
        if not isinstance(field, Mapping) or "type" not in field:
            raise WrongSchema(f"A field is an object with a type, not {json.dumps(field):.200}")
        name = field.get("name")
        if not isinstance(name, str):
            raise WrongSchema("The name of a field must be a text")
        _check_name(name)
        made = {**field, "type": self.tree(field["type"], namespace)}
        if "aliases" in made:
            made["aliases"] = list(dict.fromkeys(_texts(made["aliases"], "aliases")))
        default = made.get("default")
        # Java's parser accepts numbers as text for these types.
        if isinstance(default, str) and kind_of(made["type"]) in ("float", "double"):
            made["default"] = number_of(default) if _NUMBER.fullmatch(default) else default
        return made


def _check_name(name: str) -> None:
    if not _NAME.fullmatch(name):
        raise WrongSchema(f"Illegal character in: {name}" if name else "Empty name")


def _texts(value: Json, attribute: str) -> list[str]:
    if isinstance(value, list) and all(isinstance(each, str) for each in value):
        return value
    raise WrongSchema(f"{attribute} must be a list of texts")


def kind_of(node: Json) -> str:
    """Return the kind of a part of a tree, also if it is only a name."""
    if isinstance(node, list):
        return "union"
    return str(node["type"]) if isinstance(node, Mapping) else str(node)


def parts_of(node: Json) -> Iterator[Json]:
    """Yield the direct parts of a tree: branches, items, values, types of fields."""
    if isinstance(node, list):
        yield from node
    elif isinstance(node, Mapping):
        kind = node["type"]
        if kind in INNER:
            yield node[INNER[kind]]
        elif kind in RECORDS:
            yield from (each["type"] for each in node["fields"])


def record_name(node: Json) -> str:
    """Return the full name of a record, empty for anything else."""
    is_record = isinstance(node, Mapping) and node["type"] in RECORDS
    return str(node["name"]) if is_record else ""


def spelled(node: Json, *, plain: bool = False) -> Json:
    """Return a tree as JSON that means the same to every Avro library.

    A name or alias without a namespace gets a leading dot, so no library looks for it elsewhere.
    With `plain`, errors become records, and logical types are dropped.
    """

    def spell(node: Json) -> Json:
        if isinstance(node, list):
            return [spell(branch) for branch in node]
        if isinstance(node, str):
            return node if node in PRIMITIVES or "." in node else f".{node}"
        kind = node["type"]
        made = {name: each for name, each in node.items() if not plain or name != "logicalType"}
        if kind in INNER:
            made[INNER[kind]] = spell(node[INNER[kind]])
        elif kind in NAMED:
            made["name"] = spell(node["name"])
            if "aliases" in node:
                made["aliases"] = [spell(alias) for alias in node["aliases"]]
        if kind in RECORDS:
            made["type"] = "record" if plain else kind
            made["fields"] = [{**each, "type": spell(each["type"])} for each in node["fields"]]
        return made

    return spell(node)
