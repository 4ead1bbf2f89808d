"""Names in Avro schemas are resolved, and texts are read, as in Java's library."""

import io
import json
import math
from typing import Any

import fastavro
import pytest
from hypothesis import given

from tests.serdes.compiling import avro, record
from tests.serdes.random_avro import SCHEMAS
from tms.core.values.schema_types import AVRO
from tms.serdes.avro_serde import AvroSerde
from tms.serdes.avro_shape import AvroShape
from tms.serdes.avro_tree import AvroTree, WrongSchema, loaded, spelled, tree_of
from tms.serdes.serde import SchemaSource


def enum(name: str, **others: Any) -> dict[str, Any]:
    return {"type": "enum", "name": name, "symbols": ["A"], **others}


def field_types(schema: Any, known: tuple[str, ...] = ()) -> list[Any]:
    return [each["type"] for each in tree_of(schema, known).top["fields"]]


@given(schema=SCHEMAS)
def test_a_tree_says_the_same_as_the_schema(schema: Any) -> None:
    tree = tree_of(schema)
    assert tree_of(tree.top) == tree_of(json.loads(json.dumps(tree.top)))
    again = tree_of(spelled(tree.top))
    assert again == tree
    assert list(again.types) == list(tree.types)


@pytest.mark.parametrize(
    ("reference", "found"),
    [
        ("E", "n.E"),
        ("n.E", "n.E"),
        ({"type": "n.E"}, "n.E"),
        ({"type": "E"}, "n.E"),
        ("F", "F"),
        (".F", "F"),
        ("k.F", "F"),
        ({"type": "k.G"}, "k.G"),
    ],
)
def test_a_name_is_looked_for_as_java_does(reference: Any, found: str) -> None:
    """First in the namespace, and then without one."""
    first = record("n.Outer", e=enum("E"), f=enum("F", namespace=""), again=reference)
    assert field_types(first, ("k.G",))[-1] == found


@pytest.mark.parametrize("namespace", ["com.my-company", "example.1.0", "a b", "grün", "x..y"])
def test_a_namespace_is_any_text(namespace: str) -> None:
    tree = tree_of(record("R", e=enum("E"), again=f"{namespace}.E") | {"namespace": namespace})
    assert list(tree.types) == [f"{namespace}.R", f"{namespace}.E"]
    assert tree.top["fields"][1]["type"] == f"{namespace}.E"


@pytest.mark.parametrize(
    "schema",
    [
        {"type": {"type": "int"}},
        {"type": ["int"]},
        {"type": "array"},
        {"type": "n.E"},
        record("R", a="Nosuch"),
        record("R", a=record("R")),
        record("R", a=enum("n.E"), b=enum("E", namespace="n")),
        record("bad-name"),
        record("n.bad-name"),
        record("n."),
        record(""),
        record("int"),
        record("R") | {"namespace": 1},
        record("R") | {"aliases": [1]},
        {"type": "record", "name": "R", "fields": [{"name": "bad-name", "type": "int"}]},
        {"type": "record", "name": "R", "fields": ["a"]},
        ["int", ["string"]],
        1,
        None,
    ],
    ids=str,
)
def test_a_wrong_form_is_refused(schema: Any) -> None:
    with pytest.raises(WrongSchema) as refused:
        tree_of(schema)
    assert str(refused.value)


@pytest.mark.parametrize(
    ("text", "schema"),
    [
        ('/* a */ "int" // b', "int"),
        ('{"type": /* "x" */ "int",\n// "y"\n"doc": "no // and /* comment */"}', None),
        ('{"type": "int", "doc": "\\"/*", "x": "*/"}', None),
        ('/**/"int"/***/', "int"),
    ],
)
def test_comments_are_passed_over(text: str, schema: Any) -> None:
    found = loaded(text)
    if schema is not None:
        assert found == schema
    else:
        assert found["type"] == "int"
        assert "/*" in found["doc"]


@pytest.mark.parametrize("text", ['"int" /*', '"int" /*/', "NaN", '{"type": -Infinity}', '"/*'])
def test_what_is_not_json_with_comments_is_refused(text: str) -> None:
    with pytest.raises(WrongSchema):
        loaded(text)


def test_many_comments_take_no_long_time() -> None:
    for text in ("/*" * 200_000, '"' + '\\"' * 200_000, "/" * 400_000):
        with pytest.raises(WrongSchema):
            loaded(text)


def test_numbers_that_are_too_great_are_texts() -> None:
    schema = loaded('{"type":"int","x":[1e400,-1e999,1.5],"y":{"z":1e308}}')
    assert schema == {"type": "int", "x": ["Infinity", "-Infinity", 1.5], "y": {"z": 1e308}}


@pytest.mark.parametrize(
    ("default", "value"),
    [("1e400", math.inf), ('"-Infinity"', -math.inf), ('"1.5"', 1.5), ('"NaN"', math.nan)],
)
@pytest.mark.parametrize("kind", ["double", "float"])
def test_a_default_beyond_numbers_is_read(kind: str, default: str, value: float) -> None:
    field = f'{{"name":"a","type":"{kind}","default":{default}}}'
    serde = AvroSerde(SchemaSource(AVRO, f'{{"type":"record","name":"R","fields":[{field}]}}'))
    given_values: list[Any] = [serde.from_json(b"{}"), {}]
    for given_value in given_values:
        found = serde.decode(serde.encode(given_value), 0)["a"]
        assert found == value or (math.isnan(found) and math.isnan(value))


@given(schema=SCHEMAS)
def test_a_schema_of_any_namespaces_has_a_serde(schema: Any) -> None:
    """Only fastavro resolves a name without a namespace in the enclosing one."""
    tree = tree_of(schema)
    is_record = isinstance(tree.top, dict) and tree.top["type"] == "record"
    if is_record and not AvroShape(tree).has_empty_items:
        serde = avro(schema)
        assert serde.record_name == tree.top["name"]
        assert all(not name.startswith(".") for name in names_in(serde.schema))


def names_in(parsed: Any) -> set[str]:
    assert isinstance(parsed, dict)
    return set(parsed["__named_schemas"])


def test_values_of_types_without_a_namespace_are_named_as_they_are() -> None:
    schema = record("a.Out", e=["null", enum("E", namespace="")], f=["null", "E"])
    serde = avro(schema)
    value = {"e": "A", "f": "A"}
    assert serde.decode(serde.encode(value), 0) == value
    assert json.loads(serde.to_json(value)) == {"e": {"E": "A"}, "f": {"E": "A"}}
    assert serde.from_json(b'{"e": null, "f": {"E": "A"}}') == {"e": None, "f": "A"}
    plain = record("a.Out", e=["null", enum("E")], f=["null", "E"])
    assert serde.encode(value) == _plain_bytes(plain, value)


def _plain_bytes(schema: Any, value: Any) -> bytes:
    out = io.BytesIO()
    fastavro.schemaless_writer(out, schema, value)
    return out.getvalue()


def test_a_tree_is_empty_of_types_if_there_are_none() -> None:
    assert tree_of({"type": "int"}) == AvroTree("int")
