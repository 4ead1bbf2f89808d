"""Offsets as checkpoints store them, and as options contain them."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tms.core.errors import InvalidRequest
from tms.core.values.message import FIRST_ID, MessageId
from tms.spark.offsets import (
    Edge,
    Offset,
    Standing,
    at_time,
    end_of,
    parse_offset,
    read_back,
    start_of,
    written,
)

times = st.integers(0, 2**63 - 1)
sequences = st.integers(0, 65_535)
positions = st.builds(MessageId, times, sequences, times, sequences).map(MessageId.encode)
generations = st.one_of(st.none(), st.integers(1, 2**31 - 1))
offsets = st.builds(Offset, positions, generations)
topics = st.text("abcxyz_-", min_size=1, max_size=5)


@given(st.dictionaries(topics, offsets))
def test_offsets_come_back_from_a_checkpoint(kept: dict[str, Offset]) -> None:
    assert kept == read_back(json.loads(json.dumps(written(kept))))


@given(offsets)
def test_what_a_checkpoint_has_is_taken_as_starting_offset(offset: Offset) -> None:
    assert offset == parse_offset(str(offset))


@given(st.text(max_size=45))
def test_any_text_is_an_offset_or_refused(text: str) -> None:
    try:
        bound = parse_offset(text)
    except InvalidRequest as error:
        assert error.problem.code == "invalid_message_id"
    else:
        assert str(bound) == text.lower()


def test_a_checkpoint_has_no_edges() -> None:
    with pytest.raises(InvalidRequest):
        read_back({"a": "latest"})


STANDING = Standing(MessageId(1000, 5).encode(), MessageId(2000, 0).encode(), 3)


def test_a_time_before_the_oldest_message_claims_nothing() -> None:
    assert start_of(at_time(1000), STANDING) == Offset(FIRST_ID, 3)
    assert start_of(at_time(1001), STANDING) == Offset(MessageId(1001, 0).encode(), 3)


def test_nothing_is_read_behind_the_stable_end() -> None:
    assert end_of(at_time(9999), STANDING).position == STANDING.end
    assert end_of(Edge.LATEST, STANDING).position == STANDING.end
    assert end_of(at_time(1500), STANDING).position == MessageId(1500, 0).encode()
