"""Texts with odd characters and numbers are kept as they mean, or refused and told why."""

import json
from typing import Any

import pytest

from tests.api.registry.live import Api, refused

pytestmark = pytest.mark.anyio

HALF = "\\ud800"
RECORD = '{"type":"record","name":"R","fields":[{"name":"a","type":"double","default":%s}]}'


def both(text: str) -> list[Any]:
    return [pytest.param(kind, text, id=f"{kind} {text}") for kind in ("AVRO", "JSON")]


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
