"""Which Avro schemas contain themselves, and which have arrays that a few bytes make endless."""

from typing import Any

import pytest

from tests.serdes.avro_samples import TREE
from tests.serdes.compiling import avro, record
from tms.serdes.avro_shape import AvroShape
from tms.serdes.avro_tree import record_name, tree_of
from tms.serdes.serde import UnusableSchema

NOTHING = {"type": "fixed", "name": "Nothing", "size": 0}


def array(items: Any) -> Any:
    return {"type": "array", "items": items}


def within(namespace: str, name: str, inner: Any) -> Any:
    return record(name, inner=inner) | {"namespace": namespace}


RECURSIVE: dict[str, Any] = {
    "in an array": record("R", kids=array("R")),
    "in a map": record("R", kids={"type": "map", "values": "R"}),
    "in a union": record("R", next=["null", "R"]),
    "by its full name": within("a.b", "R", ["null", "a.b.R"]),
    "by its name within a namespace": within("a.b", "R", ["null", "R"]),
    "with a namespace in its name": record("a.b.R", next=["null", "R"]),
    "two records deep": record("R", s=record("S", r=["null", "R"])),
    "in a namespace within another": within("a", "R", within("b", "S", ["null", "a.R"])),
    "within an array at the top": array(record("R", next=["null", "R"])),
    "within a union at the top": ["null", record("R", next=["null", "R"])],
    "as an error": record("R", next=["null", "R"]) | {"type": "error"},
    "each way": TREE,
}
FLAT: dict[str, Any] = {
    "a primitive": "int",
    "a record twice": record("R", a=record("S", x="int"), b="S", c=array("S")),
    "of the same name elsewhere": within("a", "R", within("b", "R", "int")),
    "a name like a primitive's": record("R", a="string", b=array("string")),
}


@pytest.mark.parametrize("schema", RECURSIVE.values(), ids=RECURSIVE)
def test_a_schema_contains_itself(schema: Any) -> None:
    assert AvroShape(tree_of(schema)).is_recursive


@pytest.mark.parametrize("schema", FLAT.values(), ids=FLAT)
def test_a_schema_does_not_contain_itself(schema: Any) -> None:
    assert not AvroShape(tree_of(schema)).is_recursive


EMPTY: dict[str, Any] = {
    "nulls": array("null"),
    "nulls, described": array({"type": "null"}),
    "fixed of no bytes": array(NOTHING),
    "records without fields": array(record("R")),
    "records of nulls": array(record("R", a="null", b=NOTHING)),
    "a record that is defined before": record("R", a=record("S", n="null"), b=array("S")),
    "fixed that is defined before": record("R", a=NOTHING, b=array("Nothing")),
    "in a namespace": within("a", "R", record("S", a=record("N"), b=array("a.N"))),
    "deep within": {"type": "map", "values": ["null", record("R", a=array(array("null")))]},
}
BOUNDED: dict[str, Any] = {
    "unions of nulls": array(["null"]),
    "arrays": array(array("int")),
    "maps of nulls": array({"type": "map", "values": "null"}),
    "maps of nulls at the top": {"type": "map", "values": "null"},
    "records with one field that takes bytes": array(record("R", a="null", b="boolean")),
    "records with enums": array(record("R", a={"type": "enum", "name": "E", "symbols": ["A"]})),
    "itself": record("R", kids=array("R")),
}


@pytest.mark.parametrize("schema", EMPTY.values(), ids=EMPTY)
def test_arrays_whose_items_take_no_bytes_are_refused(schema: Any) -> None:
    with pytest.raises(UnusableSchema, match="items take no bytes"):
        avro(schema)


@pytest.mark.parametrize("schema", BOUNDED.values(), ids=BOUNDED)
def test_arrays_whose_items_take_bytes_are_not(schema: Any) -> None:
    assert not AvroShape(tree_of(schema)).has_empty_items
    avro(schema)


@pytest.mark.parametrize(
    ("schema", "name"),
    [
        (record("R"), "R"),
        (record("a.R"), "a.R"),
        (within("a.b", "R", "int"), "a.b.R"),
        (record("a.R") | {"namespace": "b"}, "a.R"),
        (record("R") | {"namespace": ""}, "R"),
        (record("R") | {"type": "error"}, "R"),
        ({"type": "enum", "name": "E", "symbols": ["A"]}, ""),
        ("int", ""),
        (["null", record("R")], ""),
    ],
)
def test_a_record_has_a_full_name(schema: Any, name: str) -> None:
    assert record_name(tree_of(schema).top) == name
    assert avro(schema).record_name == name
