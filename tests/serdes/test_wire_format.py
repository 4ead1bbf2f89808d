"""Confluent's wire format: the bytes before a value equal those of Confluent's own client."""

import io

import pytest
from confluent_kafka.schema_registry.common.serde import SchemaId
from hypothesis import given
from hypothesis import strategies as st

from tms.serdes.serde import Undecodable
from tms.serdes.wire_format import (
    START_BYTES,
    encode_path,
    read_path,
    schema_id_of,
    start_of,
)

IDS = st.integers(0, (1 << 31) - 1)
PATHS = st.lists(st.integers(0, 1 << 20), min_size=1, max_size=64).map(tuple)


@given(IDS, PATHS)
def test_confluents_client_writes_and_reads_the_same(schema_id: int, path: tuple[int, ...]) -> None:
    ours = start_of(schema_id) + encode_path(path)
    theirs = SchemaId("PROTOBUF")
    rest = theirs.from_bytes(io.BytesIO(ours + b"rest"))
    assert (theirs.id, theirs.message_indexes, rest.read()) == (schema_id, [*path], b"rest")
    assert theirs.id_to_bytes() == ours

    assert schema_id_of(ours) == schema_id
    assert read_path(ours + b"rest", START_BYTES) == (path, len(ours))


def test_the_first_message_of_a_file_is_a_zero() -> None:
    assert encode_path((0,)) == b"\x00"
    assert encode_path((0, 0)) == b"\x04\x00\x00"
    assert read_path(b"\x00", 0) == ((0,), 1)
    assert read_path(b"\x02\x00", 0) == ((0,), 2)


@pytest.mark.parametrize(
    "data", [b"", b"\x00", b"\x00\x00\x00\x01", b"\x01\x00\x00\x00\x01x", b"{}"]
)
def test_what_has_no_schemas_id_cannot_be_decoded(data: bytes) -> None:
    with pytest.raises(Undecodable, match="does not begin with a zero byte and a schema's id"):
        schema_id_of(data)


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (b"", "its message indexes are damaged"),
        (b"\x02", "its message indexes are damaged"),
        (b"\x80", "its message indexes are damaged"),
        (b"\x01", "its message indexes are damaged"),
        (b"\x02\x01", "its message indexes are damaged"),
        (b"\x04\x00", "its message indexes are damaged"),
        (b"\xff" * 1_000_000, "its message indexes are damaged"),
        (b"\x02" + b"\xff" * 1_000_000, "its message indexes are damaged"),
        (b"\x82\x01" + b"\x00" * 65, "it has 65 message indexes"),
        (
            b"\xfe" + b"\xff" * 8 + b"\x01" + b"\x00" * 100,
            f"it has {(1 << 63) - 1} message indexes",
        ),
    ],
)
def test_damaged_message_indexes_are_an_error(data: bytes, reason: str) -> None:
    with pytest.raises(Undecodable, match=f"^{reason}$"):
        read_path(data, 0)


@given(st.binary(max_size=20), st.integers(0, 5))
def test_any_bytes_are_message_indexes_or_an_error(data: bytes, at: int) -> None:
    try:
        path, end = read_path(data, at)
    except Undecodable:
        return
    assert at < end <= len(data)
    assert all(index >= 0 for index in path)
    assert read_path(encode_path(path), 0)[0] == path
