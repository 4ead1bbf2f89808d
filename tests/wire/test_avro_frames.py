"""Avro of version 2: the library writes and reads the same bytes, in several blocks or pieces."""

from io import BytesIO
from typing import Any

import fastavro
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.core.framed_messages import CONTENTS, OF_ONE_FORM, SIMILAR, row_of
from tests.core.message_ids import IDS
from tests.wire.avro_library import written
from tms.core.errors import InvalidRequest, TooLarge
from tms.core.services.messaging import RollbackRange
from tms.core.values.frame import bodies_of, framed_of
from tms.core.values.message import Message, MessageBlock
from tms.wire.avro_bodies import AVRO
from tms.wire.avro_frames import (
    AVRO_FRAMES,
    CONSUME_FRAMES_SCHEMA,
    PUBLISH_ALL_FRAMES_SCHEMA,
    PUBLISH_FRAMES_SCHEMA,
)
from tms.wire.avro_runs import AvroRunsDecoder
from tms.wire.bodies import PublishAllRequest, PublishRequest, last_of

PUBLISH = fastavro.parse_schema(PUBLISH_FRAMES_SCHEMA)
CONSUME = fastavro.parse_schema(CONSUME_FRAMES_SCHEMA)
MANY = 1000
MESSAGES = st.lists(CONTENTS, max_size=8) | OF_ONE_FORM | SIMILAR


def message_of(row: dict[str, Any]) -> Message:
    payload = row["payload"]
    return Message(payload or b"", row["key"], row["headers"], row.get("id", b""), payload is None)


def bodies(messages: list[Message]) -> list[bytes]:
    return bodies_of([message.body() for message in messages])


@given(st.none() | st.integers(1, 2**63 - 1), MESSAGES)
def test_the_library_publishes_the_same(pointer: int | None, messages: list[Message]) -> None:
    rows = {"transactionWritePointer": pointer, "messages": [row_of(each) for each in messages]}
    out = BytesIO()
    fastavro.schemaless_writer(out, PUBLISH, rows)
    expected = bodies(messages)

    request = AVRO_FRAMES.decode_publish(out.getvalue(), MANY)
    assert request == PublishRequest(pointer, expected)
    assert list(framed_of(request.payloads)) == list(framed_of(expected))
    assert AVRO_FRAMES.encode_publish(PublishRequest(pointer, expected)) == out.getvalue()


@given(OF_ONE_FORM, st.lists(CONTENTS, max_size=3), OF_ONE_FORM | SIMILAR)
def test_messages_of_one_form_are_read_beside_others(
    first: list[Message], between: list[Message], last: list[Message]
) -> None:
    messages = [*first, *between, *last]
    body = AVRO_FRAMES.encode_publish(PublishRequest(None, bodies(messages)))

    request = AVRO_FRAMES.decode_publish(body, MANY)
    assert request.payloads == bodies(messages)
    assert list(framed_of(request.payloads)) == list(framed_of(bodies(messages)))


def test_headers_in_several_blocks_are_one_map() -> None:
    sized_blocks = b"\x01\x0a\x02a\x021" + b"\x02\x02b\x022" + b"\x00"
    body = b"\x02" + b"\x02" + b"\x00" + sized_blocks + b"\x02\x02p" + b"\x00"
    expected = bodies([Message(b"p", None, {"a": b"1", "b": b"2"})])

    request = AVRO_FRAMES.decode_publish(body, MANY)
    assert request.payloads == expected
    assert list(framed_of(request.payloads)) == [0]


@pytest.mark.parametrize(
    ("message", "reason"),
    [
        (b"\x04", "branch"),
        (b"\x00\x04\x02a\x02x\x02a\x02y\x00\x02\x02p", "twice"),
        (b"\x00\x02\x02\xff\x02x\x00\x02\x02p", "decode"),
        (b"\x00\x00\x04", "branch"),
        (b"\x02\x01", "negative"),
        (b"\x00\x02\x02a\x02x\x02\x02a\x02y\x00\x02\x02p", "twice"),
    ],
)
def test_what_is_not_a_message_is_refused(message: bytes, reason: str) -> None:
    with pytest.raises(InvalidRequest, match=reason):
        AVRO_FRAMES.decode_publish(b"\x02\x02" + message + b"\x00", MANY)


@given(MESSAGES, st.data())
def test_damaged_bodies_are_refused_or_read(messages: list[Message], data: st.DataObject) -> None:
    body = bytearray(AVRO_FRAMES.encode_publish(PublishRequest(5, bodies(messages))))
    body[data.draw(st.integers(0, len(body) - 1))] = data.draw(st.integers(0, 255))
    cut = bytes(body[: data.draw(st.integers(0, len(body)))])
    for damaged in (bytes(body), cut):
        try:
            request = AVRO_FRAMES.decode_publish(damaged, MANY)
        except InvalidRequest as error:
            assert error.problem.code == "invalid_body"
        except TooLarge as error:
            assert error.problem.code == "too_many_messages"
        else:
            assert sum(map(len, request.payloads)) <= len(body)


def test_more_messages_than_a_request_may_have_are_refused() -> None:
    body = AVRO_FRAMES.encode_publish(PublishRequest(None, bodies([Message(b"p", b"k")] * 9)))
    with pytest.raises(TooLarge) as refused:
        AVRO_FRAMES.decode_publish(body, 8)
    assert refused.value.problem.code == "too_many_messages"


BLOCKS = st.lists(st.lists(st.tuples(CONTENTS, IDS), min_size=1, max_size=8), max_size=4)


@given(BLOCKS, st.integers(1, 60))
def test_the_library_and_the_client_read_the_answer(blocks: list[Any], piece_bytes: int) -> None:
    answer = b""
    expected: list[Message] = []
    for given_ in blocks:
        messages = [message._replace(id=message_id.encode()) for message, message_id in given_]
        answer += AVRO_FRAMES.encode_block(MessageBlock.of(messages), first=not answer)
        expected += messages
    answer += AVRO_FRAMES.encode_end(first=not answer)

    runs: Any = fastavro.schemaless_reader(BytesIO(answer), CONSUME, None)
    read: list[Message] = []
    for run in runs:
        read += [Message(row["payload"], id=row["id"]) for row in run["messages"]]
        read += [message_of(row) for row in run["framed"]]
    assert read == expected

    decoder = AvroRunsDecoder()
    found: list[Message] = []
    for at in range(0, len(answer), piece_bytes):
        found += decoder.feed(answer[at : at + piece_bytes])
        assert decoder.last_id == (found[-1].id if found else b"")
    decoder.close()
    assert found == expected


@given(BLOCKS.filter(bool), st.data())
def test_an_answer_that_is_cut_off_is_an_error(blocks: list[Any], data: st.DataObject) -> None:
    messages = [message._replace(id=message_id.encode()) for message, message_id in blocks[0]]
    answer = AVRO_FRAMES.encode_block(MessageBlock.of(messages), first=True) + b"\x00"
    decoder = AvroRunsDecoder()
    decoder.feed(answer[: data.draw(st.integers(0, len(answer) - 1))])
    with pytest.raises(InvalidRequest, match="cut off"):
        decoder.close()


@given(st.lists(st.tuples(CONTENTS, IDS), min_size=1, max_size=8))
def test_version_1_gives_the_payloads_alone(given_: list[Any]) -> None:
    messages = [message._replace(id=message_id.encode()) for message, message_id in given_]
    plain = MessageBlock.of([Message(message.payload, id=message.id) for message in messages])

    framed = AVRO.encode_block(MessageBlock.of(messages), first=True)
    assert framed == AVRO.encode_block(plain, first=True)


@given(st.dictionaries(st.sampled_from("abc"), MESSAGES, max_size=3))
def test_several_topics_have_such_messages(topics: dict[str, list[Message]]) -> None:
    given_ = {name: bodies(messages) for name, messages in topics.items()}
    request = PublishAllRequest(given_, "owner", 7)
    body = AVRO_FRAMES.encode_publish_all(request)

    read = last_of(AVRO_FRAMES.publish_all_steps(body, MANY))
    assert read == request
    rows = [
        {"topic": name, "messages": [row_of(each) for each in messages]}
        for name, messages in topics.items()
    ]
    told = {"topics": rows, "owner": "owner", "sequence": 7}
    assert body == written(PUBLISH_ALL_FRAMES_SCHEMA, told)
    for name, messages in read.topics.items():
        assert list(framed_of(messages)) == list(framed_of(given_[name]))


@pytest.mark.parametrize("before", [b"\x02\x02\x02", b"\x02\x02\x00", b"\x02\x02\x00\x02"])
def test_a_number_without_an_end_is_refused_at_its_tenth_byte(before: bytes) -> None:
    """The number is the length of a key, the count of headers, or the length of a name."""
    with pytest.raises(InvalidRequest, match="10 bytes"):
        AVRO_FRAMES.decode_publish(before + b"\xff" * 200_000 + b"\x00", MANY)
    decoder = AvroRunsDecoder()
    with pytest.raises(InvalidRequest, match="10 bytes"):
        decoder.feed(b"\x02\x02" + bytes(21) + b"\xff" * 200_000)


@pytest.mark.parametrize("payload", [b"", b"a"])
def test_a_publish_of_version_1_is_refused(payload: bytes) -> None:
    """This includes a publish of one message, for which version 1 has a shortcut."""
    with pytest.raises(InvalidRequest):
        AVRO_FRAMES.decode_publish(AVRO.encode_publish(PublishRequest(None, [payload])), MANY)


def test_the_rest_is_as_in_version_1() -> None:
    published = RollbackRange(7, 1, 2, 3, 4)
    assert AVRO_FRAMES.decode_range(AVRO.encode_range(published)) == published
