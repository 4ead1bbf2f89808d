"""JSON bodies: text, base64, Avro's tagged unions, and what is refused."""

import base64
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.core.message_ids import plain_messages
from tms.core.errors import InvalidRequest, TooLarge
from tms.core.services.messaging import RollbackRange
from tms.core.values.message import Message, MessageBlock
from tms.wire.bodies import PollRequest, PublishRequest
from tms.wire.json_bodies import JSON

MANY = 1000
ID = "00" * 20


def body(**fields: object) -> bytes:
    return json.dumps(fields).encode()


def test_messages_are_text_or_base64() -> None:
    request = JSON.decode_publish(body(messages=["é", {"base64": "/w=="}, {"bytes": "a"}]), MANY)

    assert request == PublishRequest(None, ["é".encode(), b"\xff", b"a"])


@pytest.mark.parametrize("pointer", ["5", {"long": "5"}])
def test_a_write_pointer_may_be_tagged(pointer: object) -> None:
    request = body(transactionWritePointer=pointer, messages=[])

    assert JSON.decode_publish(request, MANY) == PublishRequest(5, [])


@pytest.mark.parametrize(
    "fields",
    [
        {},
        {"startFrom": None, "inclusive": True, "limit": None, "transaction": None},
    ],
)
def test_a_poll_has_defaults(fields: dict[str, object]) -> None:
    assert JSON.decode_poll(body(**fields)) == PollRequest()
    assert JSON.decode_poll(b"") == PollRequest()


def test_a_poll_asks_by_id_or_time() -> None:
    assert JSON.decode_poll(body(startFrom=ID, inclusive=False)).start_from == bytes(20)
    assert JSON.decode_poll(body(startFrom={"bytes": ID})).start_from == bytes(20)
    assert JSON.decode_poll(body(startFrom=7)).start_from == 7
    assert JSON.decode_poll(body(startFrom={"long": 7})).start_from == 7
    assert JSON.decode_poll(body(limit={"int": 7})).limit == 7
    assert JSON.decode_poll(body(transaction="AAE=")).transaction == b"\x00\x01"
    assert JSON.decode_poll(body(transaction={"bytes": "AAE="})).transaction == b"\x00\x01"


@pytest.mark.parametrize(
    "raw",
    [
        b"",
        b"[]",
        b"null",
        b"{",
        b'{"messages": "a"}',
        b'{"messages": [5]}',
        b'{"messages": [null]}',
        b'{"messages": [{"base64": "%"}]}',
        b'{"messages": [{"base64": "a"}]}',
        b'{"messages": [{"hex": "00"}]}',
        b'{"messages": [{}]}',
        b'{"messages": [], "transactionWritePointer": true}',
        b'{"messages": [], "transactionWritePointer": ["5"]}',
        b'{"messages": [], "transactionWritePointer": {"int": "5"}}',
        b'{"messages": [], "transactionWritePointer": 1e400}',
        b'{"messages": [], "unknown": 1}',
        b'{"messages": ["\xff"]}',
        b"[" * 100_000,
    ],
)
def test_a_wrong_publish_is_refused(raw: bytes) -> None:
    with pytest.raises(InvalidRequest) as refused:
        JSON.decode_publish(raw, MANY)

    assert refused.value.problem.code == "invalid_body"


@pytest.mark.parametrize(
    "fields",
    [
        {"startFrom": "xyz"},
        {"startFrom": "00"},
        {"startFrom": 1.5},
        {"startFrom": {"long": "x"}},
        {"startFrom": {"int": 5}},
        {"startFrom": 2**63},
        {"inclusive": "yes"},
        {"limit": "5"},
        {"limit": {"long": 5}},
        {"transaction": "%"},
        {"transaction": 5},
    ],
)
def test_a_wrong_poll_is_refused(fields: dict[str, object]) -> None:
    with pytest.raises(InvalidRequest):
        JSON.decode_poll(body(**fields))


def test_too_many_messages_are_refused() -> None:
    with pytest.raises(TooLarge):
        JSON.decode_publish(body(messages=["a"] * 3), 2)


def test_a_range_survives() -> None:
    published = RollbackRange(2**63 - 1, 1, 2, 3, 4)

    assert JSON.decode_range(JSON.encode_range(published)) == published


@given(
    blocks=st.lists(
        st.lists(
            plain_messages(st.binary() | st.text().map(str.encode)),
            min_size=1,
        )
    )
)
def test_an_answer_is_a_json_array(blocks: list[list[Message]]) -> None:
    answer = b""
    for messages in blocks:
        answer += JSON.encode_block(MessageBlock.of(messages), first=not answer)
    answer += JSON.encode_end(first=not answer)

    def payload(value: object) -> bytes:
        if isinstance(value, dict):
            return base64.b64decode(value["base64"])
        return str(value).encode()

    found = [Message(payload(r["payload"]), id=bytes.fromhex(r["id"])) for r in json.loads(answer)]
    assert found == [message for messages in blocks for message in messages]
