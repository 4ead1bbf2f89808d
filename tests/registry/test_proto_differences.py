"""Which Protobuf schemas can read data written with others.

`proto_pairs.json` is what Confluent's registry answered.
"""

import json
from pathlib import Path
from typing import Any

import pytest

from tms.registry.protobuf.proto_compiler import compiled
from tms.registry.protobuf.proto_differences import differences
from tms.registry.protobuf.proto_types import ProtoTypes, types_of

PAIRS = json.loads((Path(__file__).parent / "proto_pairs.json").read_text(encoding="utf-8"))


def types(text: str, **imported: str) -> ProtoTypes:
    return types_of(compiled(text, {f"{name}.proto": each for name, each in imported.items()}).file)


def kinds(old: ProtoTypes, new: ProtoTypes) -> list[str]:
    found = differences(old, new)
    assert all(each.message and each.path for each in found)
    return [each.kind for each in found]


@pytest.mark.parametrize("pair", PAIRS, ids=lambda each: each["new"][:60])
def test_pairs_are_as_confluent_says(pair: dict[str, Any]) -> None:
    old, new = types(pair["old"]), types(pair["new"])
    assert (not kinds(old, new)) == pair["backward"]
    assert (not kinds(new, old)) == pair["forward"]


def of(body: str, syntax: str = "proto3") -> ProtoTypes:
    return types(f'syntax = "{syntax}"; package p; message M {{ {body} }}')


@pytest.mark.parametrize(
    ("old", "new", "told"),
    [
        ("int32 a = 1;", "int64 b = 1;", []),
        ("int32 a = 1;", "bool a = 1;", []),
        ("string a = 1;", "bytes a = 1;", []),
        ("float a = 1;", "double a = 1;", ["FIELD_SCALAR_KIND_CHANGED"]),
        ("int32 a = 1;", "M a = 1;", ["FIELD_KIND_CHANGED"]),
        ("M a = 1;", "repeated M a = 1;", []),
        ("repeated int32 a = 1;", "optional int32 a = 1;", ["FIELD_LABEL_CHANGED"]),
        ("map<string, int32> a = 1;", "map<string, int64> a = 1;", []),
        (
            "map<string, int32> a = 1;",
            "map<string, string> a = 1;",
            ["FIELD_SCALAR_KIND_CHANGED"],
        ),
        ("map<string, int32> a = 1;", "int32 a = 1;", ["FIELD_KIND_CHANGED"]),
        ("oneof o { int32 a = 1; }", "oneof o { int32 a = 1; int32 b = 2; }", []),
        (
            "oneof o { int32 a = 1; int32 b = 2; }",
            "oneof o { int32 a = 1; }",
            ["ONEOF_FIELD_REMOVED"],
        ),
        ("oneof o { int32 a = 1; }", "", []),
        ("int32 a = 1;", "oneof o { int32 a = 1; }", []),
        (
            "int32 a = 1; oneof o { int32 b = 2; }",
            "oneof o { int32 b = 2; int32 a = 1; }",
            ["FIELD_MOVED_TO_EXISTING_ONEOF"],
        ),
        (
            "message A { int32 x = 1; } A a = 1;",
            "message B { int32 x = 1; } B a = 1;",
            ["FIELD_NAMED_TYPE_CHANGED", "MESSAGE_REMOVED"],
        ),
        ("enum E { Z = 0; } E a = 1;", "int32 a = 1;", []),
        ("int32 a = 1;", "oneof o { string a = 1; }", ["FIELD_SCALAR_KIND_CHANGED"]),
        ("oneof o { int32 a = 1; }", "string a = 1;", ["FIELD_SCALAR_KIND_CHANGED"]),
        ("oneof o { int32 a = 1; }", "M a = 1;", ["FIELD_KIND_CHANGED"]),
        ("oneof o { int32 a = 1; }", "map<string, M> a = 1;", ["FIELD_KIND_CHANGED"]),
        ("oneof o { int32 a = 1; }", "oneof q { int64 a = 1; }", []),
        ("oneof o { int32 a = 1; }", "oneof q { string a = 1; }", ["FIELD_SCALAR_KIND_CHANGED"]),
        ("oneof o { bytes a = 1; }", "optional string a = 1;", []),
    ],
)
def test_differences_have_their_names(old: str, new: str, told: list[str]) -> None:
    assert kinds(of(old), of(new)) == told


def test_names_mean_the_nearest_type() -> None:
    text = (
        'syntax = "proto3"; package a.b; message N {} '
        "message M { message N { enum E { Z = 0; } } N x = 1; .a.b.N y = 2; b.N z = 3; N.E e = 4; }"
    )
    found = types(text)
    fields = found.messages["a.b.M"].fields
    assert [fields[tag].type for tag in (1, 2, 3, 4)] == [
        "a.b.M.N",
        "a.b.N",
        "a.b.N",
        "a.b.M.N.E",
    ]
    assert found.own == ["a.b.N", "a.b.M", "a.b.M.N"]


def test_imported_messages_are_compared() -> None:
    user = 'syntax = "proto3"; import "o.proto"; message M { o.T t = 1; }'
    other = 'syntax = "proto3"; package o; message T {{ {} a = 1; }}'
    old = types(user, o=other.format("int32"))
    assert kinds(old, types(user, o=other.format("int64"))) == []
    assert kinds(old, types(user, o=other.format("string"))) == ["FIELD_SCALAR_KIND_CHANGED"]


def test_a_type_of_another_package_is_the_same_if_it_is_alike() -> None:
    user = 'syntax = "proto3"; package p; import "o.proto"; message M {{ {}.T t = 1; }}'
    other = 'syntax = "proto3"; package {}; message T {{ {} a = 1; }}'
    old = types(user.format("o.v1"), o=other.format("o.v1", "int32"))
    alike = types(user.format("o.v2"), o=other.format("o.v2", "int64"))
    unlike = types(user.format("o.v2"), o=other.format("o.v2", "string"))
    assert kinds(old, alike) == kinds(alike, old) == []
    assert kinds(old, unlike) == ["FIELD_SCALAR_KIND_CHANGED"]
    own = types('syntax = "proto3"; package p; message T { int32 a = 1; } message M { T t = 1; }')
    assert kinds(old, own) == []
    assert kinds(own, old) == ["MESSAGE_REMOVED"]
