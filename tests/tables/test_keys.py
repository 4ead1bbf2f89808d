"""Row keys and values are encoded as in CDAP."""

import json
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tables import keys
from tests.core.message_ids import NUMBERS, TIMESTAMPS
from tms.core.errors import StoreCorrupt
from tms.core.values.message import KEY, key_after
from tms.core.values.topic import TopicId

GOLDEN = json.loads((Path(__file__).parents[1] / "wire" / "golden.json").read_text())
NAMES = st.from_regex(r"[A-Za-z0-9_-]{1,12}", fullmatch=True)
TOPICS = st.builds(TopicId, st.from_regex(r"[A-Za-z0-9_]{1,12}", fullmatch=True), NAMES)
POINTERS = st.integers(1, 2**63 - 1)


def topic_of(golden: dict[str, Any]) -> TopicId:
    return TopicId(golden["namespace"], golden["topic"])


@pytest.mark.parametrize("golden", GOLDEN["keyPrefixes"], ids=lambda g: g["topic"])
def test_prefixes(golden: dict[str, Any]) -> None:
    topic_id = topic_of(golden)

    assert keys.metadata_key(topic_id).hex() == golden["metadataRowKey"]
    assert keys.namespace_start(topic_id.namespace).hex() == golden["topicScanKey"]
    for generation, expected in golden["dataKeyPrefixByGeneration"].items():
        assert keys.prefix(topic_id, int(generation)).hex() == expected


@pytest.mark.parametrize("golden", GOLDEN["messageTableRows"])
def test_message_rows(golden: dict[str, Any]) -> None:
    key = keys.prefix(topic_of(golden), golden["generation"]) + KEY.pack(
        int(golden["publishTimestamp"]), golden["sequenceId"]
    )

    assert key.hex() == golden["row"]["key"]
    if golden["transactional"]:
        pointer = int(golden["transactionWritePointer"])
        value = keys.transactional_start(pointer)
        assert value[1:].hex() == golden["row"]["txPtr"]


@pytest.mark.parametrize("golden", GOLDEN["payloadTableRows"])
def test_payload_rows(golden: dict[str, Any]) -> None:
    prefix = keys.prefix(topic_of(golden), golden["generation"])
    start = keys.payload_prefix(prefix, int(golden["transactionWritePointer"]))
    key = start + KEY.pack(int(golden["payloadWriteTimestamp"]), golden["payloadSequenceId"])

    assert key.hex() == golden["row"]["key"]


@pytest.mark.parametrize("golden", GOLDEN["messageTableRollback"])
def test_the_ends_of_a_rollback(golden: dict[str, Any]) -> None:
    prefix = keys.prefix(topic_of(golden), golden["generation"])
    first = KEY.pack(int(golden["startTimestamp"]), golden["startSequenceId"])
    last = KEY.pack(int(golden["endTimestamp"]), golden["endSequenceId"])
    value = keys.reference_value(int(golden["transactionWritePointer"]))

    assert (prefix + first).hex() == golden["call"]["startKey"]
    assert (prefix + key_after(last)).hex() == golden["call"]["stopKey"]
    assert keys.inverted(value)[1:].hex() == golden["call"]["txWritePtr"]


@given(TOPICS)
def test_a_topic_survives_its_key(topic_id: TopicId) -> None:
    assert keys.topic_of(keys.metadata_key(topic_id)) == topic_id


@given(
    st.lists(
        st.tuples(TOPICS, st.integers(1, 2**31 - 1), TIMESTAMPS, NUMBERS), min_size=2, max_size=8
    )
)
def test_a_topics_rows_are_together_by_generation_time_and_sequence(
    rows: list[tuple[TopicId, int, int, int]],
) -> None:
    def key(row: tuple[TopicId, int, int, int]) -> bytes:
        topic_id, generation, timestamp, number = row
        return keys.prefix(topic_id, generation) + KEY.pack(timestamp, number)

    ordered = sorted(rows, key=lambda r: (keys.metadata_key(r[0]), *r[1:]))
    assert [key(row) for row in ordered] == sorted(map(key, rows))
    for one, other in pairwise(ordered):
        inside = keys.prefix(one[0], one[1])
        assert (key(other) < keys.after_prefix(inside)) == (one[:2] == other[:2])


@given(POINTERS, st.binary())
def test_a_value_inverted_twice_is_itself(pointer: int, payload: bytes) -> None:
    for value in (keys.transactional_start(pointer) + payload, keys.reference_value(pointer)):
        assert keys.write_pointer_of(value) == pointer
        assert keys.write_pointer_of(keys.inverted(value)) == -pointer
        assert keys.inverted(keys.inverted(value)) == value


@pytest.mark.parametrize("value", [b"", b"\x00", b"\x01", b"\x02" + bytes(7), b"\x03" + bytes(8)])
def test_a_damaged_value_is_named(value: bytes) -> None:
    with pytest.raises(StoreCorrupt):
        keys.write_pointer_of(value)


@pytest.mark.parametrize("key", [b"", b"a", b"a:b:c", b"a:b:c:", b"\xff:b:"])
def test_a_damaged_metadata_key_is_named(key: bytes) -> None:
    with pytest.raises(StoreCorrupt):
        keys.topic_of(key)
