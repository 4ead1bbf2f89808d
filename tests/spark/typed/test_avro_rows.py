"""Avro values as columns and back, for any schema and for later schemas."""

import datetime as dt
import json
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.scale import scaled
from tests.serdes.avro_evolution import evolved
from tests.serdes.avro_samples import TREE, samples, trees
from tests.serdes.compiling import avro, record
from tests.spark.typed.typed_values import avro_source, decoded, encoded, one, payload
from tms.core.values.schema_types import AVRO
from tms.serdes.serde import SchemaSource, Unencodable, UnusableSchema
from tms.spark.typed.forms import form_of

few = settings(max_examples=scaled(150))


@few
@given(samples(), st.data())
def test_values_come_back_from_their_columns(sample: Any, data: Any) -> None:
    source, serde = avro_source(sample.schema), avro(sample.schema)
    values = data.draw(st.lists(sample.values, max_size=3))
    datas = [serde.encode(value) for value in values]
    found = decoded(source, {1: source}, [payload(1, each) for each in datas])
    again = encoded(source, found.columns, len(datas))

    assert found.errors == [None] * len(datas)
    assert {name: column.type for name, column in found.columns.items()} == form_of(source).types
    assert [serde.decode(each, 0) for each in again] == [serde.decode(each, 0) for each in datas]


@pytest.mark.parametrize("field", ["int", ["null", "int"]])
def test_a_record_that_may_be_null_is_one_column(field: Any) -> None:
    schema = ["null", record("R", a=field)]
    source, serde = avro_source(schema), avro(schema)
    values = [None, {"a": 1}, None if field == "int" else {"a": None}]
    found = decoded(source, {1: source}, [payload(1, serde.encode(each)) for each in values])

    assert found.columns["value"].to_pylist() == values
    assert [serde.decode(each, 0) for each in encoded(source, found.columns, 3)] == values


@few
@given(evolved())
def test_older_values_are_columns_of_a_later_schema(drawn: tuple[Any, Any, Any]) -> None:
    writer, reader, value = drawn
    sources = avro_source(writer), avro_source(reader)
    data = avro(writer).encode(value)
    later = avro(reader).encode(avro(writer).read_as(avro(reader)).decode(data, 0))
    found = decoded(sources[1], {1: sources[0]}, [payload(1, data)])
    expected = decoded(sources[1], {2: sources[1]}, [payload(2, later)])

    assert (found.errors, found.columns) == (expected.errors, expected.columns)


@settings(max_examples=scaled(50))
@given(st.lists(trees, max_size=3))
def test_values_within_themselves_come_back(values: list[Any]) -> None:
    source, serde = avro_source(TREE), avro(TREE)
    found = decoded(source, {1: source}, [payload(1, serde.encode(each)) for each in values])
    again = encoded(source, found.columns, len(values))

    assert [serde.decode(each, 0) for each in again] == values


EVERY = record(
    "Every",
    count=["null", "int"],
    day={"type": "int", "logicalType": "date"},
    price={"type": "bytes", "logicalType": "decimal", "precision": 5, "scale": 2},
    at={"type": "long", "logicalType": "timestamp-millis"},
    there={"type": "long", "logicalType": "local-timestamp-micros"},
    tags={"type": "map", "values": {"type": "array", "items": "string"}},
    size={"type": "enum", "name": "Size", "symbols": ["S", "L"]},
    inner=record("Inner", a="float"),
    what=["int", "string"],
)


def test_each_type_has_its_column() -> None:
    value = {
        "count": None,
        "day": dt.date(2026, 1, 2),
        "price": Decimal("-1.50"),
        "at": dt.datetime(2026, 1, 2, 3, 4, 5, 6000, dt.UTC),
        "there": dt.datetime(1900, 1, 2, 3, 4, 5, 6),  # noqa: DTZ001  a local time
        "tags": {"a": ["b"]},
        "size": "L",
        "inner": {"a": 1.5},
        "what": "x",
    }
    source = avro_source(EVERY)
    row = one(decoded(source, {1: source}, [payload(1, avro(EVERY).encode(value))]))

    assert row == {**value, "tags": [("a", ["b"])], "what": '{"string":"x"}'}
    assert str(form_of(source).types["price"]) == "decimal128(5, 2)"


def test_only_the_columns_that_are_wanted_are_made() -> None:
    schema = record("R", a="int", b=record("B", x="int"), c=["null", "B"], _d="string")
    source = avro_source(schema)
    data = avro(schema).encode({"a": 1, "b": {"x": 2}, "c": {"x": 3}, "_d": "4"})
    found = decoded(source, {1: source}, [payload(1, data)], ["c", "__d", "_topic"])

    assert one(found) == {"c": {"x": 3}, "__d": "4"}


def test_a_writer_that_counts_in_other_units_is_named() -> None:
    units = [{"type": "long", "logicalType": f"timestamp-{unit}"} for unit in ("millis", "micros")]
    old, new = (record("R", at=unit) for unit in units)
    data = avro(old).encode({"at": dt.datetime(2026, 1, 1, tzinfo=dt.UTC)})
    found = decoded(avro_source(new), {1: avro_source(old)}, [payload(1, data)])

    assert found.errors == [
        "at was written as timestamp-millis, but the schema that it is read by has timestamp-micros"
    ]


@pytest.mark.parametrize(
    ("columns", "reason"),
    [
        ({"a": pa.array([1])}, "b: it is missing"),
        ({"a": pa.array(["1"]), "b": pa.array(["x"])}, "a: it is string, and int32 is expected"),
        ({"a": pa.array([1 << 40]), "b": pa.array(["x"])}, "a: .*not in range"),
        ({"a": pa.array([None], pa.int64()), "b": pa.array(["x"])}, "a: None is not of type int"),
        ({"a": pa.array([1]), "b": pa.array(["x"]), "c": pa.array([1])}, "c: the schema has no"),
        ({"a": pa.array([1]), "b": pa.array(["x"]), "d": pa.array([{"z": 1}])}, "d.z: the schema"),
    ],
)
def test_a_row_that_does_not_fit_is_reported_by_its_field(columns: Any, reason: str) -> None:
    schema = record("R", a="int", b="string", d=(["null", record("D", y="int")], None))

    with pytest.raises(Unencodable, match=reason):
        encoded(avro_source(schema), columns, 1)


def test_a_column_without_a_default_may_be_left_out_if_the_schema_has_one() -> None:
    schema = record("R", a="int", b=("int", 7))
    [data] = encoded(avro_source(schema), {"a": pa.array([1])}, 1)

    assert avro(schema).decode(data, 0) == {"a": 1, "b": 7}


def test_a_value_that_is_not_a_record_is_one_column() -> None:
    source = avro_source("string")
    found = decoded(source, {1: source}, [payload(1, avro("string").encode("x"))])

    assert one(found) == {"value": "x"}
    with pytest.raises(Unencodable, match="give the one column value"):
        encoded(source, {"text": pa.array(["x"])}, 1)


def test_a_schema_that_cannot_be_used_is_reported() -> None:
    deep = '{"type":"array","items":' * 1000 + '"int"' + "}" * 1000

    for text in (deep, json.dumps({"type": "array", "items": "null"}), "{"):
        with pytest.raises(UnusableSchema):
            form_of(SchemaSource(AVRO, text))
