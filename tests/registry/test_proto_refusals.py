"""Which Protobuf files are accepted: those that protoc accepts; and what they may import."""

import base64

import pytest
from confluent_kafka.schema_registry.confluent import meta_pb2
from confluent_kafka.schema_registry.confluent.type import decimal_pb2, variant_pb2
from confluent_kafka.schema_registry.confluent.types import decimal_pb2 as old_decimal_pb2
from google.protobuf.descriptor_pb2 import FieldOptions, FileDescriptorProto, FileOptions
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.registry.protoc import described
from tests.scale import scaled
from tms.registry.protobuf.proto_schemas import parse
from tms.registry.questions.questions import InvalidSchema
from tms.serdes.confluent_protos import CONFLUENT_FILES
from tms.serdes.standard_protos import STANDARD_FILES

THREE, TWO = 'syntax = "proto3"; package p; ', 'syntax = "proto2"; package p; '
DESCRIPTOR = 'import "google/protobuf/descriptor.proto"; '
BODIES = (
    *("int32 a = 0x10;", "int32 a = 010;", "int32 a = 0;", "int32 a = -1;", "int32 a = 08;"),
    *("int32 a = 18999;", "int32 a = 19000;", "int32 a = 19999;", "int32 a = 20000;"),
    *("int32 a = 536870911;", "int32 a = 536870912;", "int32 a = 4294967297;"),
    *("int32 a = 1; reserved 1;", "int32 a = 5; reserved 2 to 7;", 'int32 a = 1; reserved "a";'),
    *("reserved 5 to 2;", "reserved 1, 1;", "reserved 1 to max;", 'reserved "a", "a";'),
    *('reserved "not a name";', "reserved 0;", "reserved a;", "reserved 0x10 to 0x1f;"),
    *("int32 a = 1; int32 b = 1;", "int32 a = 1; int64 a = 2;", "int32 aB = 1; int32 a_b = 2;"),
    *("string a = 1 [default = 'x'];", "int32 a = 1 [nosuch = 1];", "int32 a = 1 [(x) = 1];"),
    *("int32 a = 1 [deprecated = 1];", "int32 a = 1 [deprecated = true, deprecated = true];"),
    *("int32 a = 1 [json_name = 'b'];", "int32 a = 1 [json_name = 'b']; int32 b = 2;"),
    *("string a = 1 [packed = true];", "repeated int32 a = 1 [packed = true];"),
    *("int64 a = 1 [jstype = JS_STRING];", "int32 a = 1 [jstype = JS_STRING];", "M.N a = 1;"),
    *("map<string, int32> a = 1;", "map<double, int32> a = 1;", "map<M, int32> a = 1;"),
    *("repeated map<string, int32> a = 1;", "map<string, map<string, int32>> a = 1;"),
    *("map<string, int32> a = 1; message AEntry {}", "oneof o { map<string, int32> a = 1; }"),
    *("oneof o { }", "oneof o { int32 a = 1; } oneof o { int32 b = 2; }", "oneof a {int32 a = 1;}"),
    *("oneof o { repeated int32 a = 1; }", "oneof o { option deprecated = true; int32 a = 1; }"),
    *("required int32 a = 1;", "optional int32 a = 1;", "int32 a = 1", "int32 1 = 1;", "int32 a;"),
    *("message N { message N {} }", "message N {} enum N { Z = 0; }", "N a = 1; message N {}"),
    *("enum E { A = 1; }", "enum E { A = 0; B = 0; }", "enum E { }", "enum E { A = 0; A = 1; }"),
    *("enum E { option allow_alias = true; A = 0; B = 0; }", "enum E { A = 0; B = 2147483648; }"),
    *("enum E { A = 0; B = -2147483648; }", "enum E { A = 0; B = 3; reserved 3; }"),
    *("enum E { Z = 0; } enum F { Z = 0; }", "enum E { A = 0; reserved 5 to max; }"),
    *("extensions 10 to 20;", "extend M { int32 a = 1; }", "group G = 1 { }", "int32 a = 1 [];"),
    *(
        "option deprecated = true;",
        "option map_entry = true;",
        "option message_set_wire_format=true;",
    ),
    *(
        "/* not ended",
        "int32 a /* here */ = /* and */ 1 // there\n;",
        "string s = 1 [ctype = CORD];",
    ),
    *("int32 message = 1;", "int32 optional = 2;", "string string = 3;", "int32 é = 1;", ";;"),
    *("p.M a = 1;", ".p.M a = 1;", ".M a = 1;", "q.M a = 1;", "M a = 1;", "Timestamp a = 1;"),
    "google.protobuf.Timestamp a = 1;",
)
OF_SYNTAX_2 = (
    *("optional int32 a = 1;", "int32 a = 1;", "required M a = 1;", "repeated int32 a = 1;"),
    *("optional int32 a = 1 [default = 5];", "optional int32 a = 1 [default = 'x'];"),
    *("optional int32 a = 1 [default = 2147483648];", "optional bool a = 1 [default = true];"),
    *("optional float a = 1 [default = -inf];", "optional bytes a = 1 [default = '\\xff'];"),
    *("repeated int32 a = 1 [default = 5];", "optional M a = 1 [default = 5];"),
    *("enum E { A = 5; } optional E e = 1 [default = A];", "optional uint32 a = 1 [default = -1];"),
    *("enum E { A = 5; } optional E e = 1 [default = B];", "optional group G = 1 { }"),
    *("optional group g = 1 { }", "oneof o { group G = 1 { } }", "optional int32 a = 0x7;"),
    *("extensions 10 to 20; optional int32 a = 15;", "extensions 10; reserved 10;"),
    *("extensions 10 to max; extend M { optional int32 a = 10; }", "extensions 5 to 3;"),
    *("extensions 10 to 20; extend M { optional int32 a = 30; }", "extend M { }"),
    *("extensions 10 to 20; extend M { required int32 a = 10; }", "enum E { A = 1; B = 1; }"),
    *("optional int32 aB = 1; optional int32 a_b = 2;", "option message_set_wire_format = true;"),
    "extensions 4 to 9 [declaration = {number: 4, full_name: '.a', type: 'int32'}];",
)
IN_SYNTAX_3 = (
    *("service S { rpc R(M) returns (M); }", "import 'nosuch.proto'; message M {}", "package q;"),
    "message M {} service S { rpc R(M) returns (stream M) {}; }",
    "message M {} service S { rpc R(M) returns (M); rpc R(M) returns (M); }",
    *("option java_package = 'x'; message M {}", "option java_package = 1;", "option x = 1;"),
    *("option java_package = 'x'; option java_package = 'y';", "option optimize_for = SPEED;"),
    *("option optimize_for = FAST;", "option (confluent.file_meta) = {};"),
    "import weak 'google/type/date.proto';",
    "import public 'google/type/date.proto'; message M { google.type.Date d = 1; }",
    "import 'google/type/date.proto'; import 'google/type/date.proto';",
    "extend google.protobuf.FileOptions { string x = 50000; }",
    f"{DESCRIPTOR}extend google.protobuf.FileOptions {{ string x = 50000; }}",
    f"{DESCRIPTOR}extend google.protobuf.Any {{ string x = 50000; }}",
    f"{DESCRIPTOR}extend google.protobuf.FileOptions {{ int32 x = 50000; }} option (x) = 'a';",
    f"{DESCRIPTOR}extend google.protobuf.FileOptions {{ int32 x = 50000; }} option (x) = 0x5;",
    *(f"{'message M {' * 30}{'}' * 30}", f"{'message M {' * 40}{'}' * 40}"),
)
WHOLE = (
    *("message M {}", "message M {} message M {}", "enum E { A = 0; }", "service S { }", "import;"),
    *("syntax = 'proto' '3'; message M { int32 a = 1; }", "\ufeffsyntax = 'proto3'; message M {}"),
    *("message M {} syntax = 'proto3';", "syntax = 'proto3'; syntax = 'proto3';", "package p; ;"),
    *(f"{THREE}{each}" for each in IN_SYNTAX_3),
)
TABLE = (
    *(f"{THREE}message M {{ {body} }}" for body in BODIES),
    *(f"{TWO}message M {{ {body} }}" for body in OF_SYNTAX_2),
    *WHOLE,
)


def is_taken(text: str) -> bool:
    try:
        schema = parse(text)
        again = parse(schema.text)
        assert parse(schema.normalized).normalized == schema.normalized == again.normalized
    except InvalidSchema as error:
        assert str(error)
        return False
    return True


def test_files_are_taken_as_protoc_takes_them() -> None:
    taken = {text: described(text) is not None for text in TABLE}
    assert [text for text in TABLE if is_taken(text) != taken[text]] == []
    assert sum(taken.values()) > 50 < len(taken) - sum(taken.values())


TOKENS = st.sampled_from(
    [
        *("message M {", "enum E {", "oneof o {", "}", "int32 a", "string b", "M c", "E d", "= 1;"),
        *("= 0x2;", "= 03;", "A = 0;", "B = 1;", "reserved 1;", 'reserved "a";', "optional"),
        *("repeated", "map<string, M> m", "= 4 [deprecated = true];", "option deprecated = true;"),
        *("extensions 100 to 200;", "extend M {", "service S {", "rpc R(M) returns (M);", "// c\n"),
        *("package p;", 'import "google/type/date.proto";', "google.type.Date t", "= 19000;"),
    ]
)


@settings(max_examples=scaled(150))
@given(st.sampled_from(["proto2", "proto3"]), st.lists(TOKENS, min_size=1, max_size=12))
def test_random_files_are_taken_as_protoc_takes_them(syntax: str, tokens: list[str]) -> None:
    text = f'syntax = "{syntax}"; message X {{}} {" ".join(tokens)}'
    assert is_taken(text) == (described(text) is not None)


def test_what_clients_have_is_imported_without_a_reference() -> None:
    imports = "".join(f'import "{name}";' for name in sorted(STANDARD_FILES))
    schema = parse(
        f"{THREE}{imports} message M {{ google.type.Money m = 1; confluent.type.Decimal d = 2;"
        'string s = 3 [(confluent.field_meta) = {tags: "PII"}]; }'
    )
    assert parse(schema.text).text == schema.text
    assert parse(schema.in_form("serialized")).normalized == parse(schema.normalized).normalized


def test_confluents_files_are_those_of_its_client() -> None:
    modules = (meta_pb2, decimal_pb2, variant_pb2, old_decimal_pb2)
    theirs = [FileDescriptorProto.FromString(each.DESCRIPTOR.serialized_pb) for each in modules]
    for each in theirs:
        each.ClearField("options")
    assert list(CONFLUENT_FILES) == theirs


def test_a_reference_stands_for_the_file_of_its_name() -> None:
    other = ("a/b c.proto", f"{THREE}message T {{}}")
    text = f'{THREE}import "a/b c.proto"; message M {{ T t = 1; }}'
    assert parse(text, [other]).text
    with pytest.raises(InvalidSchema):
        parse(text, [])
    with pytest.raises(InvalidSchema, match=r"defined|imported"):
        parse(f"{THREE}message M {{ T t = 1; }}", [other])
    own = ("schema.proto", f"{THREE}message T {{}}")
    assert parse(f'{THREE}import "schema.proto"; message M {{ T t = 1; }}', [own]).text


@pytest.mark.parametrize(
    "name", ["/etc/hosts", "../x.proto", "a/../b", "a//b", "./a", "a\\b", "", "a\0b", "é" * 300]
)
def test_a_reference_cannot_lead_out_of_its_folder(name: str) -> None:
    with pytest.raises(InvalidSchema):
        parse(f"{THREE}message M {{}}", [(name, f"{THREE}message T {{}}")])


def test_an_option_that_nothing_defines_is_reported() -> None:
    file = FileDescriptorProto(name="f.proto", syntax="proto3")
    field = file.message_type.add(name="M").field.add(name="a", number=1, label=1, type=9)
    field.options.CopyFrom(FieldOptions.FromString(b"\x82\x88\x1a\x01x"))
    with pytest.raises(InvalidSchema, match="FieldOptions is defined in no file"):
        parse(base64.b64encode(file.SerializeToString()).decode())
    file.message_type[0].field[0].ClearField("options")
    file.options.CopyFrom(FileOptions(java_package="x"))
    assert (
        'option java_package = "x";'
        in parse(base64.b64encode(file.SerializeToString()).decode()).text
    )
    file.syntax = "editions"
    with pytest.raises(InvalidSchema, match="editions"):
        parse(base64.b64encode(file.SerializeToString()).decode())


def test_a_descriptor_that_no_text_says_is_reported() -> None:
    file = FileDescriptorProto(name="f.proto", syntax="proto2")
    file.message_type.add(name="G")
    group = file.message_type.add(name="M").field.add(name="g", number=1, label=1)
    group.type, group.type_name = group.TYPE_GROUP, ".G"
    with pytest.raises(InvalidSchema, match="group"):
        parse(base64.b64encode(file.SerializeToString()).decode())
    group.ClearField("type")
    assert "optional .G g = 1;" in parse(base64.b64encode(file.SerializeToString()).decode()).text
    group.type_name = "Q"
    with pytest.raises(InvalidSchema, match="Q"):
        parse(base64.b64encode(file.SerializeToString()).decode())
