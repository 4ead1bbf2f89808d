"""Which texts are JSON Schemas, which text is stored, and which schemas are compatible.

`json_pairs.json` and `json_texts.json` are what Confluent's registry answered.
"""

import json
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from tests.registry.json_comparing import kinds, requires_what_was_open
from tms.core.values.schema_types import JSON
from tms.registry.json.json_schemas import parse
from tms.registry.questions.questions import InvalidSchema
from tms.serdes.compiling import compiled
from tms.serdes.serde import SchemaSource, Unencodable

HERE = Path(__file__).parent
PAIRS = json.loads((HERE / "json_pairs.json").read_text(encoding="utf-8"))
TEXTS = json.loads((HERE / "json_texts.json").read_text(encoding="utf-8"))


CIRCLE = (
    '{"definitions":{"a":{"$ref":"#/definitions/b"},"b":{"$ref":"#/definitions/a"}},'
    '"$ref":"#/definitions/a"}'
)


@pytest.mark.parametrize("pair", PAIRS, ids=lambda each: f"{each['old'][:30]}-{each['new'][:30]}")
def test_pairs_are_as_confluent_says(pair: dict[str, Any]) -> None:
    old, new = json.loads(pair["old"]), json.loads(pair["new"])
    assert (not kinds(old, new)) == pair["backward"]
    if pair["forward"] is not None:
        assert (not kinds(new, old)) == pair["forward"]


@pytest.mark.parametrize("text", TEXTS, ids=lambda each: each["input"][:30])
def test_texts_are_kept_as_confluent_keeps_them(text: dict[str, str]) -> None:
    parsed = parse(text["input"])
    assert (parsed.text, parsed.normalized) == (text["stored"], text["normalized"])
    assert parse(parsed.text).text == parsed.text


def test_numbers_and_strings_are_as_java_writes_them() -> None:
    given = '{ "default" : [1e2, 1.0, -3, 12345678901234567890, "\\u00e9\\u0001\\n/"] }'
    assert parse(given).text == ('{"default":[1E+2,1.0,-3,12345678901234567890,"é\\u0001\\n/"]}')


@pytest.mark.parametrize(
    "text",
    [
        "",
        "{",
        "1",
        "null",
        '"text"',
        "[1]",
        '{"type":"objekt"}',
        '{"type":1}',
        '{"properties":[]}',
        '{"minLength":-1}',
        '{"minimum":NaN}',
        '{"$ref":"#/definitions/nosuch"}',
        '{"$ref":"nosuch.json"}',
        '{"$ref":"http://nosuch.example/x"}',
        '{"properties":{"a":{"$ref":"#/nosuch"}}}',
        '{"$ref":"#"}',
        CIRCLE,
        '{"pattern":"("}',
        '{"patternProperties":{"(":{}}}',
        '{"$schema":5}',
        '{"$schema":null}',
        '{"$schema":{}}',
        '{"maximum":1e99999999999999999999}',
        '{"minLength":1.5}',
        "[" * 100_000,
        '{"not":' * 3_000 + "{}" + "}" * 3_000,
    ],
    ids=lambda text: text[:30],
)
def test_what_is_not_a_schema_is_reported(text: str) -> None:
    with pytest.raises(InvalidSchema) as told:
        parse(text)
    assert str(told.value)


@pytest.mark.parametrize(
    "text",
    [
        *("true", "false", "{}", "[]", '{"x":1}', '{"enum":[{"$ref":1}]}', '{"minLength":2.0}'),
        *('{"multipleOf":1E+30}', '{"maximum":1E+999999999}', '{"$schema":"nonsense"}'),
        *('{"pattern":"\\\\p{L}"}', '{"pattern":"(?i)a"}', '{"properties":{"$ref":{}}}'),
    ],
)
def test_odd_schemas_are_schemas(text: str) -> None:
    assert parse(text).text == text


def test_a_reference_is_known_by_its_name() -> None:
    address = ("address.json", '{"type":"object","properties":{"city":{"type":"string"}}}')
    other = ("address.json", '{"type":"object","properties":{"city":{"type":"integer"}}}')
    user = '{"type":"object","properties":{"home":{"$ref":"address.json"}}}'
    assert parse(user, [address]).incompatibilities(parse(user, [address])) == []
    [found] = parse(user, [other]).incompatibilities(parse(user, [address]))
    assert (found.kind, found.path) == ("TYPE_CHANGED", "/properties/home/properties/city")


@pytest.mark.parametrize("own", ["http://e.example/a/root.json", "root.json", "/a/root.json", ""])
@pytest.mark.parametrize(
    "name",
    ["./sub/x.json", "sub/x.json", "../y.json", "y.json", "/z.json", "com.acme.X", "x y", "é"],
)
def test_a_reference_is_found_by_its_name_whatever_the_schema_is_called(
    own: str, name: str
) -> None:
    inner = (name, '{"type":"string","definitions":{"n":{"type":"integer"}}}')
    between = ("other.json", json.dumps({"$id": "http://o.example/b/c", "$ref": name}))
    user = {"properties": {"enum": {"$ref": name}, "b": {"$ref": "other.json"}}}
    user["properties"]["c"] = {"$ref": f"{name}#/definitions/n"}
    if own:
        user["$id"] = own  # type: ignore[assignment]
    text = json.dumps(user, ensure_ascii=False, separators=(",", ":"))
    schema = parse(text, [inner, between])
    assert schema.text == text
    assert schema.incompatibilities(schema) == []
    serde = compiled(SchemaSource(JSON, text, (inner, between)))
    for value in ({"enum": 1}, {"b": 1}, {"c": "x"}):
        with pytest.raises(Unencodable):
            serde.encode(value)
    assert serde.encode({"enum": "x", "b": "y", "c": 1})


DRAFT = "https://json-schema.org/draft/2020-12/schema"
STRING, INTEGER, NUMBER = {"type": "string"}, {"type": "integer"}, {"type": "number"}


def of(**keywords: Any) -> dict[str, Any]:
    return {"type": "object", **keywords}


def named(**keywords: Any) -> dict[str, Any]:
    return {"$defs": {"N": {"type": "object"}}, "$ref": "#/$defs/N", **keywords}


def items(**keywords: Any) -> dict[str, Any]:
    return {"type": "array", **keywords}


@pytest.mark.parametrize(
    ("old", "new", "told"),
    [
        (STRING, True, []),
        (STRING, {}, []),
        ({}, STRING, ["TYPE_CHANGED"]),
        (False, STRING, []),
        (STRING, False, ["TYPE_CHANGED"]),
        (INTEGER, NUMBER, []),
        (NUMBER, INTEGER, ["TYPE_NARROWED"]),
        ({"minLength": 2}, {"minLength": 3}, ["MIN_LENGTH_INCREASED"]),
        ({"pattern": "a"}, {"pattern": "b"}, ["PATTERN_CHANGED"]),
        ({"pattern": "a"}, STRING, []),
        ({"minimum": 1}, {"minimum": 0.5}, []),
        ({"minimum": 1}, {"minimum": 1.5}, ["MINIMUM_INCREASED"]),
        ({"exclusiveMaximum": 5}, {"exclusiveMaximum": 4}, ["EXCLUSIVE_MAXIMUM_DECREASED"]),
        ({"multipleOf": 4}, {"multipleOf": 3}, ["MULTIPLE_OF_CHANGED"]),
        ({"multipleOf": 0.5}, {"multipleOf": 0.25}, []),
        ({"multipleOf": 1e30}, {"multipleOf": 3}, ["MULTIPLE_OF_CHANGED"]),
        ({"multipleOf": 3}, {"multipleOf": 1e30}, ["MULTIPLE_OF_CHANGED"]),
        ({"multipleOf": 1e30}, {"multipleOf": 1e-30}, []),
        ({"multipleOf": 12}, {"multipleOf": 1e1}, ["MULTIPLE_OF_CHANGED"]),
        (items(), items(contains=STRING), ["CONTAINS_ADDED"]),
        (items(), items(contains=STRING, minContains=0), []),
        (items(), items(contains=STRING, minContains=0, maxContains=2), ["CONTAINS_ADDED"]),
        (items(contains=STRING), items(contains=INTEGER), ["CONTAINS_CHANGED"]),
        (items(contains=INTEGER), items(contains=NUMBER), []),
        (items(contains=STRING), items(contains=STRING, minContains=2), ["MIN_CONTAINS_INCREASED"]),
        (items(contains=STRING), items(contains=STRING, maxContains=2), ["MAX_CONTAINS_ADDED"]),
        (items(contains=STRING, minContains=2), items(contains=STRING), []),
        (of(), of(propertyNames={"maxLength": 2}), ["PROPERTY_NAMES_ADDED"]),
        (
            of(propertyNames={"maxLength": 2}),
            of(propertyNames={"maxLength": 1}),
            ["PROPERTY_NAMES_CHANGED"],
        ),
        (of(), of(unevaluatedProperties=False), ["UNEVALUATED_PROPERTIES_ADDED"]),
        (items(), items(unevaluatedItems=STRING), ["UNEVALUATED_ITEMS_ADDED"]),
        (of(unevaluatedProperties=False), of(unevaluatedProperties=STRING), []),
        (
            of(properties={"a": STRING}, unevaluatedProperties=False),
            of(unevaluatedProperties=False),
            ["PROPERTY_REMOVED_FROM_CLOSED_CONTENT_MODEL"],
        ),
        (
            of(additionalProperties=True, unevaluatedProperties=False),
            of(unevaluatedProperties=False),
            ["UNEVALUATED_PROPERTIES_CHANGED"],
        ),
        (of(), of(patternProperties={"^a": STRING}), ["PATTERN_PROPERTY_ADDED"]),
        (
            of(additionalProperties=False),
            of(additionalProperties=False, patternProperties={"^a": STRING}),
            [],
        ),
        (
            of(properties={"ab": INTEGER}, additionalProperties=False),
            of(
                properties={"ab": INTEGER},
                additionalProperties=False,
                patternProperties={"^a": STRING},
            ),
            ["PATTERN_PROPERTY_ADDED"],
        ),
        (
            of(patternProperties={"^a": STRING}, additionalProperties=False),
            of(additionalProperties=False),
            ["PATTERN_PROPERTY_REMOVED"],
        ),
        (
            of(patternProperties={"\\p{L}": STRING}, additionalProperties=False),
            of(properties={"é": INTEGER}, additionalProperties=False),
            [
                "PROPERTY_ADDED_NOT_COVERED_BY_PARTIALLY_OPEN_CONTENT_MODEL",
                "PATTERN_PROPERTY_REMOVED",
            ],
        ),
        ({"type": "object"}, {"type": "object", "if": {}, "then": False}, ["TYPE_CHANGED"]),
        ({"if": {}, "then": of()}, {"if": {}, "then": STRING}, ["TYPE_CHANGED"]),
        ({"if": STRING, "then": {}}, {"if": INTEGER, "then": True}, []),
        ({"if": STRING, "else": of()}, {"if": INTEGER, "else": of()}, ["CONDITION_CHANGED"]),
        (named(), named(required=["a"]), ["TYPE_CHANGED"]),
        (named(required=["a"]), named(), []),
        (named(), named(description="a node"), []),
        ({"enum": [1, 2]}, {"enum": [2, 1, 3]}, []),
        ({"enum": [1, 2]}, {"enum": [1]}, ["ENUM_ARRAY_NARROWED"]),
        ({"enum": [1, 2]}, {"enum": [1, 3]}, ["ENUM_ARRAY_CHANGED"]),
        ({"const": 1}, {"const": 2}, ["CONST_CHANGED"]),
        ({"const": {"a": 1, "b": 2}}, {"const": {"b": 2, "a": 1}}, []),
        ({"not": STRING}, {"not": {"type": "string", "minLength": 1}}, []),
        ({"not": {"type": "string", "minLength": 1}}, {"not": STRING}, ["NOT_TYPE_EXTENDED"]),
        (of(), of(properties={"a": {}}), []),
        (
            of(),
            of(properties={"a": STRING}),
            ["PROPERTY_ADDED_TO_OPEN_CONTENT_MODEL"],
        ),
        (of(properties={"a": STRING}), of(), []),
        (
            of(properties={"a": STRING}),
            of(additionalProperties=False),
            ["PROPERTY_REMOVED_FROM_CLOSED_CONTENT_MODEL", "ADDITIONAL_PROPERTIES_REMOVED"],
        ),
        (
            of(additionalProperties=False),
            of(properties={"a": STRING}, required=["a"], additionalProperties=False),
            ["REQUIRED_PROPERTY_ADDED_TO_UNOPEN_CONTENT_MODEL"],
        ),
        (
            of(properties={"a": STRING}),
            of(properties={"a": STRING}, required=["a"]),
            ["REQUIRED_ATTRIBUTE_ADDED"],
        ),
        (
            of(properties={"a": STRING}),
            of(properties={"a": {"type": "string", "default": ""}}, required=["a"]),
            [],
        ),
        (of(additionalProperties=STRING), of(), []),
        (of(), of(additionalProperties=STRING), ["ADDITIONAL_PROPERTIES_NARROWED"]),
        (of(minProperties=1), of(minProperties=2), ["MIN_PROPERTIES_INCREASED"]),
        (of(), of(dependencies={"a": ["b"]}), ["DEPENDENCY_ARRAY_ADDED"]),
        (
            of(dependentRequired={"a": ["b"]}),
            of(dependentRequired={"a": ["b", "c"]}),
            ["DEPENDENCY_ARRAY_EXTENDED"],
        ),
        (
            of(dependentRequired={"a": ["b"]}, dependentSchemas={"a": of()}),
            of(dependentRequired={"a": ["b"]}),
            [],
        ),
        (of(dependencies={"a": ["b"]}), of(), []),
        (of(), of(dependencies={"a": of()}), ["DEPENDENCY_SCHEMA_ADDED"]),
        (items(items=STRING), items(items=INTEGER), ["TYPE_CHANGED"]),
        (items(), items(uniqueItems=True), ["UNIQUE_ITEMS_ADDED"]),
        (items(), items(maxItems=3), ["MAX_ITEMS_ADDED"]),
        (
            items(items=[STRING, STRING], additionalItems=False),
            items(items=[STRING], additionalItems=False),
            ["ITEM_REMOVED_FROM_CLOSED_CONTENT_MODEL"],
        ),
        (
            items(items=[STRING]),
            items(items=[STRING, STRING]),
            ["ITEM_ADDED_TO_OPEN_CONTENT_MODEL"],
        ),
        (
            {"$schema": DRAFT, **items(prefixItems=[STRING], items=False)},
            {"$schema": DRAFT, **items(prefixItems=[STRING, INTEGER], items=False)},
            [],
        ),
        ({"anyOf": [STRING]}, {"anyOf": [STRING, INTEGER]}, []),
        ({"anyOf": [STRING, INTEGER]}, {"anyOf": [STRING]}, ["SUM_TYPE_NARROWED"]),
        ({"allOf": [STRING]}, {"allOf": [STRING, {"maxLength": 1}]}, ["PRODUCT_TYPE_EXTENDED"]),
        ({"oneOf": [STRING, INTEGER]}, {"anyOf": [INTEGER, STRING]}, []),
        ({"anyOf": [STRING, INTEGER]}, {"oneOf": [INTEGER, STRING]}, ["COMBINED_TYPE_CHANGED"]),
        (
            {"anyOf": [STRING, INTEGER]},
            {"anyOf": [STRING, {"type": "boolean"}]},
            ["COMBINED_TYPE_SUBSCHEMAS_CHANGED"],
        ),
        (STRING, {"oneOf": [INTEGER, STRING]}, []),
        ({"type": ["string", "null"]}, STRING, ["TYPE_CHANGED"]),
    ],
    ids=repr,
)
def test_differences_have_their_names(old: Any, new: Any, told: list[str]) -> None:
    assert kinds(old, new) == told


SIMPLE = st.one_of(
    st.just(True),
    st.builds(
        lambda low, high: {"type": "string", "minLength": low, "maxLength": low + high},
        st.integers(0, 2),
        st.integers(0, 2),
    ),
    st.builds(
        lambda kind, low: {"type": kind, "minimum": low},
        st.sampled_from(("integer", "number")),
        st.integers(-2, 2),
    ),
    st.lists(st.sampled_from([1, "a", None]), min_size=1, unique=True).map(
        lambda values: {"enum": values}
    ),
    st.sampled_from([{"type": "boolean"}, {"type": "null"}, {"type": ["string", "null"]}]),
)


def compound(inner: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    return st.one_of(
        st.builds(
            lambda properties, others, required: of(
                properties=properties,
                additionalProperties=others,
                required=[name for name in required if name in properties],
            ),
            st.dictionaries(st.sampled_from("ab"), inner, max_size=2),
            st.booleans() | inner,
            st.lists(st.sampled_from("ab"), unique=True),
        ),
        st.builds(lambda each, most: items(items=each, maxItems=most), inner, st.integers(0, 2)),
        st.builds(
            lambda criterion, parts: {criterion: parts},
            st.sampled_from(("anyOf", "allOf")),
            st.lists(inner, min_size=1, max_size=2),
        ),
    )


SCHEMAS = st.recursive(SIMPLE, compound, max_leaves=4)
VALUES = st.recursive(
    st.sampled_from([None, True, "", "a", "aa", "aaaa", -3, 0, 1, 1.5, 3]),
    lambda inner: (
        st.lists(inner, max_size=2) | st.dictionaries(st.sampled_from("abc"), inner, max_size=2)
    ),
    max_leaves=4,
)


@example(of(), of(properties={"a": True}, required=["a"]), [{}])
@given(SCHEMAS, SCHEMAS, st.lists(VALUES, min_size=20, max_size=40))
def test_what_fits_takes_all_that_was_taken(old: Any, new: Any, values: list[Any]) -> None:
    assert kinds(old, old) == []
    if not kinds(old, new):
        for value in values:
            if is_taken(old, value) and not is_taken(new, value):
                assert requires_what_was_open(old, new)


def is_taken(schema: Any, value: Any) -> bool:
    return bool(jsonschema.Draft7Validator(schema).is_valid(value))


def test_recursive_schemas_are_compared() -> None:
    def tree(value: Any) -> Any:
        node = of(properties={"v": value, "next": {"$ref": "#/definitions/N"}})
        return {"definitions": {"N": node}, "$ref": "#/definitions/N"}

    assert kinds(tree(INTEGER), tree(NUMBER)) == []
    assert kinds(tree(NUMBER), tree(INTEGER)) == ["TYPE_NARROWED"]


def test_pairs_assumed_to_fit_are_compared_again() -> None:
    """A point is first compared within a link, which fits only if the point does."""

    def schema(z: Any, *other: Any) -> Any:
        link, point = {"$ref": "#/definitions/Link"}, {"$ref": "#/definitions/Point"}
        shut: dict[str, Any] = {"additionalProperties": False}
        of_point = of(properties={"point": point}, required=["point"], **shut)
        return {
            "definitions": {
                "Point": of(properties={"link": link, "z": z}, required=["z"], **shut),
                "Link": {"anyOf": [of_point, {"type": "null"}]},
            },
            "anyOf": [point, *other, of(properties={"root": link}, required=["root"], **shut)],
        }

    other = of(properties={"link": {}, "z": STRING}, required=["z"], additionalProperties=False)
    assert kinds(schema(STRING), schema(STRING)) == []
    told = kinds(schema(STRING), schema(INTEGER, other))
    assert told == ["COMBINED_TYPE_SUBSCHEMAS_CHANGED"]


def test_references_are_resolved_against_the_inner_id() -> None:
    def schema(inner: Any) -> Any:
        a = of(properties={"v": {"$ref": "#/$defs/s"}}, **{"$defs": {"s": inner}})
        named_id = of(properties={"$id": STRING, "b": {"$id": "https://e.example/a", **a}})
        return {"$schema": DRAFT, "$defs": {"s": NUMBER}, **named_id}

    assert kinds(schema(STRING), schema(STRING)) == []
    assert kinds(schema(STRING), schema(INTEGER)) == ["TYPE_CHANGED"]
    only_inner = schema(STRING)
    del only_inner["$defs"]
    assert kinds(only_inner, schema(STRING)) == []
