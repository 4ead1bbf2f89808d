"""A JSON Schema that is said to be compatible accepts what the other accepted, tried at random.

The validator of draft 2020-12 says which values a schema accepts. The test expects what
Confluent's registry accepts nevertheless (docs/registry.md).
"""

from typing import Any

from hypothesis import example, given, settings
from hypothesis import strategies as st
from jsonschema import Draft202012Validator

from tests.registry.json_comparing import kinds, requires_what_was_open, with_types
from tests.scale import scaled

STRINGS = {"type": "string"}
SIMPLE = st.sampled_from(
    [
        *(True, {}, False, STRINGS, {"type": "integer"}, {"type": "number"}, {"type": "null"}),
        *({"type": "string", "maxLength": 1}, {"minLength": 2}, {"const": "a"}, {"enum": [1, "a"]}),
        *({"type": ["string", "integer"]}, {"$ref": "#/$defs/N"}, {"pattern": "a"}, {"minimum": 1}),
    ]
)
COUNTS = st.integers(0, 3)
NAMES = st.sampled_from(["a", "b", "ab"])


def keywords(inner: st.SearchStrategy[Any]) -> dict[str, st.SearchStrategy[Any]]:
    """Return strategies for the values of keywords."""
    named = st.dictionaries(NAMES, inner, max_size=2)
    return {
        "type": st.sampled_from(["object", "array", "string", ["object", "array", "string"]]),
        "properties": named,
        "additionalProperties": inner,
        "patternProperties": st.dictionaries(st.sampled_from(["a", "b$", "."]), inner, max_size=2),
        "propertyNames": st.sampled_from([{"maxLength": 1}, {"pattern": "a"}, {"const": "a"}, {}]),
        "required": st.lists(NAMES, max_size=2, unique=True),
        "unevaluatedProperties": inner,
        "dependentRequired": st.dictionaries(NAMES, st.lists(NAMES, unique=True), max_size=1),
        "dependentSchemas": named,
        "minProperties": COUNTS,
        "contains": inner,
        "minContains": COUNTS,
        "maxContains": COUNTS,
        "items": inner,
        "prefixItems": st.lists(inner, min_size=1, max_size=2),
        "unevaluatedItems": inner,
        "uniqueItems": st.booleans(),
        "maxItems": COUNTS,
        "if": inner,
        "then": inner,
        "else": inner,
        "not": inner,
        "allOf": st.lists(inner, min_size=1, max_size=2),
        "anyOf": st.lists(inner, min_size=1, max_size=2),
        "$ref": st.just("#/$defs/N"),
    }


def schemas(inner: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    return st.fixed_dictionaries({}, optional=keywords(inner)).map(
        lambda each: each if len(each) <= KEYWORDS_MAX else dict(list(each.items())[:KEYWORDS_MAX])
    )


KEYWORDS_MAX = 4
SCHEMAS = st.recursive(SIMPLE, schemas, max_leaves=4)


@st.composite
def changed(draw: st.DrawFn) -> tuple[Any, Any]:
    """Generate a schema of objects or arrays, and the same with one or two keywords changed."""
    there = keywords(SCHEMAS)
    kind = draw(st.sampled_from(["object", "array"]))
    names = draw(st.lists(st.sampled_from(sorted(there)), max_size=3, unique=True))
    old = {"type": kind, **{name: draw(there[name]) for name in names}}
    new = dict(old)
    for name in draw(st.lists(st.sampled_from(sorted(there)), min_size=1, max_size=2)):
        if name in new and draw(st.booleans()):
            del new[name]
        else:
            new[name] = draw(there[name])
    definition = draw(st.sampled_from([STRINGS, {"type": "object"}, {"type": "array"}]))
    return tuple({**each, "$defs": {"N": definition}} for each in (old, new))  # type: ignore[return-value]


VALUES: list[Any] = [
    *(None, True, 1, 2, "", "a", "ab", {}, {"a": 1}, {"a": "a"}, {"b": 1}, {"ab": "ab"}),
    *({"a": 1, "b": 1}, {"a": "a", "ab": 1}, {"b": "a", "c": None}, {"c": 1}, {"a": {"b": 1}}),
    *([], [1], ["a"], [1, "a"], ["a", "a"], [1, 1, 1], ["ab", 1, None], [[]], [{"a": 1}], [None]),
    *({"b": {}}, {"a": []}, {"a": None, "b": "ab", "ab": 2}, ["a", "b", "c", "d"], {"b": "ab"}),
]


NEEDING = {"type": "object", "dependentSchemas": {"a": {"required": ["b"]}}}


@example((NEEDING, {**NEEDING, "dependentRequired": {"a": ["ab"]}}))
@example(({"type": "object"}, {"type": "object", "properties": {"a": True}, "required": ["a"]}))
@example(({"type": "array", "items": {"minLength": 2}}, {"type": "array", "items": STRINGS}))
@settings(max_examples=scaled(150))
@given(changed())
def test_what_fits_takes_all_that_was_taken(pair: tuple[Any, Any]) -> None:
    old, new = pair
    assert kinds(old, old) == []
    if kinds(old, new):
        return
    before, after = (Draft202012Validator(with_types(each)) for each in pair)
    refused = [each for each in VALUES if before.is_valid(each) and not after.is_valid(each)]
    assert not refused or requires_what_was_open(old, new)
