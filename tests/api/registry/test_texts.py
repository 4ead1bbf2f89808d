"""Texts with odd characters and numbers keep their meaning, or are refused with a reason."""

import json
from typing import Any

import pytest

from tests.api.registry.live import Api, refused

pytestmark = pytest.mark.anyio

HALF = "\\ud800"
RECORD = '{"type":"record","name":"R","fields":[{"name":"a","type":"double","default":%s}]}'


def both(text: str) -> list[Any]:
    return [pytest.param(kind, text, id=f"{kind} {text}") for kind in ("AVRO", "JSON")]


NESTED = '{"type":"record","name":"N","fields":[{"name":"b","type":"int"%s}]}'


@pytest.mark.parametrize(
    ("kind", "default", "is_right"),
    [
        ('"int"', "1", True),
        ('"int"', '"1"', False),
        ('"int"', "1.0", False),
        ('"int"', "true", False),
        ('"int"', "2147483648", False),
        ('"long"', "2147483648", True),
        ('"double"', "1", True),
        ('"double"', '"1"', True),
        ('"double"', "1e400", True),
        ('"double"', '"x"', False),
        ('"string"', "1", False),
        ('"null"', "0", False),
        ('"boolean"', "false", True),
        ('["null","int"]', "1", True),
        ('["null","int"]', '"x"', False),
        ('{"type":"array","items":"int"}', "[1,2]", True),
        ('{"type":"array","items":"int"}', '[1,"2"]', False),
        ('{"type":"map","values":"int"}', '{"a":1}', True),
        ('{"type":"map","values":"int"}', "[]", False),
        ('{"type":"enum","name":"E","symbols":["A"]}', '"B"', True),
        (NESTED % "", '{"b":1}', True),
        (NESTED % "", "{}", False),
        (NESTED % ',"default":1', "{}", True),
        (NESTED % ',"default":"x"', '{"b":1}', False),
        ('{"type":"array","items":"R"}', '[{"a":[]}]', True),
        ('{"type":"array","items":"R"}', "[{}]", True),
        ('{"type":"array","items":"R"}', '[{"a":[1]}]', False),
    ],
)
async def test_normalized_defaults_are_of_their_types(
    api: Api, kind: str, default: str, *, is_right: bool
) -> None:
    field = f'{{"name":"a","type":{kind},"default":{default}}}'
    text = f'{{"type":"record","name":"R","fields":[{field}]}}'
    told = await api.register("s", text, "?normalize=true")
    assert (told != 42201) == is_right
    status, fits = await api.call(
        "POST", "/compatibility/subjects/t/versions?normalize=true", {"schema": text}
    )
    assert (status == 200 and fits["is_compatible"]) == is_right
    # Without normalization the text is accepted, as ever, and a lookup of either form finds it.
    assert (await api.register("u", text))["version"] == 1
    normalized = "/subjects/u?normalize=true"
    assert (await api.call("POST", normalized, {"schema": text}))[0] in (200, 404)
    assert (await api.call("PUT", "/config/v", {"normalize": True}))[0] == 200
    assert (await api.register("v", text) != 42201) == is_right


@pytest.mark.parametrize(
    ("kind", "text"),
    [
        *both(f'{{"type":"{HALF}"}}'),
        *both(f'{{"type":"string","doc":"{HALF}"}}'),
        *both(f'{{"type":"string","title":["\\\\{HALF}\\ud83d"]}}'),
        *both('{"type":"string","\\uDFFFx":1}'),
        ("AVRO", f'"{HALF}"'),
        ("AVRO", f'{{"type":"record","name":"{HALF}","fields":[]}}'),
        ("AVRO", f'{{"type":"record","name":"R","namespace":"{HALF}","fields":[]}}'),
        ("AVRO", f'{{"type":"enum","name":"E","symbols":["A"],"default":"{HALF}"}}'),
        ("JSON", f'{{"$id":"{HALF}"}}'),
        ("JSON", f'{{"pattern":"{HALF}"}}'),
    ],
)
@pytest.mark.parametrize("query", ["", "?normalize=true"])
async def test_half_of_a_character_is_refused(api: Api, kind: str, text: str, query: str) -> None:
    body = {"schema": text, "schemaType": kind}
    for path in ("/subjects/s/versions", "/compatibility/subjects/s/versions"):
        status, told = await api.call("POST", f"{path}{query}", body)
        assert refused(status, told) == 42201
        assert "half of a character" in told["message"]
    assert (await api.get("/subjects"))[1] == []


@pytest.mark.parametrize(
    ("kind", "text"),
    [
        *both('{"type":"string","x":"\\ud83d\\ude00"}'),
        *both('{"type":"string","x":"\\\\ud800"}'),
        *both('{"type":"string","x":"\\u00e9\\uffff"}'),
    ],
)
async def test_whole_characters_are_kept(api: Api, kind: str, text: str) -> None:
    told = await api.register("s", text, schemaType=kind)
    assert json.loads(told["schema"]) == json.loads(text)
    assert (await api.register("s", told["schema"], schemaType=kind))["version"] == 1


async def test_numbers_of_java_are_taken_and_those_that_are_not_json_refused(api: Api) -> None:
    for number, kept in (("1e400", '"Infinity"'), ("-1e400", '"-Infinity"'), ('"NaN"', '"NaN"')):
        for query in ("", "?normalize=true"):
            told = await api.register("s", RECORD % number, query)
            assert told["schema"] == RECORD % kept
            body = {"schema": RECORD % number}
            assert (await api.call("POST", f"/subjects/s{query}", body))[0] == 200
    for number in ("NaN", "Infinity", "-Infinity", "[NaN]"):
        assert await api.register("s", RECORD % number) == 42201


@pytest.mark.parametrize("size", ["true", "-1", "1.0", '"1"', "1e400", str(2**31), "null"])
async def test_a_size_is_a_whole_number_that_java_has(api: Api, size: str) -> None:
    assert await api.register("s", f'{{"type":"fixed","name":"F","size":{size}}}') == 42201


@pytest.mark.parametrize("kind", ["string", "bytes"])
async def test_a_protobuf_default_of_any_bytes_is_kept_as_it_means(api: Api, kind: str) -> None:
    field = f'optional {kind} a = 1 [default = "\\ud800"];'
    text = f'syntax = "proto2"; message M {{ {field} }}'
    told = await api.register("s", text, schemaType="PROTOBUF")
    assert "\\355\\240\\200" in told["schema"]
    again = await api.register("s", told["schema"], schemaType="PROTOBUF")
    assert again["version"] == 1
    assert (await api.get("/subjects/s/versions/1?format=serialized"))[0] == 200
