"""The text in which the registry stores an Avro schema: that of Avro's Java library. Pure.

Texts that differ only in spaces, in the order of attributes or in the form of names have one such
text, so they are one schema. Doc, aliases, defaults and other attributes are kept. Normalized text
also sorts those attributes and the keys within defaults, and writes float and double defaults as
such. A type without a namespace gets the one that encloses it, as in Confluent's registry.

The trees must be of valid schemas (`tms.serdes.avro_tree`).
"""

import json
from collections.abc import Container, Mapping
from decimal import Decimal
from typing import Any

from tms.registry.json.json_text import json_string as _string
from tms.serdes.avro_tree import INNER, NAMED, PRIMITIVES, AvroTree, kind_of, number_of, split

_SCHEMA_RESERVED = frozenset(
    (
        *("doc", "fields", "items", "name", "namespace", "size", "symbols", "values", "type"),
        "aliases",
    )
)
_FIELD_RESERVED = frozenset(("default", "doc", "name", "order", "type", "aliases"))
_TYPES = frozenset((*PRIMITIVES, *NAMED, *INNER, "union"))
_PLAIN_EXPONENTS = range(-3, 7)
"""Between these, Java writes a double without an exponent."""

Json = Any
_Types = Mapping[str, Json]
"""Types by full name."""


def avro_text(tree: AvroTree, referenced: _Types | None = None, *, normalized: bool = False) -> str:
    """Return the text of a schema, which may refer to `referenced` types in addition to its own."""
    types = {**(referenced or {}), **tree.types}
    return _Printer(types, {}, normalized=normalized).text(tree.top, "")


def resolved_text(
    tree: AvroTree, referenced: _Types, *, normalized: bool = False, renames: bool = True
) -> str:
    """Return the text of a schema with the `referenced` types at their first occurrence.

    Without `renames`, a type without a namespace does not get one in normalized text either.
    """
    types = {**referenced, **tree.types}
    return _Printer(types, referenced, normalized=normalized, renames=renames).text(tree.top, "")


def _double(value: float) -> str:
    """Return a number as Java's Double.toString does."""
    sign, digits, exponent = Decimal(repr(value)).as_tuple()
    assert isinstance(exponent, int)
    shown = "".join(map(str, digits)).lstrip("0")
    if not shown:
        return "-0.0" if sign else "0.0"
    power = len(shown) + exponent - 1
    shown = shown.rstrip("0")
    minus = "-" if sign else ""
    if power not in _PLAIN_EXPONENTS:
        return f"{minus}{shown[0]}.{shown[1:] or '0'}E{power}"
    if power < 0:
        return f"{minus}0.{'0' * (-power - 1)}{shown}"
    shown = shown.ljust(power + 1, "0")
    return f"{minus}{shown[: power + 1]}.{shown[power + 1 :] or '0'}"


def _value(value: Json, *, ordered: bool) -> str:
    """Return any JSON value."""
    if isinstance(value, str):
        return _string(value)
    if isinstance(value, float):
        return _double(value)
    if isinstance(value, list):
        return f"[{','.join(_value(each, ordered=ordered) for each in value)}]"
    if isinstance(value, Mapping):
        items = sorted(value.items()) if ordered else value.items()
        pairs = (f"{_string(key)}:{_value(each, ordered=ordered)}" for key, each in items)
        return f"{{{','.join(pairs)}}}"
    return json.dumps(value)


class _Printer:
    def __init__(
        self, types: _Types, inlined: _Types, *, normalized: bool, renames: bool = True
    ) -> None:
        self._types = types
        self._inlined = inlined
        self._normalized = normalized
        self._renames = normalized and renames
        self._written: set[str] = set()
        self._renamed: dict[str, str] = {}
        """By full name, the names in normalized text."""

    def text(self, node: Json, namespace: str) -> str:
        """Return the text of a part of a tree within a namespace."""
        if isinstance(node, list):
            return f"[{','.join(self.text(branch, namespace) for branch in node)}]"
        if isinstance(node, str):
            return self._name(node, namespace)
        kind = node["type"]
        if kind in NAMED:
            return self._named(node, kind, namespace)
        others = self._others(node, _SCHEMA_RESERVED)
        if kind in INNER:
            part = INNER[kind]
            inner = self.text(node[part], namespace)
            return self._object([("type", _string(kind)), (part, inner), *others])
        return self._object([("type", _string(kind)), *others]) if others else _string(kind)

    def _name(self, name: str, namespace: str) -> str:
        """Return a type by its name, or its definition at the first occurrence."""
        if name in PRIMITIVES:
            return _string(name)
        if name in self._inlined and name not in self._written:
            inlined = self._inlined[name]
            return self._named(inlined, inlined["type"], namespace)
        return _string(self._reference(name, namespace))

    def _reference(self, full: str, namespace: str) -> str:
        """Return the form of a full name within a namespace."""
        own, last = split(self._renamed.get(full, full))
        if own == namespace and not (own and last in _TYPES):
            return last
        if own:
            return f"{own}.{last}"
        # Java first resolves a name within the namespace, if it exists there.
        return f".{last}" if f"{namespace}.{last}" in self._types else last

    def _named(self, node: Mapping[str, Json], kind: str, namespace: str) -> str:
        full = node["name"]
        if full in self._written:
            return _string(self._reference(full, namespace))
        self._written.add(full)
        own, last = split(full)
        if self._renames and not own and f"{namespace}.{last}" not in self._types:
            own = namespace
            self._renamed[full] = f"{own}.{last}" if own else last
        written = "record" if kind == "error" and self._normalized else kind
        parts = [("type", _string(written)), ("name", _string(last))]
        if own != namespace:
            parts.append(("namespace", _string(own)))
        parts += self._doc(node)
        reserved = _SCHEMA_RESERVED
        if kind == "fixed":
            parts.append(("size", str(node["size"])))
        elif kind == "enum":
            parts.append(("symbols", _value(node["symbols"], ordered=False)))
            reserved = reserved | {"default"}
            if "default" in node:
                parts.append(("default", _string(node["default"])))
        else:
            fields = [self._field(field, own) for field in node["fields"]]
            parts.append(("fields", f"[{','.join(fields)}]"))
        parts += self._others(node, reserved)
        if node.get("aliases"):
            aliases = [self._alias(alias, own) for alias in node["aliases"]]
            parts.append(("aliases", _value(aliases, ordered=False)))
        return self._object(parts)

    @staticmethod
    def _alias(alias: str, namespace: str) -> str:
        """Return the form of a type's alias, relative to the type's own namespace."""
        own, last = split(alias)
        if own == namespace:
            return last
        return alias if own else f".{last}"

    def _field(self, field: Mapping[str, Json], namespace: str) -> str:
        parts = [("name", _string(field["name"])), ("type", self.text(field["type"], namespace))]
        parts += self._doc(field)
        if "default" in field:
            parts.append(("default", self._default(field["default"], field["type"])))
        order = field.get("order", "ascending").lower()
        if order != "ascending":
            parts.append(("order", _string(order)))
        if field.get("aliases"):
            parts.append(("aliases", _value(field["aliases"], ordered=False)))
        return self._object(parts + self._others(field, _FIELD_RESERVED))

    def _default(self, default: Json, node: Json) -> str:
        kind = kind_of(node)
        is_whole = isinstance(default, int) and not isinstance(default, bool)
        if self._normalized and is_whole and kind in ("float", "double"):
            return _value(number_of(str(default)), ordered=False)
        return _value(default, ordered=self._normalized)

    def _doc(self, schema: Mapping[str, Json]) -> list[tuple[str, str]]:
        doc = schema.get("doc")
        is_kept = isinstance(doc, str) and (doc or not self._normalized)
        return [("doc", _string(doc))] if is_kept and isinstance(doc, str) else []

    def _others(
        self, schema: Mapping[str, Json], reserved: Container[str]
    ) -> list[tuple[str, str]]:
        """Return the attributes without a meaning in Avro."""
        others = [
            (name, _value(value, ordered=self._normalized))
            for name, value in schema.items()
            if name not in reserved
        ]
        return sorted(others) if self._normalized else others

    @staticmethod
    def _object(parts: list[tuple[str, str]]) -> str:
        return f"{{{','.join(f'{_string(name)}:{text}' for name, text in parts)}}}"
