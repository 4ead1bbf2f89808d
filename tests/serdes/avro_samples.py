"""Random Avro schemas with values of them, as strategies of hypothesis.

No Python value fits two branches of the same union.
"""

import datetime as dt
import string
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

from hypothesis import strategies as st

Values = st.SearchStrategy[Any]
Drawn = tuple[Any, Values]
"""A schema, and its values."""

UTC = dt.UTC
TEXTS = st.text(st.characters(codec="utf-8"), max_size=8)
INTS = st.integers(-(1 << 31), (1 << 31) - 1)
LONGS = st.integers(-(1 << 63), (1 << 63) - 1)
DOUBLES = st.floats(allow_nan=False, allow_infinity=False)
FLOATS = st.floats(width=32, allow_nan=False, allow_infinity=False)
TIMES = st.times()
MOMENTS = st.datetimes()
PRIMITIVES: dict[str, Values] = {
    "null": st.none(),
    "boolean": st.booleans(),
    "int": INTS,
    "long": LONGS,
    "float": FLOATS,
    "double": DOUBLES,
    "string": TEXTS,
    "bytes": st.binary(max_size=8),
}


def _in_ms(moment: Any) -> Any:
    return moment.replace(microsecond=moment.microsecond // 1000 * 1000)


LOGICAL: dict[tuple[str, str], Values] = {
    ("int", "date"): st.dates(),
    ("int", "time-millis"): TIMES.map(_in_ms),
    ("long", "time-micros"): TIMES,
    ("long", "timestamp-millis"): MOMENTS.map(_in_ms).map(lambda each: each.replace(tzinfo=UTC)),
    ("long", "timestamp-micros"): MOMENTS.map(lambda each: each.replace(tzinfo=UTC)),
    ("long", "local-timestamp-millis"): MOMENTS.map(_in_ms),
    ("long", "local-timestamp-micros"): MOMENTS,
    ("string", "uuid"): st.uuids(),
}


@dataclass
class _Names:
    """Type names that are unique within a schema."""

    prefix: str
    count: int = 0

    def new(self) -> str:
        self.count += 1
        return f"{self.prefix}{self.count}"


@dataclass(frozen=True)
class Sample:
    """A schema, and its values."""

    schema: Any
    values: Values


def _primitive(draw: st.DrawFn, names: _Names) -> Drawn:
    kind = draw(st.sampled_from(list(PRIMITIVES)))
    return kind, PRIMITIVES[kind]


def _logical(draw: st.DrawFn, names: _Names) -> Drawn:
    kind, logical = draw(st.sampled_from(list(LOGICAL)))
    return {"type": kind, "logicalType": logical}, LOGICAL[kind, logical]


def _decimal(draw: st.DrawFn, names: _Names) -> Drawn:
    precision = draw(st.integers(1, 20))
    scale = draw(st.integers(0, precision))
    bound = 10**precision - 1
    schema = {"type": "bytes", "logicalType": "decimal", "precision": precision, "scale": scale}
    return schema, st.integers(-bound, bound).map(lambda each: Decimal(each).scaleb(-scale))


def _fixed(draw: st.DrawFn, names: _Names) -> Drawn:
    size = draw(st.integers(1, 5))
    schema = {"type": "fixed", "name": names.new(), "size": size}
    return schema, st.binary(min_size=size, max_size=size)


def _enum(draw: st.DrawFn, names: _Names) -> Drawn:
    symbols = draw(st.lists(st.sampled_from(string.ascii_letters), min_size=1, unique=True))
    schema = {"type": "enum", "name": names.new(), "symbols": symbols}
    return schema, st.sampled_from(symbols)


Maker = Callable[[st.DrawFn, _Names], Drawn]
FAMILIES: Sequence[Sequence[Maker]] = (
    (_primitive, _primitive, _fixed, _enum),
    (_primitive, _primitive, _logical, _decimal, _fixed, _enum),
)
"""Leaves: without logical types, and with them."""
DATE = {"type": "int", "logicalType": "date"}
BRANCHES: Sequence[Sequence[str]] = (["boolean"], ["int", "long", "float", "double"], ["string"])


def _drawn(draw: st.DrawFn, names: _Names, leaves: Sequence[Maker], depth: int) -> Drawn:
    kinds = ["leaf", "array", "map", "record", "union"] if depth else ["leaf"]
    kind = draw(st.sampled_from(kinds))
    if kind == "leaf":
        return draw(st.sampled_from(leaves))(draw, names)
    if kind == "record":
        return _record(draw, names, leaves, depth)
    if kind == "union":
        return _union(draw, names, leaves, depth)
    inner, values = _drawn(draw, names, leaves, depth - 1)
    if kind == "map":
        return {"type": "map", "values": inner}, st.dictionaries(TEXTS, values, max_size=3)
    if _may_be_empty(inner):
        inner, values = "int", INTS
    return {"type": "array", "items": inner}, st.lists(values, max_size=3)


def _may_be_empty(schema: Any) -> bool:
    is_record = isinstance(schema, dict) and schema["type"] == "record"
    if is_record:
        return all(_may_be_empty(each["type"]) for each in schema["fields"])
    return bool(schema == "null")


def _record(draw: st.DrawFn, names: _Names, leaves: Sequence[Maker], depth: int) -> Drawn:
    name = names.new()
    fields = [_drawn(draw, names, leaves, depth - 1) for _ in range(draw(st.integers(0, 4)))]
    schema = {
        "type": "record",
        "name": name,
        "fields": [{"name": f"f{n}", "type": kind} for n, (kind, _) in enumerate(fields)],
    }
    return schema, st.fixed_dictionaries({f"f{n}": each for n, (_, each) in enumerate(fields)})


def _union(draw: st.DrawFn, names: _Names, leaves: Sequence[Maker], depth: int) -> Drawn:
    chosen = draw(st.lists(st.sampled_from(range(len(BRANCHES) + 3)), min_size=1, unique=True))
    drawn: list[Drawn] = [("null", st.none())] if draw(st.booleans()) else []
    for index in chosen:
        if index < len(BRANCHES):
            kind = draw(st.sampled_from(BRANCHES[index]))
            is_date = "int" in BRANCHES[index] and _logical in leaves and draw(st.booleans())
            drawn.append((DATE, st.dates()) if is_date else (kind, PRIMITIVES[kind]))
        elif index == len(BRANCHES):
            drawn.append(_fixed(draw, names))
        elif index == len(BRANCHES) + 1:
            drawn.append(_record(draw, names, leaves, depth))
        else:
            # Not numbers: fastavro accepts bytes as an array of them.
            drawn.append(({"type": "array", "items": "string"}, st.lists(TEXTS, max_size=3)))
    drawn = draw(st.permutations(drawn))
    return [kind for kind, _ in drawn], st.one_of([each for _, each in drawn])


@st.composite
def samples(draw: st.DrawFn, *, logical: bool = True, prefix: str = "N") -> Sample:
    """Generate schemas, at most three deep, whose type names begin with a prefix."""
    return Sample(*_drawn(draw, _Names(prefix), FAMILIES[logical], 3))


@st.composite
def schemas_with_value(
    draw: st.DrawFn, *, logical: bool = True, prefix: str = "N"
) -> tuple[Any, Any]:
    """Generate a schema and one value of it."""
    sample = draw(samples(logical=logical, prefix=prefix))
    return sample.schema, draw(sample.values)


TREE = {
    "type": "record",
    "name": "Tree",
    "namespace": "a.b",
    "fields": [
        {"name": "kids", "type": {"type": "array", "items": "Tree"}},
        {"name": "next", "type": ["null", "Tree"], "default": None},
        {"name": "by", "type": {"type": "map", "values": "a.b.Tree"}, "default": {}},
        {"name": "n", "type": "int"},
    ],
}
"""A schema that contains itself, in every possible way."""
LEAF = st.builds(lambda n: {"kids": [], "next": None, "by": {}, "n": n}, INTS)


def _grown(inner: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    return st.fixed_dictionaries(
        {
            "kids": st.lists(inner, max_size=2),
            "next": st.none() | inner,
            "by": st.dictionaries(TEXTS, inner, max_size=2),
            "n": INTS,
        }
    )


trees: st.SearchStrategy[Any] = st.recursive(LEAF, _grown, max_leaves=8)
