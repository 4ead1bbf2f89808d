"""Which texts are Protobuf schemas, and descriptors that are sent in place of texts."""

import base64
import json
from pathlib import Path
from typing import Any

import pytest
from google.protobuf import descriptor_pb2, struct_pb2, timestamp_pb2, type_pb2

from tms.registry.protobuf.proto_schemas import parse
from tms.registry.questions.questions import InvalidSchema

HERE = Path(__file__).parent
TEXTS = json.loads((HERE / "proto_texts.json").read_text(encoding="utf-8"))
PAIRS = json.loads((HERE / "proto_pairs.json").read_text(encoding="utf-8"))
STARTS = 'syntax = "proto3"; '


@pytest.mark.parametrize("text", TEXTS, ids=lambda each: each["input"][:40])
def test_texts_are_kept_as_confluent_keeps_them(text: dict[str, str]) -> None:
    schema = parse(text["input"])
    assert (schema.text, schema.normalized) == (text["stored"], text["normalized"])
    assert parse(schema.text).text == schema.text


@pytest.mark.parametrize("pair", PAIRS, ids=lambda each: each["new"][:60])
def test_pairs_are_as_confluent_says(pair: dict[str, Any]) -> None:
    old, new = parse(pair["old"]), parse(pair["new"])
    assert (not new.incompatibilities(old)) == pair["backward"]
    assert (not old.incompatibilities(new)) == pair["forward"]


@pytest.mark.parametrize(
    "text",
    [
        "",
        " ",
        "hello",
        "message M {",
        "message M { int32 a }",
        'syntax = "proto4"; message M {}',
        'edition = "2023"; message M {}',
        f"{STARTS} message M {{ Q q = 1; }}",
        f"{STARTS} message M {{ int32 a = 1; int32 b = 1; }}",
        f"{STARTS} message M {{ int32 a = 1; int32 a = 2; }}",
        f"{STARTS} message M {{ int32 a = 0; }}",
        f"{STARTS} message M {{ required int32 a = 1; }}",
        f"{STARTS} message M {{}} message M {{}}",
        f"{STARTS} enum E {{ A = 1; }}",
        f'{STARTS} import "nosuch.proto"; message M {{}}',
        f'{STARTS} import "google/protobuf/nosuch.proto"; message M {{}}',
        "Cg==",
        base64.b64encode(b"nonsense").decode(),
        "message M { " * 300,
    ],
    ids=lambda text: text[:50],
)
def test_what_is_not_a_schema_is_reported(text: str) -> None:
    with pytest.raises(InvalidSchema) as told:
        parse(text)
    assert str(told.value)


@pytest.mark.parametrize("module", [timestamp_pb2, struct_pb2, type_pb2, descriptor_pb2])
def test_a_descriptor_is_taken_for_its_text(module: Any) -> None:
    raw = module.DESCRIPTOR.serialized_pb
    schema = parse(base64.b64encode(raw).decode())
    again = parse(schema.text)
    assert again.text == schema.text
    assert again.incompatibilities(schema) == []


def test_a_text_and_its_descriptor_are_one_schema() -> None:
    text = (
        f"{STARTS} package p; message M {{ map<string, N> m = 1; "
        "oneof o { int32 a = 2; N n = 3; } optional int64 q = 4; repeated E e = 5; "
        "reserved 7, 9 to 11; message N {} enum E { Z = 0; } } "
        "service S { rpc R (stream M) returns (M); }"
    )
    schema = parse(text)

    described = parse(schema.in_form("serialized"))

    assert described.normalized == schema.normalized
    assert described.incompatibilities(schema) == schema.incompatibilities(described) == []


def test_what_is_imported_is_a_reference_or_comes_with_protobuf() -> None:
    other = ("o.proto", f"{STARTS} package o; message T {{ int32 a = 1; }}")
    changed = ("o.proto", f"{STARTS} package o; message T {{ string a = 1; }}")
    user = (
        f'{STARTS} import "o.proto"; import "google/protobuf/type.proto"; '
        "message M { o.T t = 1; google.protobuf.Type k = 2; }"
    )
    assert parse(user, [other]).incompatibilities(parse(user, [other])) == []
    [found] = parse(user, [changed]).incompatibilities(parse(user, [other]))
    assert found.kind == "FIELD_SCALAR_KIND_CHANGED"
