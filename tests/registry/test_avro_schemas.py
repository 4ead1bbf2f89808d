"""Which texts are Avro schemas, and which schemas can read data written with others.

`avro_pairs.json` is what Confluent's registry answered.
"""

import io
import json
from pathlib import Path
from typing import Any

import fastavro
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from tests.serdes.random_avro import SCHEMAS
from tms.registry.avro.avro_schemas import parse
from tms.registry.questions.questions import InvalidSchema

PAIRS = json.loads((Path(__file__).parent / "avro_pairs.json").read_text(encoding="utf-8"))


@pytest.mark.parametrize("pair", PAIRS, ids=lambda each: f"{each['old'][:30]}-{each['new'][:30]}")
def test_pairs_are_as_confluent_says(pair: dict[str, Any]) -> None:
    old, new = parse(pair["old"]), parse(pair["new"])
    backward, forward = new.incompatibilities(old), old.incompatibilities(new)
    assert (not backward, not forward) == (pair["backward"], pair["forward"])
    for found in (*backward, *forward):
        assert found.kind
        assert found.message


def record(*fields: object) -> str:
    return json.dumps({"type": "record", "name": "R", "fields": fields})


@pytest.mark.parametrize(
    "text",
    [
        "",
        "{",
        "[",
        "1",
        "null",
        '"nosuch"',
        '{"type":"record","name":"R"}',
        '{"type":"record","fields":[]}',
        '{"type":"fixed","name":"F","size":-1}',
        '{"type":"enum","name":"E","symbols":["A","A"]}',
        '{"type":"enum","name":"E","symbols":["A"],"default":"B"}',
        '["int","int"]',
        '["int",["string"]]',
        record({"name": "bad-name", "type": "int"}),
        record({"name": "a", "type": "int"}, {"name": "a", "type": "string"}),
        record({"name": "a", "type": "nosuch"}),
        record({"name": "a"}),
        record("a"),
        "[" * 100_000,
        '{"type":"array","items":' * 3_000 + '"int"' + "}" * 3_000,
    ],
    ids=lambda text: text[:30],
)
def test_what_is_not_a_schema_is_refused(text: str) -> None:
    with pytest.raises(InvalidSchema) as refused:
        parse(text)
    assert str(refused.value)


@pytest.mark.parametrize("namespace", [None, "", "n"])
@pytest.mark.parametrize(
    "kind",
    [
        {"type": "record", "fields": []},
        {"type": "enum", "symbols": ["A"]},
        {"type": "fixed", "size": 2},
    ],
    ids=lambda kind: str(kind["type"]),
)
def test_a_type_is_renamed_by_an_alias(kind: dict[str, Any], namespace: str | None) -> None:
    own = kind if namespace is None else {**kind, "namespace": namespace}
    old = {**own, "name": "Old"}
    new = {**own, "name": "New", "aliases": ["Old"]}
    assert parse(json.dumps(new)).incompatibilities(parse(json.dumps(old))) == []
    assert parse(json.dumps(old)).incompatibilities(parse(json.dumps(new)))

    def within(inner: object) -> str:
        return json.dumps(
            {"type": "record", "name": "m.R", "fields": [{"name": "a", "type": inner}]}
        )

    assert parse(within(new)).incompatibilities(parse(within(old))) == []


def test_wrong_defaults_are_taken() -> None:
    parse(record({"name": "a", "type": "int", "default": "one"}))


def test_references_are_other_schemas() -> None:
    other = '{"type":"record","name":"n.Other","fields":[]}'
    text = '{"type":"record","name":"n.R","fields":[{"name":"a","type":"Other"}]}'
    with pytest.raises(InvalidSchema):
        parse(text)
    found = parse(text, [("other", other)])
    assert '"name":"a","type":"Other"' in found.text
    assert found.incompatibilities(found) == []


ENUM = '{"type":"enum","name":"n.E","symbols":["A"]}'


@pytest.mark.parametrize(
    ("text", "references", "kept"),
    [
        (record({"name": "a", "type": {"type": "n.E"}}), [ENUM], '"type":"n.E"'),
        (
            record({"name": "a", "type": json.loads(ENUM)}, {"name": "b", "type": {"type": "n.E"}}),
            [],
            '"name":"b","type":"n.E"',
        ),
        ('{"type":"fixed","name":"F","namespace":"com.my-company","size":1}', [], "com.my-company"),
        ('{"type":"int","logicalType":{"a":1}}', [], '"logicalType":{"a":1}'),
        ('{"type":"bytes","logicalType":"decimal","precision":"x"}', [], '"precision":"x"'),
        ('{"type":"fixed","name":"example.1.0.F","size":1}', [], '"namespace":"example.1.0"'),
        ('/* A */ {"type": "fixed", // b\n"name":"F","size":1}', [], '"name":"F"'),
        (record({"name": "a", "type": "double", "default": 1}).replace("1}", "1e400}"), [], '"Inf'),
        (record({"name": "a", "type": "int", "default": 1}).replace("1}", "-1e400}"), [], '"-Inf'),
        (record({"name": "a", "type": "double", "default": "1.5"}), [], '"default":1.5'),
        (
            '{"type":"record","name":"n.R","fields":[{"name":"a","type":"Other"}]}',
            ['{"type":"fixed","name":"Other","size":1}'],
            '"type":"Other"',
        ),
    ],
)
def test_what_javas_library_takes_is_taken(text: str, references: list[str], kept: str) -> None:
    named = [(each, each) for each in references]
    found = parse(text, named)
    assert kept in found.text
    assert parse(found.text, named).text == found.text
    assert parse(found.normalized, named).normalized == found.normalized
    resolved = found.in_form("resolved")
    assert parse(resolved).in_form("resolved") == resolved
    assert found.incompatibilities(found) == []


@pytest.mark.parametrize("number", ["NaN", "Infinity", "-Infinity"])
def test_what_is_not_a_number_in_json_is_refused(number: str) -> None:
    text = record({"name": "a", "type": "double", "default": 1}).replace("1}", f"{number}}}")
    with pytest.raises(InvalidSchema, match=number):
        parse(text)


def test_a_great_default_of_a_double_is_normalized() -> None:
    text = record({"name": "a", "type": "double", "default": 10**400})
    assert '"default":"Infinity"' in parse(text).normalized


def test_a_type_without_a_namespace_gets_that_around_it_in_normalized_text() -> None:
    """As in Confluent's registry, unless the enclosing namespace has a type of that name."""
    inner = {"type": "record", "name": "In", "namespace": "", "fields": []}
    fields = [{"name": "a", "type": inner}, {"name": "b", "type": "In"}]
    outer = {"type": "record", "name": "a.Out", "fields": fields}
    found = parse(json.dumps(outer))
    assert '"name":"In","namespace":"","fields":[]' in found.text
    assert '"type":{"type":"record","name":"In","fields":[]}' in found.normalized
    fields.insert(1, {"name": "c", "type": {**inner, "namespace": "a"}})
    both = parse(json.dumps(outer))
    assert '"name":"In","namespace":"","fields":[]' in both.normalized


def test_an_alias_in_the_namespace_of_its_type_names_it() -> None:
    old = '{"type":"fixed","name":"n.Old","size":1}'
    new = '{"type":"fixed","name":"n.New","aliases":["Old"],"size":1}'
    assert parse(new).incompatibilities(parse(old)) == []
    assert parse(old).incompatibilities(parse(new))


@given(schema=SCHEMAS, which=st.integers(0, 3))
def test_what_is_written_out_is_the_same_schema(schema: Any, which: int) -> None:
    """Fields that refer to a type are the same schema as fields with that type written out."""
    reference = json.dumps({"type": "record", "name": "n.Ref", "fields": [field("x", schema)]})
    try:
        names = [*parse(reference).tree.types]
    except InvalidSchema:  # a union may contain a type twice
        return
    name = names[which % len(names)]
    spelled_name = name if "." in name else f".{name}"
    text = record(field("a", spelled_name), field("b", ["null", spelled_name]))
    found = parse(text, [("reference", reference)])
    written_out = parse(found.in_form("resolved"))
    assert written_out.text == found.in_form("resolved")
    assert written_out.normalized == found.in_form("resolved_normalized")
    assert written_out.incompatibilities(found) == []


def field(name: str, kind: Any) -> dict[str, Any]:
    return {"name": name, "type": kind}


def test_an_error_reads_a_record() -> None:
    as_error = '{"type":"error","name":"R","fields":[]}'
    assert parse(as_error).incompatibilities(parse(record())) == []


TYPES = st.sampled_from(["int", "long", "float", "double", "string", "bytes", ["null", "int"]])
FIELDS = st.dictionaries(st.sampled_from(["a", "b", "c"]), st.tuples(TYPES, st.booleans()))
DEFAULTS = {"int": 0, "long": 0, "float": 0.0, "double": 0.0, "string": "", "bytes": ""}


def written(fields: dict[str, tuple[Any, bool]]) -> str:
    made = []
    for name, (kind, has_default) in fields.items():
        default = None if isinstance(kind, list) else DEFAULTS[kind]
        made.append({"name": name, "type": kind} | ({"default": default} if has_default else {}))
    return record(*made)


VALUES = {"int": 1, "long": 2, "float": 0.5, "double": 0.25, "string": "s", "bytes": b"b"}


@given(old=FIELDS, new=FIELDS)
def test_what_is_said_to_be_compatible_reads_the_data(
    old: dict[str, tuple[Any, bool]], new: dict[str, tuple[Any, bool]]
) -> None:
    writer, reader = written(old), written(new)
    assume(not parse(reader).incompatibilities(parse(writer)))
    assume(all(not isinstance(kind, list) or not has_default for kind, has_default in new.values()))
    data = io.BytesIO()
    value = {name: 3 if isinstance(kind, list) else VALUES[kind] for name, (kind, _) in old.items()}
    fastavro.schemaless_writer(data, json.loads(writer), value)
    data.seek(0)
    found = fastavro.schemaless_reader(data, json.loads(writer), json.loads(reader))
    assert isinstance(found, dict)
    assert set(found) == set(new)
