"""Seals: the rows that they hide, the seals of the next leader, and their encoding."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tables.keys import metadata_key
from tables.metadata_table import decoded
from tables.sealing.seal import Hidden, Seal, seal_of, sealed_row, topic_row
from tms.core.errors import StoreCorrupt
from tms.core.values.message import KEY
from tms.core.values.topic import TopicId

ROW = b'{"generation":"1","owner":"a\\nb","ttl":"5"}'
MS = st.integers(0, 12)
KEYS = st.builds(KEY.pack, MS, st.integers(0, 2))


def leaders(ceilings: list[int], kept: list[set[bytes]]) -> tuple[Seal, set[bytes]]:
    """Run successive leaders; return the last one's seal, and the rows shown under it.

    Each leader finds the rows in `kept` with keys up to the ceiling of the earlier ones.
    """
    seal, shown, there = Seal(), set[bytes](), set[bytes]()
    for token, (through_ms, rows) in enumerate(zip(sorted(ceilings), kept, strict=False), 1):
        there |= {key for key in rows if KEY.unpack(key)[0] <= through_ms}
        shown = {key for key in there if seal.range_of(key) is None}
        seal = seal.followed(token, through_ms, min(shown, default=None), max(shown, default=None))
    return seal, shown


@given(
    ceilings=st.lists(MS, min_size=1, max_size=4),
    kept=st.lists(st.sets(KEYS, max_size=6), min_size=1, max_size=4),
    late=KEYS,
)
def test_all_that_was_there_is_shown_and_nothing_that_comes_late(
    ceilings: list[int], kept: list[set[bytes]], late: bytes
) -> None:
    seal, shown = leaders(ceilings, kept)

    for key in shown:
        assert seal.range_of(key) is None
    is_of_leaders_before = KEY.unpack(late)[0] <= seal.through_ms
    if is_of_leaders_before and late > max(shown, default=b""):
        assert seal.range_of(late) is not None
    assert list(seal.hidden) == sorted(seal.hidden, key=lambda each: each.start)
    for each, following in zip(seal.hidden, seal.hidden[1:], strict=False):
        assert each.stop <= following.start, "something is shown between them"


@given(
    seal=st.builds(
        Seal,
        st.integers(1, 2**40),
        st.lists(st.builds(Hidden, KEYS | st.just(b""), st.integers(0, 2**60))).map(tuple),
    )
)
def test_a_row_has_both_the_topic_and_its_seal(seal: Seal) -> None:
    row = sealed_row(ROW, seal)

    assert (topic_row(row), seal_of(row)) == (ROW, seal)
    assert sealed_row(row, Seal()) == ROW
    topic_id = TopicId("default", "t")
    assert decoded(metadata_key(topic_id), row) == decoded(metadata_key(topic_id), ROW)


def test_a_row_without_a_seal_is_as_it_always_was() -> None:
    assert (topic_row(ROW), seal_of(ROW)) == (ROW, Seal())
    assert sealed_row(ROW, Seal()) == ROW


def test_expired_ranges_become_one() -> None:
    """A list of them would grow with every change of leaders."""
    seal = Seal(3, (Hidden(b"", 10), Hidden(KEY.pack(20, 0), 30), Hidden(KEY.pack(40, 0), 50)))

    assert seal.followed(4, 60, KEY.pack(55, 0), KEY.pack(56, 1)).hidden == (
        Hidden(b"", 50),
        Hidden(KEY.pack(56, 1), 60),
    )
    assert seal.followed(4, 60, KEY.pack(35, 0), KEY.pack(40, 0)).hidden == (
        Hidden(b"", 30),
        Hidden(KEY.pack(40, 0), 60),
    )
    assert seal.followed(4, 60, None, None).hidden == (Hidden(b"", 60),)


@pytest.mark.parametrize(
    "seal",
    [
        b'{"token":1',
        b'{"token":"x","hidden":[]}',
        b'{"token":1,"hidden":[["00",5]]}',
        b'{"token":1,"hidden":5}',
        b'{"token":1}',
    ],
)
def test_a_damaged_seal_is_reported(seal: bytes) -> None:
    with pytest.raises(StoreCorrupt):
        seal_of(ROW + b"\n" + seal)
