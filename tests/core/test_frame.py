"""Frames are decoded as encoded, unframed payloads stay unchanged, and damage is reported."""

import pickle
from copy import copy

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.core.framed_messages import CONTENTS
from tests.core.message_ids import IDS
from tms.core.errors import StoreCorrupt
from tms.core.values.avro_lengths import avro_length, read_length
from tms.core.values.frame import bodies_of, encode_body, frame_parts, framed_of, read_frame
from tms.core.values.message import Message, MessageBlock, MessageId, framed_between, tombstone


@given(CONTENTS)
def test_a_body_gives_the_message_again(message: Message) -> None:
    body, is_framed = message.body()

    has_frame = message.key is not None or bool(message.headers) or message.is_tombstone
    assert is_framed is has_frame
    if not is_framed:
        assert body == message.payload
        return
    key, headers, has_payload, end = read_frame(body)
    assert Message(body[end:], key, headers, is_tombstone=not has_payload) == message
    flags, fields, fields_end = frame_parts(body)
    assert (fields_end, flags & 4 == 0) == (end, has_payload)
    assert fields < fields_end or message.is_tombstone


@given(CONTENTS, st.data())
def test_a_damaged_frame_is_reported_or_read(message: Message, data: st.DataObject) -> None:
    raw, is_framed = message.body()
    if not is_framed:
        return
    body = bytearray(raw)
    body[data.draw(st.integers(0, len(body) - 1))] = data.draw(st.integers(0, 255))
    cut = bytes(body[: data.draw(st.integers(0, len(body)))])
    for damaged in (bytes(body), cut):
        try:
            read_frame(damaged)
        except StoreCorrupt as error:
            assert error.problem.code == "store_corrupt"


@pytest.mark.parametrize("flags", [0, 8, 16, 0xFF])
def test_a_flag_that_is_not_known_is_damage(flags: int) -> None:
    with pytest.raises(StoreCorrupt):
        read_frame(b"\x02" + bytes((flags,)) + b"payload")
    with pytest.raises(StoreCorrupt):
        frame_parts(b"\x02" + bytes((flags,)) + b"payload")


@given(st.lists(st.tuples(CONTENTS, IDS), max_size=12), st.data())
def test_a_block_gives_its_messages(
    given_: list[tuple[Message, MessageId]], data: st.DataObject
) -> None:
    messages = [message._replace(id=message_id.encode()) for message, message_id in given_]
    block = MessageBlock.of(messages)

    assert list(block) == messages
    cut = data.draw(st.integers(0, len(messages)))
    parts = [MessageBlock.of(messages[:cut]), MessageBlock.of(messages[cut:])]
    assert MessageBlock.joined(parts) == MessageBlock(block.count, block.items, list(block.framed))


@given(st.sets(st.integers(0, 30)), st.integers(0, 30), st.integers(0, 30))
def test_indexes_between_two_are_counted_from_the_first(
    framed: set[int], one: int, other: int
) -> None:
    start, stop = sorted((one, other))
    expected = [index - start for index in sorted(framed) if start <= index < stop]
    assert list(framed_between(sorted(framed), start, stop)) == expected


@given(st.integers(0, 2**63 - 1), st.binary(max_size=3))
def test_lengths_are_read_as_written(length: int, before: bytes) -> None:
    data = before + avro_length(length)
    assert read_length(data, len(before)) == (length, len(data))


@pytest.mark.parametrize("raw", [b"\x01", b"\xff" * 9 + b"\x7f", b"\x80" * 10 + b"\x00"])
def test_bytes_that_are_not_a_length_are_refused(raw: bytes) -> None:
    with pytest.raises(ValueError, match=r"length|64 bits|10 bytes"):
        read_length(raw, 0)


def test_a_number_ends_after_ten_bytes_however_many_follow() -> None:
    """Reading all of them would take seconds."""
    with pytest.raises(ValueError, match="10 bytes"):
        read_length(b"\xff" * 200_000 + b"\x00", 0)


def test_a_message_travels_between_processes_and_can_be_in_a_set() -> None:
    messages = [
        Message(b"plain"),
        Message(b"x", b"key", {"a": b"1"}, bytes(20)),
        tombstone(b"key"),
    ]
    assert pickle.loads(pickle.dumps(messages)) == messages
    assert len({*messages, *messages}) == len(messages)


def test_a_message_shows_what_it_has() -> None:
    assert (
        repr(Message(b"p", b"k", {"a": b"1"}))
        == "Message(payload=b'p', key=b'k', headers={'a': b'1'})"
    )
    assert repr(tombstone(b"k")) == "Message(is_tombstone=True, key=b'k')"


def test_a_frame_has_these_bytes() -> None:
    body, is_framed = encode_body(b"tea", b"k", {"h": b"v"})
    assert is_framed
    assert body.hex(" ") == "12 03 02 6b 02 02 68 02 76 00 74 65 61"


def test_bodies_that_are_copied_cut_and_joined_keep_their_frames() -> None:
    framed = [message.body() for message in (Message(b"a", b"k"), Message(b"b"), tombstone(b"k"))]
    bodies = bodies_of(framed)
    joined: list[bytes] = []
    joined.extend(bodies)
    for kept in (list(bodies), [*bodies], bodies[:], tuple(bodies), joined, copy(bodies)):
        assert list(framed_of(kept)) == [0, 2]
    assert list(framed_of(bodies[1:])) == [1]
    assert list(framed_of(bodies + bodies)) == [0, 2, 3, 5]
    assert list(framed_of(pickle.loads(pickle.dumps(bodies)))) == [0, 2]
    assert [list(framed_of([body])) for body in bodies] == [[0], [], [0]]
    assert list(framed_of([body[1:] for body in bodies])) == []
