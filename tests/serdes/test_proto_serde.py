"""Protobuf's messages: random files, their JSON, and the errors for values that do not fit."""

import base64
import json
from typing import Any

import pytest
from google.protobuf import json_format, message_factory
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from tests.registry import proto_files, protoc
from tests.scale import scaled
from tests.serdes.compiling import descriptor, proto
from tms.core.values.schema_types import PROTOBUF
from tms.serdes.compiling import compiled
from tms.serdes.serde import SchemaSource, Undecodable, Unencodable, UnusableSchema

few = settings(max_examples=scaled(60))
SHOP = """
    syntax = "proto3"; package shop;
    import "google/protobuf/timestamp.proto"; import "google/protobuf/any.proto";
    message Order { string id = 1; int32 count = 2; Line line = 3; repeated Line more = 4;
      google.protobuf.Timestamp at = 5; google.protobuf.Any what = 6; Size size = 7;
      message Line { string article = 1; message Price { int64 cents = 1; } Price price = 2; } }
    enum Size { SMALL = 0; BIG = 1; }
    message Other { message Inner { bool is_inner = 1; } }
"""


@st.composite
def messages(draw: st.DrawFn) -> tuple[str, Any]:
    """Generate the text of a file, and a message of its `M` decoded from random bytes."""
    file = draw(proto_files.files())
    assume(protoc.described(file.text) is not None)
    message = protoc.classes(file.text)["M"]()
    for field in draw(st.lists(st.sampled_from(file.fields), max_size=4)) if file.fields else ():
        kind = draw(st.sampled_from([0, 1, 2, 5]))
        body = {
            0: draw(st.integers(0, 127)).to_bytes(),
            1: draw(st.binary(min_size=8, max_size=8)),
            2: b"\x03abc",
            5: draw(st.binary(min_size=4, max_size=4)),
        }[kind]
        try:
            message.MergeFromString(bytes([field.tag << 3 | kind]) + body)
        except Exception:  # these bytes are not such a message
            assume(False)
    return file.text, message


@few
@given(messages())
def test_what_is_encoded_is_decoded(drawn: tuple[str, Any]) -> None:
    text, message = drawn
    serde = proto(text)
    if not message.IsInitialized():
        with pytest.raises(Unencodable):
            serde.encode(message)
        with pytest.raises(Undecodable, match="it is required and missing"):
            serde.decode(b"\x00" + message.SerializePartialToString(), 0)
        return

    encoded = serde.encode(message)
    decoded = serde.decode(b"start" + encoded, 5)

    assert encoded[:1] == b"\x00"
    assert type(message).FromString(encoded[1:]) == message
    assert decoded.SerializeToString(deterministic=True) == message.SerializeToString(
        deterministic=True
    )
    assert decoded.DESCRIPTOR.full_name == "p.q.M"


@few
@given(messages())
def test_what_is_reported_in_json_is_read_again(drawn: tuple[str, Any]) -> None:
    text, message = drawn
    assume(message.IsInitialized())
    message.DiscardUnknownFields()
    serde = proto(text)
    decoded = serde.decode(serde.encode(message), 0)

    told = serde.to_json(decoded)

    assert serde.to_json(serde.from_json(told)) == told
    assert serde.encode(json.loads(told)) == serde.encode(serde.from_json(told))


@pytest.mark.parametrize(
    ("name", "start", "value"),
    [
        ("shop.Order", b"\x00", {"id": "a"}),
        ("shop.Order.Line", b"\x04\x00\x00", {"article": "b"}),
        ("shop.Order.Line.Price", b"\x06\x00\x00\x00", {"cents": "5"}),
        ("shop.Other", b"\x02\x02", {}),
        ("shop.Other.Inner", b"\x04\x02\x00", {"is_inner": True}),
    ],
)
def test_a_mapping_stands_for_the_message_that_is_named(
    name: str, start: bytes, value: dict[str, Any]
) -> None:
    of_file = proto(SHOP)
    serde = of_file.with_message(name)
    assert serde.record_name == name
    encoded = serde.encode(value)
    assert encoded.startswith(start)
    for reader in (of_file, serde):
        decoded = reader.decode(encoded, 0)
        assert decoded.DESCRIPTOR.full_name == name
        assert json_format.MessageToDict(decoded, preserving_proto_field_name=True) == value
        assert reader.encode(decoded) == encoded


def test_a_message_of_another_file_is_refused() -> None:
    other = protoc.classes('syntax = "proto3"; package shop; message Foreign { string id = 1; }')

    with pytest.raises(Unencodable, match=r"the schema has no message shop\.Foreign"):
        proto(SHOP).encode(other["Foreign"]())


@pytest.mark.parametrize(
    "value",
    [
        {"nosuch": 1},
        {"count": "x"},
        {"count": 1 << 31},
        {"count": 1.5},
        {"id": 5},
        {"id": "\ud800"},
        {"line": 5},
        {"line": "text"},
        {"line": {"article": []}},
        {"more": {}},
        {"more": [5]},
        {"more": [None]},
        {"at": 5},
        {"at": "yesterday"},
        {"what": 5},
        {"what": {"@type": 5}},
        {"what": {"@type": "type.example/nosuch"}},
        {"what": {"x": 1}},
        {"size": "HUGE"},
        {1: 2},
    ],
)
def test_a_value_that_does_not_fit_is_refused(value: Any) -> None:
    serde = proto(SHOP)
    with pytest.raises(Unencodable):
        serde.encode(value)
    if "id" not in value and 1 not in value:
        with pytest.raises(Unencodable):
            serde.from_json(json.dumps(value).encode())


@pytest.mark.parametrize("value", [None, 5, "x", [], [{"id": "a"}], b"raw"])
def test_what_is_neither_a_message_nor_a_mapping_is_refused(value: Any) -> None:
    with pytest.raises(Unencodable, match="a message or a mapping is expected"):
        proto(SHOP).encode(value)


@pytest.mark.parametrize(
    "text", [b"", b"{", b"5", b"[]", b"null", b"\xff", b'"x"', b'""', b"1" * 5000]
)
def test_what_is_not_json_of_a_message_is_refused(text: bytes) -> None:
    with pytest.raises(Unencodable):
        proto(SHOP).from_json(text)


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (b"\x02\x04", "its schema has no message to read at [2]"),
        (b"\x04\x02\x02", "its schema has no message to read at [1, 1]"),
        (b"\x06\x02\x00\x00", "its schema has no message to read at [1, 0, 0]"),
        (b"\x01\x00", "its message indexes are damaged"),
    ],
)
def test_message_indexes_that_lead_nowhere_are_an_error(data: bytes, reason: str) -> None:
    with pytest.raises(Undecodable) as raised:
        proto(SHOP).decode(data, 0)
    assert raised.value.reason == reason


@pytest.mark.parametrize(
    ("data", "field"),
    [
        (b"\x0a\x01\xff", "id"),
        (b"\x0a\x01a\x1a\x01\x08", "line"),
        (b"\x0a\x01a\x22\x03\x0a\x01\xff", "more"),
        (b"\x0a\x05a", ""),
        (b"\xff", ""),
    ],
)
def test_damaged_bytes_are_reported_with_their_field(data: bytes, field: str) -> None:
    with pytest.raises(Undecodable) as raised:
        proto(SHOP).decode(b"\x00" + data, 0)
    assert raised.value.field == field


def test_a_field_that_is_required_and_missing_is_named() -> None:
    serde = proto('syntax = "proto2"; message M { required int32 a = 1; required int32 b = 2; }')

    with pytest.raises(Undecodable) as raised:
        serde.decode(b"\x00\x08\x01", 0)
    assert raised.value.field == "b"
    with pytest.raises(Unencodable, match="b"):
        serde.encode({"a": 1})


def test_references_are_found_by_the_names_of_files() -> None:
    one = descriptor('syntax = "proto3"; package a; message One { string s = 1; }')
    two = protoc.described(
        'syntax = "proto3"; package b; message Two { string t = 1; } message Three { Two two = 1; }'
    )
    assert two is not None
    # As protoc would, if it had all files.
    two.dependency.append("a/one.proto")
    two.message_type[1].field.add(name="one", number=2, label=1, type=11, type_name=".a.One")
    text = base64.b64encode(two.SerializeToString()).decode()
    source = SchemaSource(PROTOBUF, text, (("a/one.proto", one),))
    serde: Any = compiled(source)
    three = serde.with_message("b.Three")

    decoded = three.decode(three.encode({"two": {"t": "x"}, "one": {"s": "y"}}), 0)

    assert (decoded.two.t, decoded.one.s) == ("x", "y")
    with pytest.raises(UnusableSchema):
        compiled(SchemaSource(PROTOBUF, text))


def test_a_message_in_an_any_is_reported_in_json() -> None:
    serde = proto(SHOP)
    message: Any = serde.from_json(b'{"id":"a"}')
    inner = message_factory.GetMessageClass(serde.with_message("shop.Other.Inner").descriptor)
    message.what.Pack(inner(is_inner=True))

    with pytest.raises(Undecodable, match="it cannot be written as JSON"):
        proto(SHOP).to_json(proto(SHOP).decode(b"\x00\x32\x03\x0a\x01x", 0))
    told = json.loads(serde.to_json(message))
    assert told["what"] == {"@type": "type.googleapis.com/shop.Other.Inner", "is_inner": True}
    assert serde.from_json(serde.to_json(message)) == message


@pytest.mark.parametrize(
    "text",
    ["", "!", "\u00e9", "AA==", "/////w==", descriptor('syntax = "proto3"; enum E { A = 0; }')],
)
def test_what_is_not_a_schema_is_unusable(text: str) -> None:
    with pytest.raises(UnusableSchema):
        compiled(SchemaSource(PROTOBUF, text))


def test_a_message_that_a_file_does_not_have_is_unusable() -> None:
    with pytest.raises(UnusableSchema, match=r"it has no message shop\.Nosuch"):
        proto(SHOP).with_message("shop.Nosuch")
