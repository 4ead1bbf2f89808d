"""Values are read by another schema with the same result as in Avro's own library."""

import io
import json
from typing import Any

import pytest
from avro.io import BinaryDecoder, DatumReader
from avro.schema import parse
from hypothesis import given, settings

from tests.scale import scaled
from tests.serdes.avro_evolution import evolved
from tests.serdes.compiling import avro, record
from tms.serdes.serde import Undecodable


def theirs(writer: Any, reader: Any, data: bytes) -> Any:
    """Return what Avro's own library reads."""
    schemas = parse(json.dumps(writer)), parse(json.dumps(reader))
    return DatumReader(*schemas).read(BinaryDecoder(io.BytesIO(data)))


@settings(max_examples=scaled(150))
@given(evolved())
def test_what_is_read_by_a_later_schema_is_what_avros_own_library_reads(
    drawn: tuple[Any, Any, Any],
) -> None:
    writer, reader, value = drawn
    data = avro(writer).encode(value)

    assert avro(writer).read_as(avro(reader)).decode(data, 0) == theirs(writer, reader, data)


@pytest.mark.parametrize(
    ("written", "read", "value", "expected"),
    [
        ("int", "double", 5, 5.0),
        ("string", "bytes", "ab", b"ab"),
        ("bytes", "string", b"ab", "ab"),
        (["int", "string"], "long", 5, 5),
        ("int", ["null", "double"], 5, 5.0),
        ({"type": "array", "items": "int"}, {"type": "array", "items": "double"}, [1], [1.0]),
        (
            {"type": "map", "values": "int"},
            {"type": "map", "values": ["null", "long"]},
            {"a": 1},
            {"a": 1},
        ),
        (
            {"type": "enum", "name": "E", "symbols": ["A", "B"]},
            {"type": "enum", "name": "E", "symbols": ["C", "A"], "default": "C"},
            "B",
            "C",
        ),
        (
            record("S", a="int"),
            record("T", a="int") | {"aliases": ["S"]},
            {"a": 1},
            {"a": 1},
        ),
    ],
)
def test_types_are_promoted_as_the_specification_says(
    written: Any, read: Any, value: Any, expected: Any
) -> None:
    writer, reader = avro(record("R", x=written)), avro(record("R", x=read))

    decoded = writer.read_as(reader).decode(writer.encode({"x": value}), 0)

    assert decoded == {"x": expected}
    assert type(decoded["x"]) is type(expected)


def test_a_field_is_found_by_its_old_name() -> None:
    writer = avro(record("R", old="int", gone="int"))
    reader = record("R", new="int")
    reader["fields"][0]["aliases"] = ["old"]

    assert writer.read_as(avro(reader)).decode(b"\x02\x04", 0) == {"new": 1}


@pytest.mark.parametrize(
    ("written", "read"),
    [("int", "string"), ("long", "int"), ("double", "float"), (["int", "string"], "int")],
)
def test_a_type_that_is_not_a_wider_one_cannot_be_read(written: Any, read: Any) -> None:
    writer, reader = avro(record("R", x=written)), avro(record("R", x=read))
    value = "x" if isinstance(written, list) else 1

    with pytest.raises(Undecodable):
        writer.read_as(reader).decode(writer.encode({"x": value}), 0)


def test_a_new_field_without_a_default_cannot_be_read() -> None:
    writer = avro(record("R", x="int"))

    with pytest.raises(Undecodable, match="No default value for field y"):
        writer.read_as(avro(record("R", y="int"))).decode(b"\x02", 0)


def test_whoever_changes_a_default_changes_it_for_nobody_else() -> None:
    writer = avro({"type": "array", "items": record("R", x="int")})
    new: Any = ({"type": "map", "values": {"type": "array", "items": "int"}}, {"a": []})
    serde = writer.read_as(avro({"type": "array", "items": record("R", x="int", y=new)}))
    data = writer.encode([{"x": 1}, {"x": 2}])

    first, second = serde.decode(data, 0)
    first["y"]["a"].append(1)

    assert second["y"] == {"a": []}
    assert serde.decode(data, 0)[0]["y"] == {"a": []}


def test_what_is_read_as_another_schema_is_reported_in_its_json() -> None:
    writer, reader = avro(record("R", a="int", b="int")), record("R", a="long", c=("string", "x"))
    serde = writer.read_as(avro(reader))

    assert serde.to_json(serde.decode(b"\x02\x04", 0)) == b'{"a":1,"c":"x"}'
