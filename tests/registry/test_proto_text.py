"""The text in which Protobuf schemas are kept. `proto_texts.json` is what Confluent's has kept."""

import json
from functools import partial
from pathlib import Path

import pytest
from proto_schema_parser import ast
from proto_schema_parser.parser import Parser

from tms.registry.proto_text import proto_text
from tms.registry.proto_types import resolved, types_of

TEXTS = json.loads((Path(__file__).parent / "proto_texts.json").read_text(encoding="utf-8"))
WHOLE = """syntax = "proto3";
package p;

import "google/protobuf/any.proto";

option java_package = "x";

message M {
  reserved 2, 15, 9 to 11;
  reserved "foo";

  option deprecated = true;

  map<string, N> m = 1 [
    (a) = "x",
    packed = true
  ];
  repeated .p.N n = 4;
  optional int32 q = 5;

  oneof o {
    int32 x = 3;
  }

  message N {}
  enum E {
    option allow_alias = true;
    A = 0 [deprecated = true];
    B = 0;
  }
}
enum F {
  Z = 0;
}

service S {
  rpc R (stream M) returns (M);
}
"""


def parsed(text: str) -> ast.File:
    return Parser().parse(text)


@pytest.mark.parametrize("text", TEXTS, ids=lambda each: each["input"][:40])
def test_texts_are_kept_as_confluent_keeps_them(text: dict[str, str]) -> None:
    file = parsed(text["input"])
    types = types_of(file)
    assert proto_text(file) == text["stored"]
    assert proto_text(file, partial(resolved, types)) == text["normalized"]
    assert proto_text(parsed(text["stored"])) == text["stored"]


def test_a_text_that_is_kept_stays_as_it_is() -> None:
    assert proto_text(parsed(WHOLE)) == WHOLE
