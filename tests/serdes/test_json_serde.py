"""JSON values, checked by JSON Schemas."""

import json
import math
import threading
from collections.abc import Iterator
from contextlib import suppress
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from tests.scale import scaled
from tests.serdes.avro_samples import TEXTS
from tests.serdes.compiling import json_schema
from tms.core.values.schema_types import JSON
from tms.serdes.compiling import compiled
from tms.serdes.serde import SchemaSource, Undecodable, Unencodable, UnusableSchema

few = settings(max_examples=scaled(150))
NUMBERS = st.integers(-(10**30), 10**30) | st.floats(allow_nan=False, allow_infinity=False)
VALUES: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | NUMBERS | TEXTS,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(TEXTS, inner, max_size=4),
    max_leaves=20,
)
EVENT = {
    "title": "Event",
    "type": "object",
    "properties": {
        "what": {"type": "string"},
        "count": {"type": "integer", "minimum": 0},
        "where": {"type": "array", "items": {"type": "object", "required": ["city"]}},
    },
    "required": ["what"],
    "additionalProperties": False,
}


def schema_of(value: Any) -> Any:
    """Return a schema that accepts a value, and few others."""
    if isinstance(value, dict):
        properties = {name: schema_of(each) for name, each in value.items()}
        return {"type": "object", "properties": properties, "required": list(value)}
    if isinstance(value, list):
        items = [schema_of(each) for each in value] or False
        return {"type": "array", "items": items}
    return {"const": value}


@few
@given(VALUES)
def test_what_is_encoded_is_decoded_and_reported_in_json_and_back(value: Any) -> None:
    serde = json_schema(schema_of(value))
    encoded = serde.encode(value)
    assert json.loads(encoded) == value
    assert serde.decode(encoded, 0) == value
    assert serde.decode(b"start" + encoded, 5) == value
    assert serde.from_json(serde.to_json(value)) == value


def as_json(value: Any) -> Any:
    """Convert a value so that two results are equal exactly if the values are equal in JSON.

    In Python, False equals 0, also within lists and objects.
    """
    if isinstance(value, dict):
        return {name: as_json(each) for name, each in value.items()}
    if isinstance(value, list):
        return [as_json(each) for each in value]
    return isinstance(value, bool), value


@few
@given(VALUES, VALUES)
@example(False, 0)
@example([{"a": 1.0}], [{"a": True}])
@example({"a": [1]}, {"a": [1.0]})
def test_what_another_schema_says_is_refused_both_ways(value: Any, other: Any) -> None:
    serde = json_schema({"not": {"const": other}})
    encoded = json.dumps(value).encode()
    if as_json(value) != as_json(other):
        assert serde.decode(serde.encode(value), 0) == value
        return
    with pytest.raises(Unencodable):
        serde.encode(value)
    with pytest.raises(Undecodable):
        serde.decode(encoded, 0)


@pytest.mark.parametrize(
    ("value", "field", "said"),
    [
        ({"what": 5}, "what", "5 is not of type"),
        ({"what": "x", "count": -1}, "count", "-1 is less than the minimum of 0"),
        ({"what": "x", "count": 1.5}, "count", "1.5 is not of type"),
        ({"what": "x", "where": [{"city": 1}, {}]}, "where.1", '"city" is a required property'),
        ({}, "", '"what" is a required property'),
        ({"what": "x", "more": 1}, "", "more"),
        ([], "", "[] is not of type"),
    ],
)
def test_a_value_that_does_not_fit_is_refused_with_its_field(
    value: Any, field: str, said: str
) -> None:
    serde = json_schema(EVENT)
    encoded = json.dumps(value).encode()
    for refuse in (lambda: serde.encode(value), lambda: serde.decode(encoded, 0)):
        with pytest.raises((Unencodable, Undecodable)) as raised:
            refuse()
        error: Any = raised.value
        assert error.field == field
        assert said in error.reason


def test_a_value_is_checked_as_it_will_be_read() -> None:
    serde = json_schema({"type": "array", "items": {"type": ["string", "null"]}})

    assert serde.encode(("a", math.nan)) == b'["a",null]'
    assert serde.decode(b'["a",null]', 0) == ["a", None]


@pytest.mark.parametrize(
    "value", [object(), {(1, 2): 3}, "\ud800", {"a": {1, 2, object()}}, [lambda: None]]
)
def test_what_json_does_not_have_is_refused(value: Any) -> None:
    with pytest.raises(Unencodable):
        json_schema({}).encode(value)


def test_a_value_within_itself_is_refused() -> None:
    value: list[Any] = []
    value.append(value)

    with pytest.raises(Unencodable, match="nested too deeply"):
        json_schema({}).encode(value)


@pytest.mark.parametrize(
    "data", [b"", b"{", b"1 2", b"\xff", b'"\xff"', b"nul", b"NaN", b"1e999", b'"\\ud800"']
)
def test_what_is_not_json_cannot_be_decoded(data: bytes) -> None:
    serde = json_schema({})
    with pytest.raises(Undecodable):
        serde.decode(data, 0)
    with pytest.raises(Unencodable):
        serde.from_json(data)


@pytest.mark.parametrize(("schema", "name"), [(EVENT, "Event"), (True, ""), ({}, "")])
def test_the_name_of_a_record_is_the_title(schema: Any, name: str) -> None:
    assert json_schema(schema).record_name == name


@pytest.mark.parametrize("named", ["address.json", "a", "urn:address", "http://x.example/a.json"])
def test_a_reference_is_found_by_its_name(named: str) -> None:
    address = {"type": "object", "properties": {"city": {"$ref": "#/definitions/city"}}}
    references = ((named, json.dumps(address | {"definitions": {"city": {"type": "string"}}})),)
    user = {"properties": {"home": {"$ref": named}, "city": {"$ref": f"{named}#/definitions/city"}}}
    serde = json_schema(user, references)

    assert serde.encode({"home": {"city": "London"}, "city": "Paris"})
    for value, field in (({"home": {"city": 5}}, "home.city"), ({"city": 5}, "city")):
        with pytest.raises(Unencodable) as raised:
            serde.encode(value)
        assert raised.value.field == field


def test_a_reference_refers_to_another() -> None:
    references = (("b.json", '{"type":"string"}'), ("a.json", '{"items":{"$ref":"b.json"}}'))
    serde = json_schema({"$ref": "a.json"}, references)

    assert serde.encode(["x"])
    with pytest.raises(Unencodable):
        serde.encode([5])


@pytest.fixture
def asked() -> Iterator[tuple[str, list[str]]]:
    """A server's URL, and the paths that were requested from it."""
    paths: list[str] = []

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            paths.append(self.path)
            self.send_response(200)
            self.end_headers()
            self.wfile.write(b"{}")

        def log_message(self, *_: object) -> None:
            pass

    with HTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}", paths
        server.shutdown()
        thread.join()


def test_a_schema_has_nothing_fetched(asked: tuple[str, list[str]], tmp_path: Path) -> None:
    url, paths = asked
    file = tmp_path / "s.json"
    file.write_text("{}")
    for schema in (
        {"$ref": f"{url}/a.json"},
        {"$schema": f"{url}/a.json"},
        {"$schema": "https://json-schema.org/draft/2020-12/schema", "$ref": f"{url}/a.json"},
        {"$id": f"{url}/a.json", "properties": {"x": {"$ref": "b.json"}}},
        {"$ref": file.as_uri()},
        {"$ref": "nosuch.json"},
    ):
        with pytest.raises(UnusableSchema):
            json_schema(schema)
        with suppress(UnusableSchema):
            json_schema({"$ref": "named"}, (("named", json.dumps(schema)),))

    assert paths == []


@pytest.mark.parametrize(
    "text", ["", "{", "5", '"x"', '{"type":5}', '{"pattern":"("}', '{"$ref":"#/definitions/no"}']
)
def test_what_is_not_a_schema_is_unusable(text: str) -> None:
    with pytest.raises(UnusableSchema) as raised:
        compiled(SchemaSource(JSON, text))
    assert "\n" not in str(raised.value)


def test_a_schema_of_no_draft_is_one_of_draft_7() -> None:
    tuples = {"items": [{"type": "string"}, {"type": "integer"}], "additionalItems": False}
    serde = json_schema(tuples)

    assert serde.encode(["a", 1])
    with pytest.raises(Unencodable):
        serde.encode(["a", 1, 2])


def test_a_schema_is_one_of_the_draft_that_it_names() -> None:
    later = "https://json-schema.org/draft/2020-12/schema"
    serde = json_schema({"$schema": later, "prefixItems": [{"type": "string"}], "items": False})

    assert serde.encode(["a"])
    with pytest.raises(Unencodable):
        serde.encode(["a", 1])
