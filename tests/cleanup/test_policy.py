"""The fate of a row, cell by cell of the design document's matrix."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cleanup.policy import Decision, is_dead, log_row, message, payload
from tms.core.values.entries import PLAIN
from tms.core.values.topic import TopicId, TopicMetadata

NOW_MS = 1_800_000_000_000
TTL_S = 60
TTL_MS = TTL_S * 1000
POINTER = NOW_MS * 1_000_000
KEEP, DROP, INVERT = Decision.KEEP, Decision.DROP, Decision.INVERT


def topic(generation: int, ttl_s: int = TTL_S) -> TopicMetadata:
    return TopicMetadata(TopicId("default", "t"), generation, ttl_s, {})


def entry(
    of: TopicMetadata | None, generation: int = 1, age_ms: int = 0, pointer: int = PLAIN
) -> Decision:
    return message(of, generation, NOW_MS - age_ms, pointer, invalids={POINTER}, now_ms=NOW_MS)


def stored(of: TopicMetadata | None, generation: int = 1, age_ms: int = 0) -> Decision:
    return payload(of, generation, NOW_MS - age_ms, now_ms=NOW_MS)


@pytest.mark.parametrize(
    ("age_ms", "expected"), [(0, KEEP), (TTL_MS, KEEP), (TTL_MS + 1, DROP), (-5, KEEP)]
)
def test_ttl_expiration(age_ms: int, expected: Decision) -> None:
    """ "From the cell rowkey, get the timestamp of write and use the TTL and determine if that cell
    needs to be skipped." Of a payload, too: "MessageTable and Payload Table".
    """
    assert entry(topic(1), age_ms=age_ms) is expected
    assert stored(topic(1), age_ms=age_ms) is expected


@pytest.mark.parametrize("age_ms", [0, 10 * TTL_MS])
def test_older_generation(age_ms: int) -> None:
    """ "If it is an older generation (gen < abs(currentgen) || gen == -1*currentgen), then skip the
    cell."
    """
    for generation, current in ((1, 2), (2, 7), (1, -2), (2, -2)):
        assert entry(topic(current), generation, age_ms) is DROP
        assert stored(topic(current), generation, age_ms) is DROP


def test_the_current_generation() -> None:
    """ "If it is the current generation, then do nothing." """
    assert entry(topic(2), 2) is KEEP
    assert stored(topic(2), 2) is KEEP


def test_a_generation_that_the_metadata_read_does_not_know_yet() -> None:
    """Metadata may be older than the rows: a topic was created again since. Its TTL is unknown."""
    assert entry(topic(1), 2, 10 * TTL_MS) is KEEP
    assert stored(topic(-1), 2, 10 * TTL_MS) is KEEP


def test_invalid_transactions() -> None:
    """ "If the transaction id is present in the invalid list (from the tx.snapshot), then invert
    the sign (-1 * tx_id) and put back the value." "(MessageTable only)"
    """
    assert entry(topic(1), pointer=POINTER) is INVERT
    assert entry(topic(1), pointer=POINTER + 1) is KEEP
    assert entry(topic(1), pointer=-POINTER) is KEEP
    assert stored(topic(1)) is KEEP


def test_what_was_inverted_goes_with_ttl_or_the_topic() -> None:
    """ "This way, the data is still visible to non-tx consumption and will be eventually cleared by
    TTL or when the topic is deleted."
    """
    for pointer in (POINTER, -POINTER):
        assert entry(topic(1), age_ms=TTL_MS + 1, pointer=pointer) is DROP
        assert entry(topic(-1), pointer=pointer) is DROP


def test_a_topic_that_is_not_known() -> None:
    """CDAP's coprocessors keep all rows of a topic that is not in their cache."""
    assert entry(None, age_ms=10 * TTL_MS, pointer=POINTER) is KEEP
    assert stored(None, age_ms=10 * TTL_MS) is KEEP


def test_the_log_of_transactions_is_kept_as_far_as_a_start_may_replay_it() -> None:
    assert [log_row(number, 5) for number in (0, 4, 5, 6)] == [DROP, DROP, KEEP, KEEP]


@given(
    generation=st.integers(1, 9),
    current=st.integers(-9, 9).filter(bool),
    age_ms=st.integers(-TTL_MS, 3 * TTL_MS),
    pointer=st.sampled_from([PLAIN, POINTER, -POINTER, POINTER + 1]),
)
def test_nothing_is_dropped_that_a_reader_could_be_given(
    generation: int, current: int, age_ms: int, pointer: int
) -> None:
    decision = entry(topic(current), generation, age_ms, pointer)
    is_read = generation == current and NOW_MS - age_ms >= topic(1).first_live_ms(NOW_MS)

    assert (decision is not DROP) or not is_read
    assert is_dead(generation, current) == (generation != current and generation <= abs(current))
