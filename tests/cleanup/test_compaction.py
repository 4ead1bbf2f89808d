"""The rules of compaction alone: which messages of a compact topic are deleted."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cleanup.compaction import Sweep, Verdict, key_and_tombstone
from cleanup.fates import Fate, Fates
from tables.keys import (
    FRAMED_START,
    PLAIN_START,
    inverted,
    prefix,
    reference_value,
    transactional_framed_start,
    transactional_start,
)
from tms.core.errors import StoreCorrupt
from tms.core.limits import Limits
from tms.core.values.frame import encode_body, read_key
from tms.core.values.message import KEY
from tms.core.values.topic import TopicId
from tms.transactions.pruning import InvalidList

NOW_MS = 1_800_000_000_000
COMMITTED, READER, IN_PROGRESS, INVALID = 100, 150, 200, 90
LISTED = InvalidList(
    since={INVALID: 95},
    first_in_progress=READER,
    last_write_pointer=IN_PROGRESS,
    visible_up_to=120,
    knows_publications_after=0,
)
START = prefix(TopicId("ns", "t"), 1)

Row = tuple[bytes, bytes]


def row(number: int, key: bytes | None, payload: bytes | None = b"v", pointer: int = 0) -> Row:
    """Return a row from `number` ms after the beginning."""
    body, is_framed = encode_body(payload, key)
    plain = FRAMED_START if is_framed else PLAIN_START
    write_pointer = abs(pointer)
    start = transactional_framed_start if is_framed else transactional_start
    value = (start(write_pointer) if pointer else plain) + body
    return START + KEY.pack(NOW_MS + number, 0), inverted(value) if pointer < 0 else value


def swept(
    rows: list[Row], *, old: int = 0, keys_max: int = 100, listed: InvalidList | None = LISTED
) -> list[int]:
    """Return the numbers of the remaining rows; rows before `old` are old."""
    fates = Fates(listed, Limits(), NOW_MS)
    left = dict(rows)
    greatest = max(left)
    stop: bytes | None = greatest
    while stop is not None:
        sweep = Sweep(fates, NOW_MS + old, keys_max, greatest)
        for key in sorted([key for key in left if key <= stop], reverse=True):
            if sweep.verdict(key, left[key]) is not Verdict.STAYS:
                del left[key]
        for key in sweep.tombstones:
            del left[key]
        stop = sweep.resume
    return [KEY.unpack(key[-KEY.size :])[0] - NOW_MS for key in sorted(left)]


def test_the_newest_of_each_key_stays() -> None:
    rows = [row(1, b"a"), row(2, b"b"), row(3, b"a"), row(4, b"a"), row(5, b"c")]
    assert swept(rows) == [2, 4, 5]


def test_what_has_no_key_stays() -> None:
    reference = START + KEY.pack(NOW_MS + 2, 0), reference_value(COMMITTED)
    rows = [row(1, None), reference, row(3, None), row(4, b"a")]
    assert swept(rows, old=100) == [1, 2, 3, 4]


@pytest.mark.parametrize(
    ("pointer", "left"),
    [
        (COMMITTED, [2, 3]),
        (130, [1, 2, 3]),  # committed, but a transaction in progress does not see it
        (IN_PROGRESS, [1, 2, 3]),
        (INVALID, [1, 2, 3]),
        (-COMMITTED, [1, 2, 3]),
    ],
)
def test_only_what_all_see_supersedes(pointer: int, left: list[int]) -> None:
    assert swept([row(1, b"a"), row(2, b"a", pointer=pointer), row(3, b"b")]) == left


def test_nothing_supersedes_across_what_a_reader_may_stop_at() -> None:
    rows = [row(1, b"a"), row(2, b"a"), row(3, b"b", pointer=IN_PROGRESS), row(4, b"a")]
    assert swept(rows) == [2, 3, 4]


def test_what_is_in_progress_is_not_superseded() -> None:
    assert swept([row(1, b"a", pointer=IN_PROGRESS), row(2, b"a")]) == [1, 2]


def test_what_was_rolled_back_goes_when_it_is_old() -> None:
    rows = [row(1, b"a", pointer=-COMMITTED), row(5, b"a", pointer=-COMMITTED), row(9, b"b")]
    assert swept(rows, old=5) == [5, 9]


def test_a_tombstone_goes_when_it_is_old_and_nothing_older_is_left() -> None:
    rows = [row(1, b"a"), row(2, b"a", None), row(3, b"b", None), row(9, b"c")]
    assert swept(rows, old=3) == [3, 9]
    held = [row(0, b"a"), row(1, b"x", pointer=IN_PROGRESS), *rows[1:]]
    assert swept(held, old=5) == [0, 1, 2, 3, 9]


def test_a_tombstone_stays_above_what_it_could_not_supersede() -> None:
    rows = [row(1, b"a"), row(2, b"x", pointer=IN_PROGRESS), row(3, b"a", None), row(9, b"c")]
    assert swept(rows, old=5) == [1, 2, 3, 9]


def test_the_greatest_stays_whatever_it_is() -> None:
    assert swept([row(1, b"a"), row(2, b"a", None)], old=5) == [2]
    assert swept([row(1, b"a"), row(2, b"a", pointer=-COMMITTED)], old=5) == [1, 2]


def test_with_foreign_transactions_only_what_is_plain_supersedes() -> None:
    young, old = NOW_MS * 1_000_000, 1_000_000
    rows = [row(1, b"a"), row(2, b"a", pointer=old), row(3, b"b")]
    assert swept(rows, listed=None) == [1, 2, 3]
    assert swept([*rows, row(4, b"a")], listed=None) == [3, 4]
    across = [row(1, b"a"), row(2, b"b", pointer=young), row(3, b"a")]
    assert swept(across, listed=None) == [1, 2, 3]


FATED = st.sampled_from([0, 0, 0, COMMITTED, 130, IN_PROGRESS, -COMMITTED])
ROWS = st.lists(st.tuples(st.sampled_from([b"a", b"b", b"c", b"d" * 20]), st.booleans(), FATED))


@given(drawn=ROWS, keys_max=st.integers(1, 4), old=st.integers(0, 12))
def test_it_is_the_same_however_few_keys_are_remembered(
    drawn: list[tuple[bytes, bool, int]], keys_max: int, old: int
) -> None:
    rows = [
        row(number, key, None if is_tombstone else b"v", pointer)
        for number, (key, is_tombstone, pointer) in enumerate(drawn)
    ]
    if rows:
        assert swept(rows, old=old, keys_max=keys_max) == swept(rows, old=old)


@given(
    key=st.binary(max_size=200),
    payload=st.none() | st.binary(max_size=5),
    headers=st.dictionaries(st.text(max_size=3), st.binary(max_size=80), max_size=2),
    pointer=st.sampled_from([0, COMMITTED, -COMMITTED]),
)
def test_keys_are_read_from_rows(
    key: bytes, payload: bytes | None, headers: dict[str, bytes], pointer: int
) -> None:
    body, _ = encode_body(payload, key, headers)
    value = (transactional_framed_start(COMMITTED) if pointer else FRAMED_START) + body
    value = inverted(value) if pointer < 0 else value
    assert key_and_tombstone(value) == (key, payload is None)


@given(damaged=st.binary(max_size=8), tail=st.binary(max_size=300))
def test_damage_is_never_taken_for_a_key(damaged: bytes, tail: bytes) -> None:
    """The fast path reads the same key as the general one."""
    value = FRAMED_START + damaged + tail
    try:
        key, has_payload = read_key(value, 1)
    except StoreCorrupt:
        key, has_payload = None, True
    try:
        found = key_and_tombstone(value)
    except StoreCorrupt:
        found = (None, False)
    if key is not None:
        assert found == (key, not has_payload)


def test_fates() -> None:
    fates = Fates(LISTED, Limits(), NOW_MS)
    asked = (0, COMMITTED, 120, 121, INVALID, IN_PROGRESS, -5)
    assert [fates.of(pointer) for pointer in asked] == [
        Fate.SEEN,
        Fate.SEEN,
        Fate.SEEN,
        Fate.UNDECIDED,
        Fate.UNKNOWN,
        Fate.UNDECIDED,
        Fate.ROLLED_BACK,
    ]
