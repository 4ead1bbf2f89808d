"""The text that the registry stores for Protobuf schemas."""

import json
from functools import partial
from pathlib import Path

import pytest
from proto_schema_parser import ast
from proto_schema_parser.parser import Parser

from tms.registry.protobuf.proto_compiler import compiled
from tms.registry.protobuf.proto_text import proto_text
from tms.registry.protobuf.proto_tree import tree_of
from tms.registry.protobuf.proto_types import resolved, types_of

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
    types = types_of(compiled(text["input"], {}).file)
    assert proto_text(file) == text["stored"]
    assert proto_text(file, partial(resolved, types)) == text["normalized"]
    assert proto_text(parsed(text["stored"])) == text["stored"]


def test_a_text_that_is_kept_stays_as_it_is() -> None:
    assert proto_text(parsed(WHOLE)) == WHOLE


DETAILED = """syntax = "proto2";
package p;

option (o) = {
  a: [
    "x",
    "y"
  ],
  b: {
    c: 0x1F
  }
};

message M {
  reserved 5, 7 to 9;

  option deprecated = true;

  optional string a = 1 [default = "\\"q\\"\\n\\x41"];
  optional bytes b = 2 [default = "\\001\\377"];
  optional float f = 3 [
    default = 1e3,
    deprecated = true
  ];

  oneof o {
    string d = 6;
  }

  optional group G = 4 {
    optional int32 z = 1;
  }

  extend M {
    optional int32 e = 31;
  }

  extensions 30 to max;
}
"""


def test_details_stay_as_they_are_written() -> None:
    assert proto_text(tree_of(DETAILED)) == DETAILED
    single = DETAILED.replace('"\\"q\\"\\n\\x41"', "'\"q\"' \"\\n\" '\\x41'")
    assert single != DETAILED
    assert proto_text(tree_of(single)) == DETAILED
