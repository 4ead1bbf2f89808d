"""The values of a JSON Schema as columns.

boolean, integer, string             BOOLEAN, BIGINT, STRING
number                               DOUBLE: the nearest one, for integers too
array with one schema for its items  ARRAY
object with properties               STRUCT of them; other properties are left out, and so is
                                     a property that is NULL, unless it is required
object with a schema for all others  MAP
T or null, as one type of two or as anyOf, oneOf     T, because every column may be NULL
a reference to a part of the schema  that part's, unless it contains itself
anything else                        STRING of JSON
"""

import json
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec
import pyarrow as pa
import pyarrow.compute as pc

from tms.spark.typed.columns import (
    ColumnForm,
    JsonColumn,
    ListColumn,
    MapColumn,
    PlainColumn,
    StructColumn,
    as_type,
    refuse_first,
)

_PLAIN = {"boolean": pa.bool_(), "integer": pa.int64(), "string": pa.string()}
_CHOICES = ("anyOf", "oneOf")
_REFERENCES_MAX = 100
"""One after another."""


class NumberColumn(PlainColumn):
    """Numbers; JSON may have integers that no double represents exactly."""

    def __init__(self) -> None:
        """Use a column of doubles."""
        super().__init__(pa.float64())

    def column(self, values: Sequence[Any]) -> pa.Array:
        """Return a column of values. Raises `OverflowError` for those above all doubles."""
        return super().column([None if value is None else float(value) for value in values])

    def values(self, column: pa.Array) -> list[Any]:
        """Return the values of a column. Raises `Unencodable` for those that JSON lacks."""
        is_unfit = pc.invert(pc.is_finite(as_type(column, self.arrow)))
        refuse_first(column, is_unfit, "is not a number of JSON")
        return super().values(column)


class ObjectColumn(StructColumn):
    """Objects, in which a property may be missing."""

    def __init__(self, fields: Mapping[str, ColumnForm], required: frozenset[str]) -> None:
        """Use properties, some of which are never left out."""
        super().__init__(fields)
        self._required = required

    def values_of(self, columns: Mapping[str, pa.Array], count: int) -> list[Any]:
        """Return objects without the properties that are null and optional."""
        return [
            {
                name: each
                for name, each in value.items()
                if each is not None or name in self._required
            }
            for value in super().values_of(columns, count)
        ]


def json_form(text: str) -> ColumnForm:
    """Return the form of a schema's values in a column; for an object, a `StructColumn`."""
    whole = json.loads(text)
    return _form(whole, whole, ())


def _form(whole: Any, part: Any, within: tuple[int, ...]) -> ColumnForm:
    part, seen = _meant(whole, part)
    if not isinstance(part, dict) or set(within) & seen:
        return _any()
    within = (*within, *seen)
    kind = _kind(part)
    items, properties, others = (
        part.get(name) for name in ("items", "properties", "additionalProperties")
    )
    if kind == "array" and isinstance(items, dict) and not part.get("prefixItems"):
        return ListColumn(_form(whole, items, within))
    if kind == "object" and isinstance(properties, dict) and properties:
        fields = {name: _form(whole, each, within) for name, each in properties.items()}
        required = part.get("required")
        return ObjectColumn(
            fields, frozenset(required) if isinstance(required, list) else frozenset()
        )
    if kind == "object" and isinstance(others, dict) and not part.get("patternProperties"):
        return MapColumn(_form(whole, others, within))
    if kind == "number":
        return NumberColumn()
    plain = _PLAIN.get(kind)
    return _any() if plain is None else PlainColumn(plain)


def _meant(whole: Any, part: Any) -> tuple[Any, set[int]]:
    """Return the target of a part's references and of a choice with null, and the steps."""
    seen: set[int] = set()
    for _ in range(_REFERENCES_MAX):
        seen.add(id(part))
        if not isinstance(part, dict):
            return part, seen
        chosen = _only_choice(part)
        if isinstance(part.get("$ref"), str):
            part = _at(whole, part["$ref"])
        elif chosen is not None:
            part = chosen
        else:
            return part, seen
    return None, seen


def _only_choice(part: Mapping[str, Any]) -> Any:
    """Return the only choice of a part except null, None if there are several."""
    for name in _CHOICES:
        choices = part.get(name)
        if isinstance(choices, list):
            others = [choice for choice in choices if choice != {"type": "null"}]
            return others[0] if len(others) == 1 else None
    return None


def _at(whole: Any, reference: str) -> Any:
    """Return the part that a reference within the schema names, None if it is elsewhere."""
    start, *steps = reference.split("/")
    node = whole if start == "#" else None
    for step in steps:
        name = step.replace("~1", "/").replace("~0", "~")
        node = node.get(name) if isinstance(node, dict) else None
    return node


def _kind(part: Mapping[str, Any]) -> str:
    """Return the only type of a value except null, empty if there are several."""
    kind = part.get("type")
    kinds = [each for each in kind if each != "null"] if isinstance(kind, list) else [kind]
    return kinds[0] if len(kinds) == 1 and isinstance(kinds[0], str) else ""


def _any() -> JsonColumn:
    return JsonColumn(msgspec.json.encode, msgspec.json.decode)
