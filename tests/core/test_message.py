"""Message ids, positions and blocks."""

import json
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.core.message_ids import IDS, plain_messages
from tms.core.errors import InvalidRequest
from tms.core.values.avro_lengths import avro_length
from tms.core.values.message import (
    FIRST_ID,
    LAST_ID,
    Message,
    MessageBlock,
    MessageId,
    id_after,
    item_tail,
    key_after,
    parse_id,
    position_of,
)
from tms.core.values.ranges import Reach, Split, TopicRange
from tms.core.values.subscriptions import SubscriptionPosition
from tms.core.values.topic import TopicId

GOLDEN = json.loads((Path(__file__).parent.parent / "wire" / "golden.json").read_text())


@pytest.mark.parametrize("golden", GOLDEN["messageIds"])
def test_ids_have_the_bytes_of_cdap(golden: dict[str, str]) -> None:
    message_id = MessageId(
        int(golden["publishTimestamp"]),
        int(golden["sequenceId"]),
        int(golden["payloadWriteTimestamp"]),
        int(golden["payloadSequenceId"]),
    )

    assert message_id.encode().hex() == golden["bytes"]
    assert MessageId.decode(bytes.fromhex(golden["bytes"])) == message_id


@given(IDS)
def test_an_id_survives_its_bytes_and_its_text(message_id: MessageId) -> None:
    assert MessageId.decode(message_id.encode()) == message_id
    assert MessageId.decode(parse_id(str(message_id))) == message_id


@given(IDS, IDS)
def test_ids_are_ordered_as_their_bytes(one: MessageId, other: MessageId) -> None:
    assert (one < other) == (one.encode() < other.encode())


@pytest.mark.parametrize(
    "text",
    [
        "",
        "00",
        " " + "0" * 39,
        "00 " * 20,
        "0" * 39,
        "0" * 42,
        "g" * 40,
        "8" + "0" * 39,
        "0" * 20 + "8" + "0" * 19,
    ],
)
def test_what_is_not_an_id_is_refused(text: str) -> None:
    with pytest.raises(InvalidRequest) as refused:
        parse_id(text)

    assert refused.value.problem.code == "invalid_message_id"


@given(IDS)
def test_what_follows_an_id_is_above_it_and_nothing_is_between(message_id: MessageId) -> None:
    raw = message_id.encode()
    following = id_after(raw)
    if message_id.write_timestamp == message_id.payload_sequence_id == 0:
        assert following == key_after(raw[:10]) + bytes(10)
    else:
        assert int.from_bytes(following) - int.from_bytes(raw) == 1


def test_positions() -> None:
    first = MessageId(5, 6).encode()

    assert position_of(None) == FIRST_ID
    assert position_of(first) == first
    assert position_of(first, inclusive=False) == MessageId(5, 7).encode()
    assert position_of(7) == MessageId(7, 0).encode()
    assert position_of(7, inclusive=False) == MessageId(8, 0).encode()
    assert position_of(2**63 - 1) == MessageId(2**63 - 1, 0).encode()
    for outside in (-1, 2**63):
        with pytest.raises(InvalidRequest):
            position_of(outside)
    assert key_after(LAST_ID[:10]) == LAST_ID[:10]


@given(st.lists(plain_messages(st.binary(max_size=300))))
def test_a_block_gives_back_its_messages(messages: list[Message]) -> None:
    block = MessageBlock.of(messages)

    assert block.count == len(messages)
    assert list(block) == messages
    ids = [each.id for each in messages]
    assert block.ids() == ids
    ends = block.payload_spans()[1]
    starts = [7 + at for at in (0, *ends)] if ends else None
    assert replace(block, starts=starts).ids() == ids, "they are counted from anywhere"


@given(st.integers(0, 10_000))
def test_an_items_tail_is_the_same_from_the_table_and_computed(length: int) -> None:
    assert item_tail(length) == bytes(10) + avro_length(length)


def test_a_message_reports_when_it_was_published() -> None:
    assert Message(b"", id=MessageId(17, 0).encode()).publish_timestamp == 17


def test_a_message_shows_its_id_as_people_write_it() -> None:
    message = Message(b"caf\xc3\xa9", id=MessageId(5, 1).encode())

    assert repr(message) == f"Message(payload=b'caf\\xc3\\xa9', id={message.id.hex()})"
    assert str([message]) == f"[{message!r}]"


def test_of_a_long_payload_the_beginning_is_shown() -> None:
    told = repr(Message(b"x" * 1_000_000, id=bytes(20)))

    assert "xxx'… of 1000000 bytes, id=" in told
    assert len(told) < 250


def test_ranges_and_positions_show_ids_alike() -> None:
    first, last = bytes(20), bytes(19) + b"\x01"
    position = SubscriptionPosition(TopicId("ns", "orders"), "billing", last, 3)

    assert repr(TopicRange(first, last, 1)) == (
        f"TopicRange(start={first.hex()}, end={last.hex()}, generation=1)"
    )
    assert repr(Split(first, last, 10)) == (
        f"Split(start={first.hex()}, end={last.hex()}, size_bytes=10)"
    )
    assert repr(Reach(last, 2, 9)) == f"Reach(end={last.hex()}, messages=2, payload_bytes=9)"
    assert repr(position) == (
        f"SubscriptionPosition(topic='ns:orders', name='billing', after={last.hex()}, version=3)"
    )
