"""A value that a schema cannot express is refused with its field, and never stored as another one.

A value that cannot be read slows the rows around it only a little.
"""

import datetime as dt
import json
import math
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.scale import scaled
from tests.serdes.compiling import record
from tests.spark.typed.typed_values import (
    avro_source,
    decoded,
    encoded,
    json_source,
    one,
    payload,
    proto_source,
)
from tms.serdes.serde import SchemaSource, Unencodable
from tms.spark.typed.forms import ValueForm

MILLIS = {"type": "long", "logicalType": "timestamp-millis"}
LOCAL_MILLIS = {"type": "long", "logicalType": "local-timestamp-millis"}
PRICE = {"type": "bytes", "logicalType": "decimal", "precision": 5, "scale": 2}
PROTO = proto_source("""
    syntax = "proto3"; import "google/protobuf/wrappers.proto";
    import "google/protobuf/struct.proto";
    message R { float f = 1; optional float o = 2; repeated float r = 3; map<string, float> m = 4;
      google.protobuf.FloatValue w = 5; double d = 6; google.protobuf.Struct s = 7;
      int32 i = 8; uint32 u = 9; uint64 b = 10; }
""")
HUGE = pa.array([1e300])
MAP = pa.map_(pa.string(), pa.float64())


def avro_of(kind: Any) -> SchemaSource:
    return avro_source(record("R", a=kind))


def json_of(kind: Any) -> SchemaSource:
    return json_source({"type": "object", "properties": {"a": kind}})


NUMBER: dict[str, Any] = {"type": ["number", "null"]}
FINER = "a: .* has microseconds, and the schema counts milliseconds"


@pytest.mark.parametrize(
    ("source", "field", "column", "reason"),
    [
        (avro_of("float"), "a", HUGE, "a: 1e\\+300 is too large for float"),
        (avro_of(["null", "float"]), "a", pa.array([None, 1.0, -1e39]), "a: -1e\\+39 is too"),
        (avro_of({"type": "array", "items": "float"}), "a", pa.array([[1.0, 1e300]]), "a: 1e"),
        (avro_of({"type": "map", "values": "float"}), "a", pa.array([{"k": 1e300}], MAP), "a: 1e"),
        (avro_of(record("I", b="float")), "a", pa.array([{"b": 1e300}]), "a.b: 1e"),
        (avro_of(["string", "float"]), "a", pa.array(['{"float": 1e300}']), "not of type float"),
        (avro_of(["string", "double"]), "a", pa.array(['{"double": 1e400}']), "not of type double"),
        (avro_of("int"), "a", pa.array([1 << 31]), "a: .*not in range"),
        (avro_of("float"), "a", pa.array([(1 << 24) + 1]), "a: .*not in range"),
        (avro_of("double"), "a", pa.array([(1 << 53) + 1]), "a: .*not in range"),
        (avro_of(PRICE), "a", pa.array([Decimal("1.005")]), "a: .*data loss"),
        (avro_of(PRICE), "a", pa.array([Decimal("1000.00")]), "a: .*precision"),
        (avro_of(MILLIS), "a", pa.array([1_000, None, 1_001], pa.timestamp("us", "UTC")), FINER),
        (avro_of(MILLIS), "a", pa.array([-1], pa.timestamp("us", "UTC")), FINER),
        (avro_of(LOCAL_MILLIS), "a", pa.array([1_500], pa.timestamp("us")), FINER),
        (PROTO, "f", HUGE, "f: 1e"),
        (PROTO, "o", HUGE, "o: 1e"),
        (PROTO, "w", HUGE, "w: 1e"),
        (PROTO, "r", pa.array([[1e300]]), "r: 1e"),
        (PROTO, "m", pa.array([{"k": 1e300}], MAP), "m: 1e"),
        (PROTO, "s", pa.array(['{"a": 1e400}']), "s: .*Infinity"),
        (PROTO, "i", pa.array([1 << 31]), "i: .*not in range"),
        (PROTO, "u", pa.array([1 << 32]), "u: .*out of range"),
        (PROTO, "b", pa.array([Decimal(1 << 64)]), "b: .*out of range"),
        (PROTO, "b", pa.array([Decimal("0.5")]), "b: .*data loss"),
        (json_of(NUMBER), "a", pa.array([math.nan]), "a: nan is not a number of JSON"),
        (json_of(NUMBER), "a", pa.array([None, -math.inf]), "a: -inf is not a number of JSON"),
        (json_of({"type": "array", "items": NUMBER}), "a", pa.array([[math.inf]]), "a: inf"),
        (json_of({"type": "number"}), "a", pa.array([(1 << 53) + 1]), "a: .*not in range"),
        (json_of({"type": "integer"}), "a", pa.array([0.5]), "a: it is double"),
    ],
)
def test_a_value_that_does_not_fit_is_refused(
    source: SchemaSource, field: str, column: pa.Array, reason: str
) -> None:
    with pytest.raises(Unencodable, match=reason):
        encoded(source, {field: column}, len(column))


@settings(max_examples=scaled(200))
@given(
    st.sampled_from([(avro_of("float"), "a"), (PROTO, "f"), (PROTO, "w")]),
    st.floats(allow_nan=False)
    | st.floats(3.4028234e38, 3.4028237e38).flatmap(lambda each: st.sampled_from([each, -each])),
)
def test_a_double_is_rounded_to_a_float_or_refused(
    of: tuple[SchemaSource, str], number: float
) -> None:
    source, field = of
    with np.errstate(over="ignore"):
        rounded = float(np.float32(number))
    is_lost = math.isinf(rounded) and not math.isinf(number)
    try:
        [data] = encoded(source, {field: pa.array([number])}, 1)
    except Unencodable:
        assert is_lost
    else:
        assert not is_lost
        assert one(decoded(source, {1: source}, [payload(1, data)], [field])) == {field: rounded}


def test_times_of_whole_milliseconds_fit() -> None:
    times = [dt.datetime(1969, 12, 31, 23, 59, 59, 999_000, dt.UTC), None]
    source = avro_of(["null", MILLIS])
    datas = encoded(source, {"a": pa.array(times, pa.timestamp("us", "UTC"))}, 2)
    found = decoded(source, {1: source}, [payload(1, each) for each in datas])

    assert found.columns["a"].to_pylist() == times


@pytest.mark.parametrize("number", [(1 << 60) + 1, -(1 << 60) - 1, 10**30, 1, 0.5])
def test_a_number_of_json_is_the_nearest_double(number: float) -> None:
    source = json_of(NUMBER)
    found = decoded(source, {1: source}, [payload(1, json.dumps({"a": number}).encode())])

    assert one(found) == {"a": float(number)}


@settings(max_examples=scaled(50))
@given(st.lists(st.sampled_from([1, 2, None, 1 << 63, "x"]), max_size=300))
def test_rows_that_do_not_fit_are_reported_and_the_others_are_there(numbers: list[Any]) -> None:
    source = json_of({"type": ["integer", "null"]})
    datas = [payload(1, json.dumps({"a": each}).encode()) for each in numbers]
    found = decoded(source, {1: source}, datas)
    fits = [each is None or each in (1, 2) for each in numbers]

    assert [error is None for error in found.errors] == fits
    assert found.columns["a"].to_pylist() == [
        each if is_there else None for each, is_there in zip(numbers, fits, strict=True)
    ]


def test_one_row_that_does_not_fit_has_few_others_converted_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Converting row by row made a read of a thousand rows many times slower."""
    converted: list[int] = []
    columns = ValueForm.columns

    def counted(form: ValueForm, values: Any, wanted: Any) -> Any:
        converted.append(len(values))
        return columns(form, values, wanted)

    monkeypatch.setattr(ValueForm, "columns", counted)
    source = json_of({"type": "integer"})
    numbers = [*range(1000), 1 << 63, *range(1000)]
    datas = [payload(1, json.dumps({"a": each}).encode()) for each in numbers]
    found = decoded(source, {1: source}, datas)

    assert [row for row, error in enumerate(found.errors) if error is not None] == [1000]
    assert sum(converted) < 2.2 * len(numbers)
    assert len(converted) < 60
