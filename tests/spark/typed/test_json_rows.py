"""JSON values as columns and back, by JSON Schemas."""

import json
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.scale import scaled
from tests.serdes.avro_samples import TEXTS
from tests.spark.typed.typed_values import decoded, encoded, json_source, one, payload
from tms.serdes.serde import Unencodable

LONGS = st.integers(-(1 << 53), 1 << 53)
LEAVES: dict[str, st.SearchStrategy[Any]] = {
    "boolean": st.booleans(),
    "integer": LONGS,
    "number": st.floats(allow_nan=False, allow_infinity=False),
    "string": TEXTS,
}


@st.composite
def schemas_with_values(draw: st.DrawFn, depth: int = 2) -> tuple[Any, st.SearchStrategy[Any]]:
    """Give a schema, and its values."""
    kind = draw(st.sampled_from([*LEAVES, *(["array", "object", "map", "any"] if depth else [])]))
    if kind == "any":
        return {}, st.recursive(TEXTS | LONGS, st.lists, max_leaves=3)
    if kind == "array":
        inner, values = draw(schemas_with_values(depth - 1))
        return {"type": "array", "items": inner}, st.lists(values, max_size=3)
    if kind == "map":
        inner, values = draw(schemas_with_values(depth - 1))
        schema = {"type": "object", "additionalProperties": inner}
        return schema, st.dictionaries(TEXTS, values, max_size=3)
    if kind == "object":
        return draw(objects(depth))
    return draw(st.sampled_from([{"type": kind}, {"type": [kind]}])), LEAVES[kind]


@st.composite
def objects(draw: st.DrawFn, depth: int = 2) -> tuple[Any, st.SearchStrategy[Any]]:
    """Give a schema of objects, and its values."""
    names = draw(st.lists(TEXTS, min_size=1, max_size=3, unique=True))
    drawn = {name: draw(schemas_with_values(depth - 1)) for name in names}
    required = draw(st.lists(st.sampled_from(names), unique=True))
    properties = {name: schema for name, (schema, _) in drawn.items()}
    values = {name: each for name, (_, each) in drawn.items()}
    optional = {name: values.pop(name) for name in names if name not in required}
    schema = {"type": "object", "properties": properties, "required": required}
    return schema, st.fixed_dictionaries(values, optional=optional)


@settings(max_examples=scaled(150))
@given(schemas_with_values(), st.data())
def test_values_come_back_from_their_columns(drawn: Any, data: Any) -> None:
    schema, strategy = drawn
    values = data.draw(st.lists(strategy, max_size=3))
    source = json_source(schema)
    payloads = [payload(1, json.dumps(value).encode()) for value in values]
    found = decoded(source, {1: source}, payloads)

    assert found.errors == [None] * len(values)
    assert [json.loads(each) for each in encoded(source, found.columns, len(values))] == values


@settings(max_examples=scaled(100))
@given(objects(), objects(), st.data())
def test_what_another_schema_wrote_is_columns_or_an_error(old: Any, new: Any, data: Any) -> None:
    value = data.draw(old[1])
    found = decoded(
        json_source(new[0]), {1: json_source(old[0])}, [payload(1, json.dumps(value).encode())]
    )

    assert all(len(column) == 1 for column in found.columns.values())


EVENT = {
    "type": "object",
    "properties": {
        "what": {"type": "string"},
        "count": {"anyOf": [{"type": "integer"}, {"type": "null"}]},
        "where": {"$ref": "#/$defs/place"},
        "tree": {"$ref": "#/$defs/tree"},
    },
    "required": ["what", "count"],
    "$defs": {
        "place": {"type": "object", "properties": {"city": {"type": "string"}}},
        "tree": {"type": "object", "properties": {"next": {"$ref": "#/$defs/tree"}}},
    },
}


def test_references_and_what_may_be_null_have_the_column_of_what_they_are() -> None:
    value: dict[str, Any] = {"what": "x", "count": None, "where": {"city": "y"}}
    value["tree"] = {"next": {}}
    source = json_source(EVENT)
    found = decoded(source, {1: source}, [payload(1, json.dumps(value).encode())])

    assert one(found) == {**value, "tree": {"next": "{}"}}
    assert json.loads(encoded(source, found.columns, 1)[0]) == value


def test_a_row_that_does_not_fit_is_reported_by_its_field() -> None:
    columns = {"what": pa.array(["x"]), "count": pa.array([True])}
    with pytest.raises(Unencodable, match="count: it is bool, and int64 is expected"):
        encoded(json_source(EVENT), columns, 1)
    with pytest.raises(Unencodable, match='"count" is a required property'):
        encoded(json_source(EVENT), {"what": pa.array(["x"])}, 1)
