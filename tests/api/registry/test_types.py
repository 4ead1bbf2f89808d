"""JSON Schemas and Protobuf schemas, and one text as schemas of two types."""

import base64
import hashlib
import uuid

import pytest
from google.protobuf.descriptor_pb2 import FileDescriptorProto

from tests.api.registry.live import Api, refused

pytestmark = pytest.mark.anyio

STRING = '"string"'


def guid(text: str) -> str:
    return str(uuid.UUID(bytes=hashlib.md5(text.encode(), usedforsecurity=False).digest()))


async def test_a_json_schema_is_registered(api: Api) -> None:
    text = '{"type":"object","properties":{"a":{"type":"string"}}}'
    told = await api.register("j", text.replace(":", " : "), schemaType="JSON")
    assert (told["schemaType"], told["schema"]) == ("JSON", text)
    assert (await api.http.get("/schemas/ids/1/schema")).text == text
    wider = '{"type":"object","properties":{"a":{"type":["string","null"]}}}'
    assert (await api.register("j", wider, schemaType="JSON"))["version"] == 2
    assert await api.register("j", text, schemaType="JSON") == told
    narrower = '{"type":"object","properties":{"a":{"type":"string","maxLength":1}}}'
    status, told = await api.call(
        "POST", "/subjects/j/versions", {"schema": narrower, "schemaType": "JSON"}
    )
    assert refused(status, told) == 409
    assert await api.register("j", '{"type":"objekt"}', schemaType="JSON") == 42201
    assert await api.register("j", STRING) == 409


async def test_a_protobuf_schema_is_registered(api: Api) -> None:
    given = 'syntax = "proto3"; message M { int32 a = 1; }'
    text = 'syntax = "proto3";\n\nmessage M {\n  int32 a = 1;\n}\n'
    told = await api.register("p", given, schemaType="PROTOBUF")
    assert (told["schemaType"], told["schema"]) == ("PROTOBUF", text)
    assert (await api.http.get("/schemas/ids/1/schema")).text == text
    for path in ("/schemas/ids/1", "/subjects/p/versions/1"):
        serialized = (await api.get(f"{path}?format=serialized"))[1]["schema"]
        described = FileDescriptorProto.FromString(base64.b64decode(serialized))
        assert [each.name for each in described.message_type] == ["M"]
        assert (await api.get(f"{path}?format=nosuch"))[1]["schema"] == text
    assert (await api.register("d", serialized, schemaType="PROTOBUF"))["id"] == 1
    wider = given.replace("}", "string b = 2; }")
    assert (await api.register("p", wider, schemaType="PROTOBUF"))["version"] == 2
    other = given.replace("int32", "string")
    assert await api.register("p", other, schemaType="PROTOBUF") == 409
    unknown = given.replace("int32", "Nosuch")
    assert await api.register("q", unknown, schemaType="PROTOBUF") == 42201

    named = [{"name": "m.proto", "subject": "p", "version": 1}]
    user = 'syntax = "proto3"; import "m.proto"; message U { M m = 1; }'
    assert await api.register("u", user, schemaType="PROTOBUF") == 42201
    told = await api.register("u", user, schemaType="PROTOBUF", references=named)
    assert told["references"] == named


async def test_one_text_may_be_schemas_of_two_types(api: Api) -> None:
    """Confluent's registry refuses this, because its hash leaves the type out."""
    text = '{"type":"string","x":1}'
    assert (await api.register("a", text))["id"] == 1
    told = await api.register("j", text, schemaType="JSON")
    assert (told["id"], told["schemaType"]) == (2, "JSON")
    assert (await api.get("/schemas/ids/1"))[1]["schemaType"] == "AVRO"
    ids = [{"context": ".", "id": 1}, {"context": ".", "id": 2}]
    assert await api.get(f"/schemas/guids/{guid(text)}/ids") == (200, ids)


async def test_a_json_schema_refers_to_others(api: Api) -> None:
    await api.register("address", '{"type":"object"}', schemaType="JSON")
    named = [{"name": "address.json", "subject": "address", "version": 1}]
    user = '{"type":"object","properties":{"home":{"$ref":"address.json"}}}'
    assert await api.register("user", user, schemaType="JSON") == 42201
    told = await api.register("user", user, schemaType="JSON", references=named)
    assert told["references"] == named
