"""Messages as Arrow's columns: a round trip preserves them, and nothing in a body is trusted."""

import io
import struct
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.arrow.bodies import encode_batches, encode_payloads
from tests.core.framed_messages import CONTENTS
from tests.core.message_ids import plain_messages
from tests.scale import scaled
from tms.arrow.polled import ARROW, SCHEMA, record_batch
from tms.arrow.published import decode_bodies
from tms.core.errors import InvalidRequest, TooLarge
from tms.core.values.frame import bodies_of, framed_of
from tms.core.values.message import Message, MessageBlock, MessageId

TIMES = st.integers(0, 2**62)
SEQUENCES = st.integers(0, 2**16 - 1)
_PARTS = st.tuples(TIMES, SEQUENCES, st.just(0), st.just(0)) | st.tuples(
    TIMES, SEQUENCES, TIMES, SEQUENCES
)
IDS = _PARTS.map(lambda parts: MessageId(*parts))
PAYLOADS = st.binary(max_size=70) | st.integers(8000, 8300).map(bytes)
MESSAGES = plain_messages(PAYLOADS, IDS)
OF_ONE_LENGTH = st.sampled_from((0, 1, 63, 64, 100, 8191, 8192)).flatmap(
    lambda length: st.lists(
        plain_messages(st.binary(min_size=length, max_size=length), IDS),
        max_size=5,
    )
)


@given(st.lists(MESSAGES, max_size=6) | OF_ONE_LENGTH)
def test_a_block_becomes_columns(messages: list[Message]) -> None:
    batch = record_batch(MessageBlock.of(messages))
    batch.validate(full=True)

    rows = batch.select(["message_id", "payload", "seq", "payload_seq"]).to_pydict()
    assert rows["message_id"] == [message.id for message in messages]
    assert rows["payload"] == [message.payload for message in messages]
    ids = [MessageId.decode(message.id) for message in messages]
    times = batch.column("timestamp").cast(pa.int64()).to_pylist()
    assert times == [one.publish_timestamp for one in ids]
    assert rows["seq"] == [one.sequence_id for one in ids]
    was_stored = [one[2:] != (0, 0) for one in ids]
    stored = [
        one[2:] if is_stored else (None, None)
        for one, is_stored in zip(ids, was_stored, strict=True)
    ]
    times = batch.column("payload_timestamp").cast(pa.int64()).to_pylist()
    assert list(zip(times, rows["payload_seq"], strict=True)) == stored


@given(st.lists(st.lists(MESSAGES, min_size=1, max_size=3), max_size=3))
def test_blocks_are_a_stream(blocks: list[list[Message]]) -> None:
    parts = [
        ARROW.encode_block(MessageBlock.of(block), first=index == 0)
        for index, block in enumerate(blocks)
    ]
    stream = b"".join((*parts, ARROW.encode_end(first=not blocks)))

    with pa.ipc.open_stream(stream) as reader:
        assert reader.schema.equals(SCHEMA)
        found = [batch.column("message_id").to_pylist() for batch in reader]
    assert found == [[message.id for message in block] for block in blocks]


@given(st.lists(PAYLOADS, max_size=5))
def test_payloads_survive(payloads: list[bytes]) -> None:
    assert decode_bodies(encode_payloads(payloads), 5) == payloads


@settings(max_examples=scaled(300))
@given(st.data())
def test_damaged_bodies_are_refused_or_read(data: st.DataObject) -> None:
    body = bytearray(encode_payloads([b"one", b"two", b"three"]))
    for _ in range(data.draw(st.integers(1, 3))):
        body[data.draw(st.integers(0, len(body) - 1))] = data.draw(st.integers(0, 255))
    cut = bytes(body[: data.draw(st.integers(0, len(body)))])
    for damaged in (bytes(body), cut):
        try:
            payloads = decode_bodies(damaged, 100)
        except InvalidRequest as error:
            assert error.problem.code == "invalid_body"
        except TooLarge as error:
            assert error.problem.code == "too_many_messages"
        else:
            assert sum(map(len, payloads)) <= len(body)


def stream_of(batch: pa.RecordBatch, **options: Any) -> bytes:
    sink = io.BytesIO()
    with pa.ipc.new_stream(sink, batch.schema, options=pa.ipc.IpcWriteOptions(**options)) as writer:
        writer.write_batch(batch)
    return sink.getvalue()


def batch_of(column: pa.Array, name: str = "payload") -> pa.RecordBatch:
    return pa.RecordBatch.from_arrays([column], names=[name])


def with_offsets(*offsets: int) -> bytes:
    """Return a body of `a` and `bc` with these offsets in place of the right ones."""
    body = encode_payloads([b"a", b"bc"])
    right = struct.pack("<3i", 0, 1, 3)
    assert body.count(right) == 1
    return body.replace(right, struct.pack("<3i", *offsets))


def of_another_type(body: bytes) -> bytes:
    """Return a body whose first message is not marked as a schema, so that Arrow skips it."""
    at = body.index(b"\x00\x01\x04\x00") + 1
    return body[:at] + b"\x95" + body[at + 1 :]


def headers_batch(headers: list[Any]) -> pa.RecordBatch:
    column = pa.array(headers, pa.map_(pa.string(), pa.binary()))
    payloads = pa.array([b"x"] * len(headers))
    return pa.RecordBatch.from_arrays([payloads, column], names=["payload", "headers"])


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"not arrow",
        of_another_type(encode_payloads([b"x"])),
        encode_payloads([b"x"])[:-20],
        stream_of(batch_of(pa.array([b"x"]), "valu")),
        stream_of(pa.record_batch([pa.array([b"x"])] * 2, names=["payload", "value"])),
        stream_of(pa.record_batch([pa.array([b"x"]), pa.array([1])], names=["payload", "key"])),
        stream_of(pa.record_batch([pa.array([b"x"])] * 3, names=["payload", "key", "key"])),
        stream_of(pa.record_batch([pa.array([b"x"])] * 2, names=["payload", "headers"])),
        stream_of(headers_batch([[("a", b"1"), ("a", b"2")]])),
        stream_of(headers_batch([[("a", None)]])),
        stream_of(batch_of(pa.array([1]))),
        stream_of(batch_of(pa.array(["x", "x"]).dictionary_encode())),
        stream_of(batch_of(pa.array([b"x" * 1000])), compression="zstd"),
        stream_of(batch_of(pa.array([b"x" * 1000])), compression="lz4"),
        with_offsets(0, 1, 1_000_000),
        with_offsets(0, 3, 1),
        with_offsets(-1, 1, 3),
        stream_of(pa.record_batch([pa.array([b"x"])] * 2, names=["payload", "payload"])),
    ],
)
def test_bodies_that_are_none(body: bytes) -> None:
    with pytest.raises(InvalidRequest) as caught:
        decode_bodies(body, 100)
    assert caught.value.problem.code == "invalid_body"


MAP = pa.map_(pa.string(), pa.binary())
LIST = pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))


@given(st.lists(CONTENTS, max_size=5))
def test_keys_and_headers_survive(messages: list[Message]) -> None:
    payloads = [None if each.is_tombstone else each.payload for each in messages]
    keys = pa.array([each.key for each in messages], pa.binary())
    pairs = [list(each.headers.items()) for each in messages]
    structs = [[{"key": name, "value": value} for name, value in each] for each in pairs]
    expected = bodies_of([each.body() for each in messages])

    for name, headers in (("payload", pa.array(pairs, MAP)), ("value", pa.array(structs, LIST))):
        columns = [headers, pa.array(payloads, pa.binary()), keys]
        batch = pa.RecordBatch.from_arrays(columns, names=["headers", name, "key"])
        bodies = decode_bodies(encode_batches([batch]), 5)
        assert bodies == expected
        assert list(framed_of(bodies)) == list(framed_of(expected))


@given(st.lists(st.tuples(CONTENTS, IDS), max_size=6))
def test_a_block_with_frames_becomes_columns(given_: list[tuple[Message, MessageId]]) -> None:
    messages = [message._replace(id=message_id.encode()) for message, message_id in given_]
    batch = record_batch(MessageBlock.of(messages))
    batch.validate(full=True)
    rows = batch.select(["message_id", "payload", "key", "headers"]).to_pydict()
    assert rows["message_id"] == [message.id for message in messages]
    assert rows["payload"] == [None if m.is_tombstone else m.payload for m in messages]
    assert rows["key"] == [message.key for message in messages]
    assert [dict(row or ()) for row in rows["headers"]] == [dict(m.headers) for m in messages]


def test_a_stream_may_break_off_without_its_end_mark() -> None:
    assert decode_bodies(encode_payloads([b"x"])[:-8], 100) == [b"x"]


def test_more_than_may_be_are_refused_before_they_are_taken_in() -> None:
    batches = [pa.record_batch([pa.array([b"x"] * 3)], names=["payload"]) for _ in range(3)]
    assert len(decode_bodies(encode_batches(batches), 9)) == 9
    with pytest.raises(TooLarge):
        decode_bodies(encode_batches(batches), 8)
