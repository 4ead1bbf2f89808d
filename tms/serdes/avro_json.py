"""Avro's JSON encoding, and the defaults that a schema has in JSON. Pure.

A value of a union that is not null is an object with the type's name. Bytes are text of code points
up to 255, and logical types are their underlying values. fastavro's own JSON cannot be used: it
fails for recursive values, accepts values of other types, and ignores unknown fields.
"""

import math
from array import array
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from numbers import Integral, Real
from typing import Any

from fastavro.read import LOGICAL_READERS
from fastavro.write import LOGICAL_WRITERS

from tms.serdes.avro_tree import RECORDS
from tms.serdes.serde import Undecodable, Unencodable, shown_value

_NUMBERS = ("float", "double")
_BEYOND_JSON = ("NaN", "Infinity", "-Infinity")
"""Numbers that defaults may write as text."""
FLOAT_END = 2.0**128 - 2.0**103
"""The least number that becomes infinity when rounded to a float of 32 bits."""
_PAIR = 2
"""The length of a pair: the type's name and a value."""
_Known = dict[tuple[int, int], Any]
"""The result for a value and a branch, by the ids of both: JSON, or the error."""


class AvroJson:
    """The JSON of one schema's values."""

    def __init__(self, schema: Any, named: Mapping[str, Any]) -> None:
        """Take a schema as fastavro parsed it, with all named types in it.

        Its valid defaults become values.
        """
        self._schema = schema
        self._named = named
        self._has_raw_defaults = True
        fields = [
            field
            for each in named.values()
            for field in each.get("fields", ())
            if "default" in field
        ]
        values = [self._default_of(field) for field in fields]
        for field, value in zip(fields, values, strict=True):
            field["default"] = value
        self._has_raw_defaults = False
        self.has_shared_defaults = any(isinstance(value, dict | list) for value in values)
        """Whether callers may change a default within a value that they get."""

    def value(self, parsed: Any) -> Any:
        """Return the value of parsed JSON. Raises `Unencodable`.

        If it could be mistaken for another branch of a union, it is a pair with the branch's name.
        """
        return self._value(parsed, self._schema, "")

    def json_of(self, value: Any) -> Any:
        """Return a value as JSON. Raises `Undecodable`."""
        return self._json(value, self._schema, "", {})

    def _default_of(self, field: Any) -> Any:
        """Return the value of a field's default, unchanged if it has a wrong type.

        The registry accepts such defaults, as Confluent's does.
        """
        try:
            return self._value(field["default"], field["type"], "")
        except (Unencodable, RecursionError):
            return field["default"]

    def _described(self, schema: Any) -> Any:
        if isinstance(schema, dict):
            return schema
        return self._named.get(schema, {"type": schema})

    def _name(self, schema: Any) -> str:
        described = self._described(schema)
        return str(described.get("name", described["type"]))

    # From JSON.

    def _value(self, parsed: Any, schema: Any, field: str) -> Any:
        if isinstance(schema, list):
            in_union = self._default_in_union if self._has_raw_defaults else self._value_in_union
            return in_union(parsed, schema, field)
        described = self._described(schema)
        kind = described["type"]
        if kind == "array" and isinstance(parsed, list):
            return [self._value(each, described["items"], field) for each in parsed]
        if kind == "map" and isinstance(parsed, dict):
            values = described["values"]
            return {key: self._value(each, values, field) for key, each in parsed.items()}
        if kind in RECORDS and isinstance(parsed, dict):
            return self._record(parsed, described)
        is_beyond = self._has_raw_defaults and kind in _NUMBERS and parsed in _BEYOND_JSON
        raw = float(parsed) if is_beyond else _raw_of(parsed, kind)
        if _fits(raw, described):
            read = LOGICAL_READERS.get(f"{kind}-{described.get('logicalType')}")
            with suppress(Exception):  # Python raises these for wrong values.
                return raw if read is None else read(raw, described, None)
        raise Unencodable(f"{shown_value(parsed)} is not of type {_shown(described)}", field)

    def _value_in_union(self, parsed: Any, schema: list[Any], field: str) -> Any:
        if parsed is None and "null" in map(self._name, schema):
            return None
        if not isinstance(parsed, dict) or len(parsed) != 1:
            reason = (
                f"{shown_value(parsed)} is not an object with the name of one of the union's types"
            )
            raise Unencodable(reason, field)
        [(name, inner)] = parsed.items()
        chosen = next((each for each in schema if self._name(each) == name), None)
        if chosen is None or name == "null":
            raise Unencodable(f"its union does not have {name:.100}", field)
        value = self._value(inner, chosen, field)
        others = [each for each in schema if each is not chosen]
        is_known_by_name = isinstance(chosen, str) or chosen["type"] in RECORDS
        if is_known_by_name and any(_fits(value, self._described(other)) for other in others):
            return (name, value)
        return value

    def _record(self, parsed: dict[str, Any], described: Any) -> dict[str, Any]:
        fields = {field["name"]: field for field in described["fields"]}
        unknown = next((name for name in parsed if name not in fields), None)
        if unknown is not None:
            raise Unencodable("the schema has no such field", unknown)
        value = {}
        for name, field in fields.items():
            if name in parsed:
                value[name] = self._value(parsed[name], field["type"], name)
            elif "default" not in field:
                raise Unencodable("it is missing", name)
            else:
                value[name] = self._absent(field)
        return value

    def _absent(self, field: Any) -> Any:
        default = field["default"]
        if self._has_raw_defaults:
            return self._value(default, field["type"], field["name"])
        return copied(default)

    def _default_in_union(self, default: Any, schema: list[Any], field: str) -> Any:
        """Return the value of a default, which is not an object with a type's name."""
        for branch in schema:
            try:
                return self._value(default, branch, field)
            except Unencodable:
                continue
        raise Unencodable(f"{shown_value(default)} does not have a type of its union", field)

    # To JSON.

    def _json(self, value: Any, schema: Any, field: str, cached: _Known) -> Any:
        if isinstance(schema, list):
            return self._json_in_union(value, schema, field, cached)
        described = self._described(schema)
        kind = described["type"]
        write = LOGICAL_WRITERS.get(f"{kind}-{described.get('logicalType')}")
        try:
            raw = value if write is None else write(value, described)
        except Exception:  # like the reader's
            raw = None
        if not _fits(raw, described):
            raise Undecodable(f"{shown_value(value)} is not of type {_shown(described)}", field)
        if kind == "array":
            return [self._json(each, described["items"], field, cached) for each in raw]
        if kind == "map":
            values = described["values"]
            return {key: self._json(each, values, field, cached) for key, each in raw.items()}
        if kind in RECORDS:
            return {
                each["name"]: self._json(
                    raw[each["name"]] if each["name"] in raw else each["default"],
                    *(each["type"], each["name"], cached),
                )
                for each in described["fields"]
            }
        if kind in _NUMBERS:
            return float(raw) if math.isfinite(raw) else None
        return raw.decode("latin-1") if kind in ("bytes", "fixed") else raw

    def _json_in_union(self, value: Any, schema: list[Any], field: str, cached: _Known) -> Any:
        """Return a value by the first branch that it fits; `cached` has earlier results."""
        if isinstance(value, tuple) and len(value) == _PAIR:
            schema = [each for each in schema if self._name(each) == value[0]]
            value = value[1]
        for branch in schema:
            place = id(value), id(branch)
            if place not in cached:
                try:
                    cached[place] = self._json(value, branch, field, cached)
                except Undecodable as error:
                    cached[place] = error
            converted = cached[place]
            if not isinstance(converted, Undecodable):
                return None if value is None else {self._name(branch): converted}
        raise Undecodable(f"{shown_value(value)} does not have a type of its union", field)


def copied(value: Any) -> Any:
    """Return a copy of a value that shares no list or mapping with it."""
    if isinstance(value, dict):
        return {key: copied(each) for key, each in value.items()}
    return [copied(each) for each in value] if isinstance(value, list) else value


def _raw_of(value: Any, kind: str) -> Any:
    """Return the stored value of a JSON value, None if there is none."""
    try:
        if kind in ("bytes", "fixed"):
            return value.encode("latin-1") if isinstance(value, str) else None
        if kind in _NUMBERS and _is_number(value):
            return _finite(float(value), kind)
    except (UnicodeEncodeError, OverflowError):
        return None
    return value


def _finite(number: float, kind: str) -> float | None:
    """Return a number that can be stored, None if it would become infinity."""
    is_stored = abs(number) < FLOAT_END if kind == "float" else math.isfinite(number)
    return number if is_stored else None


def _is_number(value: Any) -> bool:
    return isinstance(value, Real) and not isinstance(value, bool)


def _is_whole(value: Any, bits: int) -> bool:
    bound = 1 << bits
    return (
        isinstance(value, Integral) and not isinstance(value, bool) and -bound <= int(value) < bound
    )


def _looks_like_record(value: Any, described: Any) -> bool:
    fields = described["fields"]
    if not isinstance(value, Mapping) or set(value) - {field["name"] for field in fields}:
        return False
    return all(field["name"] in value or "default" in field for field in fields)


_FITS: Mapping[str, Callable[[Any, Any], bool]] = {
    "null": lambda value, _: value is None,
    "boolean": lambda value, _: isinstance(value, bool),
    "int": lambda value, _: _is_whole(value, 31),
    "long": lambda value, _: _is_whole(value, 63),
    "float": lambda value, _: _is_number(value) and not FLOAT_END <= abs(value) < math.inf,
    "double": lambda value, _: _is_number(value),
    "string": lambda value, _: isinstance(value, str),
    "bytes": lambda value, _: isinstance(value, bytes | bytearray),
    "fixed": lambda value, kind: isinstance(value, bytes) and len(value) == kind["size"],
    "enum": lambda value, kind: isinstance(value, str) and value in kind["symbols"],
    "array": lambda value, _: (
        isinstance(value, Sequence | array) and not isinstance(value, str | bytes)
    ),
    "map": lambda value, _: isinstance(value, Mapping),
}


def _fits(value: Any, described: Any) -> bool:
    """Return whether a value looks like one of a type; its parts are not checked."""
    return _FITS.get(described["type"], _looks_like_record)(value, described)


def _shown(described: Any) -> str:
    return str(described.get("logicalType") or described.get("name") or described["type"])
