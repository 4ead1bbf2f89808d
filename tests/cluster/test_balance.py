"""The balance of shards: each has a leader, the work is even, and none moves without need."""

from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from tms.cluster.balance import balanced

INSTANCES = st.integers(1, 9)
SHARDS = st.integers(1, 64)
LIVE = st.sets(INSTANCES, min_size=1, max_size=6)
LED = st.dictionaries(st.integers(0, 70), INSTANCES)


def spread(led: dict[int, int], live: set[int]) -> int:
    counts = Counter(led.values())
    return max(counts[each] for each in live) - min(counts[each] for each in live)


@given(SHARDS, LIVE, LED, LED)
def test_each_shard_has_a_live_leader_and_wishes_count(
    shards: int, live: set[int], holders: dict[int, int], wishes: dict[int, int]
) -> None:
    led = balanced(range(shards), live, holders, wishes)

    assert set(led) == set(range(shards))
    assert set(led.values()) <= live
    assert all(led[n] == to for n, to in wishes.items() if to in live and n < shards)


@given(SHARDS, LIVE, LED)
def test_the_work_is_even(shards: int, live: set[int], holders: dict[int, int]) -> None:
    assert spread(balanced(range(shards), live, holders, {}), live) <= 1


@given(SHARDS, LIVE, LED, LED)
def test_only_shards_with_wishes_are_uneven(
    shards: int, live: set[int], holders: dict[int, int], wishes: dict[int, int]
) -> None:
    led = balanced(range(shards), live, holders, wishes)
    counts = Counter(led.values())
    free = [n for n in led if wishes.get(n) not in live]

    assert all(counts[led[n]] <= min(counts[each] for each in live) + 1 for n in free)


@given(SHARDS, LIVE, LED, LED)
def test_the_answer_is_stable(
    shards: int, live: set[int], holders: dict[int, int], wishes: dict[int, int]
) -> None:
    led = balanced(range(shards), live, holders, wishes)

    assert balanced(range(shards), live, led, wishes) == led


@given(SHARDS, LIVE, LED)
def test_only_needed_moves(shards: int, live: set[int], holders: dict[int, int]) -> None:
    led = balanced(range(shards), live, holders, {})
    counts = Counter(led.values())
    kept = {n: holder for n, holder in holders.items() if n < shards and holder in live}
    moved = [n for n in kept if led[n] != kept[n]]

    assert all(counts[kept[n]] >= shards // len(live) for n in moved)
    assert all(counts[led[n]] <= -(-shards // len(live)) for n in moved)
    assert not {kept[n] for n in moved} & {led[n] for n in moved}
    # No more move than any even sharing needs: the shards above the larger or the smaller share.
    before = Counter(kept.values())
    small, greater = divmod(shards, len(live))
    over = sorted((max(0, before[each] - small) for each in live), reverse=True)
    needed = sum(over) - sum(1 for surplus in over[:greater] if surplus)
    assert len(moved) == needed


@given(SHARDS, LIVE, INSTANCES, LED)
def test_one_that_joins_takes_from_others_alone(
    shards: int, live: set[int], new: int, holders: dict[int, int]
) -> None:
    before = balanced(range(shards), live, holders, {})
    after = balanced(range(shards), live | {new}, before, {})

    assert all(after[n] in (before[n], new) for n in before)


def test_golden() -> None:
    assert balanced(range(4), {7, 4}, {}, {}) == {0: 4, 1: 7, 2: 4, 3: 7}
    assert balanced(range(4), {7, 4}, {0: 4, 1: 4, 2: 4, 3: 4}, {}) == {0: 4, 1: 4, 2: 7, 3: 7}
    assert balanced(range(4), {7, 4}, {}, {2: 7, 3: 7, 0: 9}) == {0: 4, 1: 4, 2: 7, 3: 7}
    assert balanced(range(3), {4}, {0: 7}, {1: 7}) == {0: 4, 1: 4, 2: 4}
    assert balanced(range(3), set(), {0: 7}, {1: 7}) == {}
