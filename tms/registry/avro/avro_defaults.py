"""Finds defaults in an Avro schema that do not fit their types, as Avro's Java library does.

Normalized schemas may have none, as in Confluent's registry. Each value is compared with each type
once, so the time is bounded by the size of the text, even for recursive types. The trees must be of
valid schemas (`tms.serdes.avro_tree`). Pure.
"""

import json
from collections.abc import Mapping
from typing import Any

from tms.serdes.avro_tree import INNER, RECORDS, AvroTree, kind_of, parts_of

Json = Any

_INT_MAX = {"int": 2**31 - 1, "long": 2**63 - 1}
_TEXTS = ("string", "bytes", "enum", "fixed")
_GREAT = ("Infinity", "-Infinity", "NaN")


def wrong_default(tree: AvroTree, referenced: Mapping[str, Json]) -> str:
    """Return what is wrong with the first default that does not fit its type, or "".

    `referenced` are the further types that the schema may name.
    """
    try:
        return _Defaults({**referenced, **tree.types}).first_wrong(tree.top)
    except RecursionError:
        return "a default is nested too deeply"


class _Defaults:
    def __init__(self, types: Mapping[str, Json]) -> None:
        self._types = types
        self._met: dict[tuple[object, int], bool] = {}
        """By type and value, whether they fit; True while they are compared."""

    def first_wrong(self, node: Json) -> str:
        """Return what is wrong with the first default in a part of a tree, or ""."""
        if isinstance(node, Mapping) and node["type"] in RECORDS:
            for field in node["fields"]:
                wrong = self.first_wrong(field["type"])
                if not wrong and "default" in field and not self._fits(field["type"], field):
                    shown = json.dumps(field["default"])
                    kind = kind_of(field["type"])
                    wrong = f"Invalid default for field {field['name']}: {shown:.200} not a {kind}"
                if wrong:
                    return wrong
            return ""
        return next(filter(None, map(self.first_wrong, parts_of(node))), "")

    def _fits(self, node: Json, holder: Json, key: Any = "default") -> bool:
        """Whether the value of `holder` at `key` fits a type."""
        value, found = holder[key], self._types.get(node, node) if isinstance(node, str) else node
        pair = (found if isinstance(found, str) else id(found), id(value))
        if pair not in self._met:
            self._met[pair] = True
            self._met[pair] = self._is_value(found, value)
        return self._met[pair]

    def _is_value(self, node: Json, value: Json) -> bool:
        kind = kind_of(node)
        if kind == "union":
            return any(self._fits(branch, (value,), 0) for branch in node)
        if kind == "array":
            inner = node[INNER[kind]]
            is_list = isinstance(value, list)
            return is_list and all(self._fits(inner, value, at) for at in range(len(value)))
        if kind == "map":
            inner = node[INNER[kind]]
            return isinstance(value, Mapping) and all(self._fits(inner, value, at) for at in value)
        if kind in RECORDS:
            return isinstance(value, Mapping) and all(
                self._has_field(field, value) for field in node["fields"]
            )
        return _is_primitive(kind, value)

    def _has_field(self, field: Json, value: Mapping[str, Json]) -> bool:
        if field["name"] in value:
            return self._fits(field["type"], value, field["name"])
        return "default" in field and self._fits(field["type"], field)


def _is_primitive(kind: str, value: Json) -> bool:
    if kind in _TEXTS:
        return isinstance(value, str)
    if kind == "null":
        return value is None
    if kind == "boolean" or isinstance(value, bool):
        return kind == "boolean" and isinstance(value, bool)
    if kind in _INT_MAX:
        return isinstance(value, int) and -_INT_MAX[kind] - 1 <= value <= _INT_MAX[kind]
    return isinstance(value, int | float) or value in _GREAT
