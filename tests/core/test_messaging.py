"""The answer to a publish: the ids of its messages, and its rollback range."""

from hypothesis import given
from hypothesis import strategies as st

from tms.core.services.messaging import NO_IDS, Published, RollbackRange
from tms.core.values.message import KEY, NO_PAYLOAD_KEY
from tms.messaging.loaded_topics import KeySequence

SEQUENCE_IDS = st.integers(0, 65_535) | st.integers(65_400, 65_535)
LAST_KEYS = st.none() | st.builds(KEY.pack, st.integers(0, 2**50), SEQUENCE_IDS)


@given(LAST_KEYS, st.integers(0, 2**50), st.integers(1, 200))
def test_the_ids_of_a_run_follow_from_the_first_one_as_they_were_given(
    last_key: bytes | None, now_ms: int, count: int
) -> None:
    keys = KeySequence(last_key).take(count, now_ms)

    published = Published(keys[0], count, 7)

    assert len(published) == count
    assert list(published) == [key + NO_PAYLOAD_KEY for key in keys]
    assert published.rollback_range == RollbackRange(7, *KEY.unpack(keys[0]), *KEY.unpack(keys[-1]))


def test_it_is_a_sequence() -> None:
    published = Published(KEY.pack(5, 65_535), 3)
    ids = list(published)

    assert [published[0], published[-1]] == [ids[0], ids[2]]
    assert published[1:] == ids[1:]
    assert ids[1] == KEY.pack(6, 0) + NO_PAYLOAD_KEY
    assert ids[2] in published
    assert published.rollback_range is None
    assert repr(published) == f"Published({ids[0].hex()}, {ids[1].hex()}, {ids[2].hex()})"


def test_of_many_ids_the_first_and_the_last_are_shown() -> None:
    published = Published(KEY.pack(5, 0), 1000)

    first, last = published[0].hex(), published[-1].hex()
    assert repr(published) == f"Published({first}, …, {last}; 1000 ids)"


def test_what_was_stored_before_has_ids_that_the_publish_does_not_know() -> None:
    published = Published(KEY.pack(5, 1), 0, 7)

    assert list(published) == []
    assert published.rollback_range == RollbackRange(7, 5, 1, 5, 1)
    assert repr(published) == "Published()"
    assert (list(NO_IDS), NO_IDS.rollback_range) == ([], None)
