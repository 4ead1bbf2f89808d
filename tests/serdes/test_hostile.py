"""Bytes that are meant to do harm: each soon ends in a value or an error, and none in a crash."""

import base64
import json
import random
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.registry import proto_files, protoc
from tests.scale import scaled
from tests.serdes.avro_samples import TREE, samples
from tests.serdes.compiling import avro, json_schema, proto, record
from tests.serdes.hostile_cases import CASES
from tests.servers.server_process import ROOT, environment
from tests.waiting import WAIT_S_MAX
from tms.core.values.schema_types import AVRO, JSON, PROTOBUF
from tms.serdes.compiling import compiled
from tms.serdes.serde import SchemaSource, Serde, Undecodable, UnusableSchema

CASE_S_MAX = 3.0
"""The seconds of processor time, which other programs do not affect."""
some = settings(max_examples=scaled(100))
SHOP = """
    syntax = "proto3"; package shop; import "google/protobuf/struct.proto";
    message Order { string id = 1; map<string, Line> lines = 2; repeated sint64 n = 3;
      google.protobuf.Struct more = 4; oneof one { double d = 5; bytes b = 6; Order o = 7; }
      message Line { string article = 1; fixed32 f = 2; } }
"""
ITSELF = {
    "type": "object",
    "properties": {"a": {"$ref": "#"}, "n": {"type": "integer"}},
    "additionalProperties": {"anyOf": [{"$ref": "#"}, {"type": "string"}, {"type": "array"}]},
}
FLAT = record(
    "R",
    s="string",
    b="bytes",
    a={"type": "array", "items": ["null", "double", "string"]},
    m={"type": "map", "values": {"type": "fixed", "name": "F", "size": 3}},
    e={"type": "enum", "name": "E", "symbols": ["A", "B"]},
    d={"type": "bytes", "logicalType": "decimal", "precision": 5, "scale": 2},
    t={"type": "long", "logicalType": "timestamp-micros"},
    u={"type": "string", "logicalType": "uuid"},
    day={"type": "int", "logicalType": "date"},
)
SERDES: dict[str, Callable[[], Serde]] = {
    "Avro": lambda: avro(FLAT),
    "Avro, itself": lambda: avro(TREE),
    "JSON": lambda: json_schema(ITSELF),
    "Protobuf": lambda: proto(SHOP),
}
VALID: dict[str, bytes] = {
    "Avro": b"\x02a\x02b\x04\x02\0\0\0\0\0\0\xf0?\x04\x02c\0\x02\x02kxyz\0\x02\x02\x05\x02"
    b"\x48" + b"12345678-1234-5678-1234-567812345678" + b"\x02",
    "Avro, itself": b"\x02\0\0\0\x02\0\x02\0\0\0\x04\x02\x02k\0\0\0\x06\0\x08",
    "JSON": b'{"a":{"n":1,"x":"y"},"z":[1.5,null,true,"\\u00e9"]}',
    "Protobuf": b"\0\x0a\x01a\x12\x08\x0a\x01k\x12\x03\x0a\x01x\x1a\x02\x02\x04"
    b"\x22\x0c\x0a\x0a\x0a\x01k\x12\x05\x1a\x03abc\x3a\x03\x0a\x01b",
}


@contextmanager
def soon() -> Iterator[None]:
    """Check that a call is fast."""
    began_s = time.thread_time()
    yield
    assert time.thread_time() - began_s < CASE_S_MAX


def ends(serde: Serde, data: bytes) -> None:
    """Check that bytes decode to a value that JSON can express, or are refused."""
    with soon():
        try:
            serde.to_json(serde.decode(data, 0))
        except Undecodable as error:
            assert str(error)
            assert "\n" not in error.field


@pytest.fixture(params=SERDES)
def kind(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def test_valid_payloads_are_values(kind: str) -> None:
    serde = SERDES[kind]()
    assert serde.to_json(serde.decode(VALID[kind], 0))


def test_random_bytes_are_a_value_or_none(kind: str) -> None:
    serde = SERDES[kind]()
    chance = random.Random(kind)
    for length in range(scaled(300)):
        ends(serde, chance.randbytes(length))
        ends(serde, b"\0" + chance.randbytes(length))


def test_changed_payloads_are_a_value_or_none(kind: str) -> None:
    serde, valid = SERDES[kind](), VALID[kind]
    chance = random.Random(kind)
    for at in range(len(valid)):
        ends(serde, valid[:at])
        for byte in (0, 1, 0x7F, 0x80, 0xFF, chance.randrange(256)):
            ends(serde, valid[:at] + bytes([byte]) + valid[at + 1 :])
            ends(serde, valid[:at] + bytes([byte]) + valid[at:])
        ends(serde, valid[:at] + valid[at + 1 :])
        ends(serde, valid[:at] + b"\xff" * 9 + b"\x01" + valid[at:])
        ends(serde, valid[:at] + b"\xfe" * 9 + b"\x01" + valid[at:])
        ends(serde, valid[:at] + valid * 100 + valid[at:])


@some
@given(st.data())
def test_changed_payloads_of_random_schemas_are_a_value_or_none(data: st.DataObject) -> None:
    sample, other = data.draw(samples()), data.draw(samples())
    serde, reader = avro(sample.schema), avro(other.schema)
    changed = bytearray(serde.encode(data.draw(sample.values)))
    for _ in range(data.draw(st.integers(1, 3))):
        at = data.draw(st.integers(0, len(changed)))
        changed[at : at + data.draw(st.integers(0, 2))] = data.draw(st.binary(max_size=12))

    ends(serde, bytes(changed))
    ends(serde.read_as(reader), bytes(changed))


@settings(max_examples=scaled(40))
@given(proto_files.files(), st.lists(st.binary(max_size=20), max_size=10))
def test_random_bytes_of_random_files_are_a_message_or_none(
    file: proto_files.File, payloads: list[bytes]
) -> None:
    if protoc.described(file.text) is None:
        return
    serde = proto(file.text)
    for payload in payloads:
        ends(serde, b"\0" + payload)
        for field in file.fields:
            ends(serde, b"\0" + bytes([field.tag << 3 | 2, len(payload)]) + payload)


def compiled_soon(kind: str, text: str) -> Serde | None:
    """Return the serde that a schema compiles to, or None if the schema is unusable."""
    with soon():
        try:
            return compiled(SchemaSource(kind, text))
        except UnusableSchema:
            return None


@some
@given(st.sampled_from([AVRO, JSON, PROTOBUF]), st.text() | st.binary().map(repr), st.binary())
def test_any_text_is_a_schema_or_unusable(kind: str, text: str, data: bytes) -> None:
    if kind == PROTOBUF:
        text = base64.b64encode(text.encode(errors="replace")).decode()
    serde = compiled_soon(kind, text)
    if serde is not None:
        ends(serde, data)


JSONS: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.integers(-1, 9) | st.sampled_from(["int", "record", "null", "N", "fixed", "#"]),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(
                [
                    *("type", "name", "fields", "items", "values", "symbols", "size", "default"),
                    *(
                        "logicalType",
                        "precision",
                        "scale",
                        "aliases",
                        "namespace",
                        "$ref",
                        "pattern",
                    ),
                    *("__fastavro_parsed", "__named_schemas", "properties", "required", "enum"),
                ]
            ),
            inner,
            max_size=4,
        )
    ),
    max_leaves=12,
)


@some
@given(st.sampled_from([AVRO, JSON]), JSONS, st.binary(max_size=30))
def test_any_json_is_a_schema_or_unusable(kind: str, schema: Any, data: bytes) -> None:
    serde = compiled_soon(kind, json.dumps(schema))
    if serde is not None:
        ends(serde, data)


def test_what_is_made_to_harm_ends_soon_and_crashes_nothing() -> None:
    done = subprocess.run(
        [sys.executable, "-X", "faulthandler", "-m", "tests.serdes.hostile_cases"],
        cwd=ROOT,
        env=environment(),
        capture_output=True,
        text=True,
        timeout=WAIT_S_MAX,
        check=False,
    )
    taken = dict(line.split("\t") for line in done.stdout.splitlines())

    assert (done.returncode, done.stderr) == (0, ""), done.stdout[-200:]
    assert list(taken) == list(CASES)
    assert {name: s for name, s in taken.items() if float(s) > CASE_S_MAX} == {}
