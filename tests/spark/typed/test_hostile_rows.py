"""Damaged payloads: each is reported by itself, and the rows around it are complete."""

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.scale import scaled
from tests.serdes.avro_samples import TREE, samples
from tests.serdes.compiling import avro, record
from tests.spark.typed.typed_values import (
    avro_source,
    decoded,
    json_source,
    payload,
    proto_source,
)
from tms.core.values.avro_lengths import avro_length
from tms.serdes.serde import SchemaSource

FLAT = record("R", id="string", count="int", tags={"type": "array", "items": "long"})
GOOD = {"id": "a", "count": 1, "tags": [1, 2]}
KINDS = {
    1: avro_source(FLAT),
    2: json_source({"type": "object", "properties": {"id": {"type": "string"}}}),
    3: proto_source('syntax = "proto3"; message M { M m = 1; string id = 2; }'),
    4: avro_source(TREE),
}


@settings(max_examples=scaled(200))
@given(st.sampled_from([*KINDS]), st.lists(st.binary(max_size=40), max_size=5))
def test_whatever_the_bytes_are_each_row_has_columns_or_an_error(
    kind: int, datas: list[bytes]
) -> None:
    payloads: list[bytes | None] = [payload(kind, each) for each in datas]
    found = decoded(KINDS[kind], KINDS, [*payloads, *datas, None])

    assert len(found.errors) == 2 * len(datas) + 1
    assert {len(column) for column in found.columns.values()} == {len(found.errors)}
    assert found.errors[-1] is None


@settings(max_examples=scaled(100))
@given(samples(), st.data())
def test_a_damaged_row_harms_no_other(sample: Any, data: Any) -> None:
    """Also if its announced length reaches into the next payload."""
    source, serde = avro_source(sample.schema), avro(sample.schema)
    good = [serde.encode(value) for value in data.draw(st.lists(sample.values, max_size=3))]
    bad = data.draw(st.binary(max_size=20))
    alone = decoded(source, {1: source}, [payload(1, bad)])
    at = data.draw(st.integers(0, len(good)))
    datas = [*good[:at], bad, *good[at:]]
    found = decoded(source, {1: source}, [payload(1, each) for each in datas])
    whole = decoded(source, {1: source}, [payload(1, each) for each in good])

    assert found.errors == [*[None] * at, *alone.errors, *[None] * (len(good) - at)]
    for name, column in found.columns.items():
        rows = column.to_pylist()
        del rows[at]
        assert repr(rows) == repr(whole.columns[name].to_pylist())


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (b"", "id: it is cut off"),
        (avro(FLAT).encode(GOOD)[:-1], "tags: "),
        (avro(FLAT).encode(GOOD) + b"x", "bytes left after the value: 1"),
        (b"\x02\xff" + b"\x02\x00", "id: "),
        (b"\x02a\x02" + avro_length(1 << 40), "tags: "),
        (b"\x00" + b"\xff" * 30, "count: "),
    ],
)
def test_the_reason_names_the_field(data: bytes, reason: str) -> None:
    source = KINDS[1]
    good = payload(1, avro(FLAT).encode(GOOD))
    found = decoded(source, KINDS, [good, payload(1, data), good])

    assert found.errors[::2] == [None, None]
    assert reason in str(found.errors[1])
    assert found.columns["id"].to_pylist() == ["a", None, "a"]


@pytest.mark.parametrize(
    ("given", "reason"),
    [
        (b"no schema", "it does not begin with a zero byte and a schema's id"),
        (b"\x00\x00", "it does not begin with"),
        (payload(9, b""), "schema 9 is not there"),
        (payload(2, b"{}"), "schema 2 is JSON, but it is read by one that is AVRO"),
        (payload(4, b""), ""),
    ],
)
def test_a_payload_of_another_schema_is_reported(given: bytes, reason: str) -> None:
    found = decoded(KINDS[1], KINDS, [given])

    assert reason in str(found.errors[0])
    assert found.errors != [None]


@pytest.mark.parametrize("depth", [10, 1000, 100_000])
def test_what_is_nested_deeply_is_an_error_or_a_value(depth: int) -> None:
    """Records within records of Avro and Protobuf, and JSON in a text column."""
    anything: SchemaSource = json_source({"type": "object", "properties": {"a": {}}})
    deep = {
        1: (KINDS[4], b"\x02" * depth),
        2: (anything, b'{"a":' * depth + b"1" + b"}" * depth),
        3: (KINDS[3], b"\x00" + b"\x0a\x7f" * depth),
    }
    for schema_id, (source, data) in deep.items():
        found = decoded(source, {schema_id: source}, [payload(schema_id, data)])
        assert len(found.errors) == 1
