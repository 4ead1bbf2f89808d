"""Avro bodies: golden bytes of CDAP, truncation at every byte, answers that arrive in pieces."""

import json
from io import BytesIO
from pathlib import Path
from typing import Any

import fastavro
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.core.message_ids import plain_messages
from tests.wire.poll_decoder import AvroPollDecoder
from tms.core.errors import InvalidRequest, TooLarge
from tms.core.services.messaging import Published, RollbackRange
from tms.core.values.message import KEY, Message, MessageBlock
from tms.wire import avro_bodies
from tms.wire.avro_bodies import AVRO
from tms.wire.bodies import PollRequest, PublishRequest

GOLDEN = json.loads((Path(__file__).parent / "golden.json").read_text())
MESSAGES = st.lists(plain_messages(st.binary(max_size=200)))
MANY = 1000


def of(schema: str) -> list[dict[str, Any]]:
    return [golden for golden in GOLDEN["avro"] if golden["schema"] == schema]


@pytest.mark.parametrize("name", sorted(GOLDEN["avroSchemas"]))
def test_the_schemas_are_cdaps(name: str) -> None:
    constants = {
        "PublishRequest": avro_bodies.PUBLISH_REQUEST_SCHEMA,
        "PublishResponse": avro_bodies.PUBLISH_RESPONSE_SCHEMA,
        "ConsumeRequest": avro_bodies.CONSUME_REQUEST_SCHEMA,
        "ConsumeResponse": avro_bodies.CONSUME_RESPONSE_SCHEMA,
    }

    assert constants[name] == json.loads(GOLDEN["avroSchemas"][name])


@pytest.mark.parametrize("golden", of("PublishRequest"), ids=lambda g: g["encoded"])
def test_publish_requests_have_cdaps_bytes(golden: dict[str, Any]) -> None:
    raw = bytes.fromhex(golden["encoded"])
    pointer = golden["transactionWritePointer"]
    request = PublishRequest(
        None if pointer is None else int(pointer),
        [bytes.fromhex(message) for message in golden["messages"]],
    )

    assert AVRO.encode_publish(request) == raw
    assert AVRO.decode_publish(raw, MANY) == request


@pytest.mark.parametrize("golden", of("PublishResponse"), ids=lambda g: g["encoded"])
def test_ranges_have_cdaps_bytes(golden: dict[str, Any]) -> None:
    raw = bytes.fromhex(golden["encoded"])
    published = RollbackRange(
        *(
            int(golden[name])
            for name in (
                "transactionWritePointer",
                "startTimestamp",
                "startSequenceId",
                "endTimestamp",
                "endSequenceId",
            )
        )
    )

    assert AVRO.encode_range(published) == raw
    assert AVRO.decode_range(raw) == published


@given(
    st.builds(KEY.pack, st.integers(0, 2**62), st.integers(0, 65_535)),
    st.integers(0, 100_000),
    st.none() | st.integers(1, 2**63 - 1),
)
def test_what_a_publish_wrote_survives_by_the_record_of_cdap(
    first_key: bytes, count: int, pointer: int | None
) -> None:
    published = Published(first_key, count, pointer)
    body = AVRO.encode_published(published)

    assert AVRO.decode_published(body, count) == published
    if pointer is not None:
        assert AVRO.decode_range(body) == published.rollback_range


@pytest.mark.parametrize("golden", of("ConsumeRequest"), ids=lambda g: g["encoded"])
def test_poll_requests_have_cdaps_bytes(golden: dict[str, Any]) -> None:
    raw = bytes.fromhex(golden["encoded"])
    start = golden["startFrom"]
    if start is not None:
        kind, _, text = start.partition(":")
        start = bytes.fromhex(text) if kind == "bytes" else int(text)
    request = PollRequest(start, golden["inclusive"], golden["limit"], None)

    assert AVRO.encode_poll(request) == raw
    assert AVRO.decode_poll(raw) == request


BODIES = [
    (AVRO.encode_publish(PublishRequest(5, [b"abc", b"", b"x" * 70])), "publish"),
    (AVRO.encode_publish(PublishRequest(None, [b"abc"])), "publish"),
    (AVRO.encode_range(RollbackRange(5, 1, 2, 3, 4)), "range"),
    (AVRO.encode_published(Published(bytes(10), 2)), "published"),
    (AVRO.encode_poll(PollRequest(bytes(20), False, 7, b"tx")), "poll"),
]


def decode(kind: str, body: bytes) -> object:
    if kind == "publish":
        return AVRO.decode_publish(body, MANY)
    if kind == "published":
        return AVRO.decode_published(body, 2)
    return AVRO.decode_range(body) if kind == "range" else AVRO.decode_poll(body)


@pytest.mark.parametrize(("body", "kind"), BODIES)
def test_a_body_cut_off_or_too_long_is_refused(body: bytes, kind: str) -> None:
    for length in range(len(body)):
        with pytest.raises(InvalidRequest):
            decode(kind, body[:length])
    with pytest.raises(InvalidRequest):
        decode(kind, body + b"\x00")


@pytest.mark.parametrize("kind", ["publish", "published", "range", "poll"])
@given(body=st.binary(max_size=40))
def test_any_bytes_are_a_request_or_refused(kind: str, body: bytes) -> None:
    try:
        decode(kind, body)
    except InvalidRequest as error:
        assert error.problem.code in ("invalid_body", "invalid_write_pointer")
    except TooLarge as error:
        assert error.problem.code == "too_many_messages"


def test_a_huge_count_is_refused_before_it_is_read() -> None:
    with pytest.raises(TooLarge):
        AVRO.decode_publish(b"\x02" + b"\xfe\xff\xff\xff\x0f", MANY)
    with pytest.raises(TooLarge):
        AVRO.decode_publish(AVRO.encode_publish(PublishRequest(None, [b""] * (MANY + 1))), MANY)


@given(st.lists(MESSAGES, max_size=4), st.integers(1, 60))
def test_an_answer_is_avro_and_can_arrive_in_pieces(
    blocks: list[list[Message]], piece_bytes: int
) -> None:
    answer = b""
    for messages in blocks:
        if messages:
            answer += AVRO.encode_block(MessageBlock.of(messages), first=not answer)
    answer += AVRO.encode_end(first=not answer)
    expected = [message for messages in blocks for message in messages]

    read: Any = fastavro.schemaless_reader(
        BytesIO(answer), fastavro.parse_schema(avro_bodies.CONSUME_RESPONSE_SCHEMA), None
    )
    assert [Message(row["payload"], id=row["id"]) for row in read] == expected
    decoder = AvroPollDecoder()
    found: list[Message] = []
    for at in range(0, len(answer), piece_bytes):
        found += decoder.feed(answer[at : at + piece_bytes])
        assert decoder.last_id == (found[-1].id if found else b"")
    decoder.close()
    assert found == expected


def test_an_answer_that_is_cut_off_is_an_error() -> None:
    answer = AVRO.encode_block(MessageBlock.of([Message(b"abc", id=bytes(20))]), first=True)
    for length in range(len(answer) + 1):
        decoder = AvroPollDecoder()
        decoder.feed(answer[:length])
        with pytest.raises(InvalidRequest):
            decoder.close()
