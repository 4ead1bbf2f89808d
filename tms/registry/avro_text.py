"""The text in which the registry keeps an Avro schema: that of Avro's Java library. Pure.

Two texts of one schema that differ in spaces, in the order of attributes or in how names are
written have one such text, so they are one schema. Doc, aliases, defaults and other attributes are
kept. Normalized text also has those attributes, and the keys within defaults, in order, and writes
numbers for float and double as such.

The schema must have been parsed and found right before: what is wrong here raises `KeyError`,
`TypeError` or `RecursionError`.
"""

import json
from collections.abc import Container, Iterator, Mapping, Sequence
from decimal import Decimal
from typing import Any

from tms.registry.json_text import json_string as _string

_PRIMITIVES = frozenset(("null", "boolean", "int", "long", "float", "double", "bytes", "string"))
_NAMED = {"record": "fields", "error": "fields", "enum": "symbols", "fixed": "size"}
_SCHEMA_RESERVED = frozenset(
    (
        *("doc", "fields", "items", "name", "namespace", "size", "symbols", "values", "type"),
        "aliases",
    )
)
_FIELD_RESERVED = frozenset(("default", "doc", "name", "order", "type", "aliases"))
_PLAIN_EXPONENTS = range(-3, 7)
"""Between them Java writes a double without an exponent."""

Json = Any


def avro_text(schema: Json, known: Container[str] = (), *, normalized: bool = False) -> str:
    """Return the text of a schema, as `json.loads` gave it.

    `known` are the full names of types that it may refer to besides its own.
    """
    return _Printer(known, {}, normalized=normalized).text(schema, "")


def resolved_text(schema: Json, references: Sequence[Json]) -> str:
    """Return the text of a schema with the types of its references where they are first named."""
    defined: dict[str, Json] = {}
    for reference in references:
        defined.update(_definitions(reference, ""))
    return _Printer(defined, defined, normalized=False).text(schema, "")


def _definitions(schema: Json, namespace: str) -> Iterator[tuple[str, Json]]:
    """Give the named types that a schema defines, by their full names."""
    if isinstance(schema, list):
        for branch in schema:
            yield from _definitions(branch, namespace)
    if not isinstance(schema, Mapping):
        return
    kind = schema["type"]
    if kind in _NAMED:
        full_name = _name_of(schema, namespace)
        own = _split(full_name)[0]
        yield full_name, {**schema, "name": _split(full_name)[1], "namespace": own}
        for field in schema.get("fields", ()):
            yield from _definitions(field["type"], own)
    elif kind in ("array", "map"):
        yield from _definitions(schema["items" if kind == "array" else "values"], namespace)
    else:
        yield from _definitions(kind, namespace)


def _name_of(schema: Mapping[str, Json], namespace: str) -> str:
    name: str = schema["name"]
    return name if "." in name else _full_name(name, schema.get("namespace", namespace))


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


def _full_name(name: str, namespace: str) -> str:
    return name if "." in name or not namespace else f"{namespace}.{name}"


def _split(full_name: str) -> tuple[str, str]:
    """Return a full name's namespace, which may be empty, and its last part."""
    namespace, _, name = full_name.rpartition(".")
    return namespace, name


class _Printer:
    def __init__(
        self, known: Container[str], inlined: Mapping[str, Json], *, normalized: bool
    ) -> None:
        self._known = known
        self._inlined = inlined
        self._normalized = normalized
        self._own: set[str] = set()

    def text(self, schema: Json, namespace: str) -> str:
        """Return the text of a schema within a namespace."""
        if isinstance(schema, list):
            return f"[{','.join(self.text(branch, namespace) for branch in schema)}]"
        if isinstance(schema, str):
            return self._name(schema, namespace)
        kind = schema["type"]
        if kind in _NAMED:
            return self._named(schema, kind, namespace)
        if kind in ("array", "map"):
            part = "items" if kind == "array" else "values"
            parts = [("type", _string(kind)), (part, self.text(schema[part], namespace))]
            return self._object(parts + self._others(schema, _SCHEMA_RESERVED))
        if kind not in _PRIMITIVES:
            return self._name(kind, namespace)
        others = self._others(schema, _SCHEMA_RESERVED)
        return self._object([("type", _string(kind)), *others]) if others else _string(kind)

    def _name(self, name: str, namespace: str) -> str:
        """Return the type that a name means: the name, or the type itself if it is to be there."""
        if name in _PRIMITIVES:
            return _string(name)
        for full_name in (_full_name(name, namespace), name):
            if full_name in self._inlined and full_name not in self._own:
                inlined = self._inlined[full_name]
                return self._named(inlined, inlined["type"], namespace)
        return _string(self._reference(name, namespace))

    def _reference(self, name: str, namespace: str) -> str:
        """Return a name as it is written within a namespace."""
        full_name = _full_name(name, namespace)
        if "." not in name and full_name not in self._own and full_name not in self._known:
            return name
        own_namespace, last = _split(full_name)
        return last if own_namespace in ("", namespace) else full_name

    def _named(self, schema: Mapping[str, Json], kind: str, namespace: str) -> str:
        full_name = _name_of(schema, namespace)
        own, last = _split(full_name)
        if full_name in self._own and full_name in self._inlined:
            return _string(self._reference(full_name, namespace))
        self._own.add(full_name)
        written = "record" if kind == "error" and self._normalized else kind
        parts = [("type", _string(written)), ("name", _string(last))]
        if own != namespace:
            parts.append(("namespace", _string(own)))
        parts += self._doc(schema)
        reserved = _SCHEMA_RESERVED
        if kind == "fixed":
            parts.append(("size", str(schema["size"])))
        elif kind == "enum":
            parts.append(("symbols", _value(schema["symbols"], ordered=False)))
            reserved = reserved | {"default"}
            if "default" in schema:
                parts.append(("default", _string(schema["default"])))
        else:
            fields = [self._field(field, own) for field in schema["fields"]]
            parts.append(("fields", f"[{','.join(fields)}]"))
        parts += self._others(schema, reserved)
        if schema.get("aliases"):
            aliases = [self._alias(alias, own) for alias in dict.fromkeys(schema["aliases"])]
            parts.append(("aliases", _value(aliases, ordered=False)))
        return self._object(parts)

    @staticmethod
    def _alias(alias: str, namespace: str) -> str:
        """Return an alias of a type as it is written beside the type's own namespace."""
        own, last = _split(_full_name(alias, namespace))
        return last if own in ("", namespace) else f"{own}.{last}"

    def _field(self, field: Mapping[str, Json], namespace: str) -> str:
        parts = [("name", _string(field["name"])), ("type", self.text(field["type"], namespace))]
        parts += self._doc(field)
        if "default" in field:
            parts.append(("default", self._default(field["default"], field["type"])))
        order = field.get("order", "ascending").lower()
        if order != "ascending":
            parts.append(("order", _string(order)))
        if field.get("aliases"):
            aliases = list(dict.fromkeys(field["aliases"]))
            parts.append(("aliases", _value(aliases, ordered=False)))
        return self._object(parts + self._others(field, _FIELD_RESERVED))

    def _default(self, default: Json, schema: Json) -> str:
        kind = schema["type"] if isinstance(schema, Mapping) else schema
        is_whole = isinstance(default, int) and not isinstance(default, bool)
        if self._normalized and is_whole and kind in ("float", "double"):
            return _double(float(default))
        return _value(default, ordered=self._normalized)

    def _doc(self, schema: Mapping[str, Json]) -> list[tuple[str, str]]:
        doc = schema.get("doc")
        is_kept = isinstance(doc, str) and (doc or not self._normalized)
        return [("doc", _string(doc))] if is_kept and isinstance(doc, str) else []

    def _others(
        self, schema: Mapping[str, Json], reserved: Container[str]
    ) -> list[tuple[str, str]]:
        """Return the attributes that Avro gives no meaning here."""
        others = [
            (name, _value(value, ordered=self._normalized))
            for name, value in schema.items()
            if name not in reserved
        ]
        return sorted(others) if self._normalized else others

    @staticmethod
    def _object(parts: list[tuple[str, str]]) -> str:
        return f"{{{','.join(f'{_string(name)}:{text}' for name, text in parts)}}}"
