"""Keys only ever ascend: within a run, across restarts, whatever the clock does."""

from operator import lt

from hypothesis import given
from hypothesis import strategies as st

from tms.core.values.message import KEY
from tms.messaging.loaded_topics import KeySequence

NOW_MS = 1_800_000_000_000
REQUESTS = st.lists(
    st.tuples(st.integers(0, 50) | st.just(70_000), st.integers(-3, 3), st.booleans()), max_size=8
)


@given(REQUESTS)
def test_keys_ascend_whatever_the_clock_does(requests: list[tuple[int, int, bool]]) -> None:
    sequence, now_ms = KeySequence(None), NOW_MS
    keys: list[bytes] = []
    for count, by_ms, restarts in requests:
        now_ms += by_ms
        if restarts:
            sequence = KeySequence(keys[-1] if keys else None)
        floor = sequence.next_floor()
        taken = sequence.take(count, now_ms)
        assert len(taken) == count
        assert min(taken, default=floor) >= floor
        keys += taken

    assert all(map(lt, keys, keys[1:]))


def test_the_sequence_continues_within_a_millisecond_and_starts_again_in_the_next() -> None:
    sequence = KeySequence(None)
    keys = [*sequence.take(2, 5), *sequence.take(1, 5), *sequence.take(1, 6), *sequence.take(1, 4)]

    assert [KEY.unpack(key) for key in keys] == [(5, 0), (5, 1), (5, 2), (6, 0), (6, 1)]


def test_70_000_keys_are_65_536_in_one_millisecond_and_4_464_in_the_next() -> None:
    """CDAP's server was observed to assign them like this."""
    keys = [KEY.unpack(key) for key in KeySequence(None).take(70_000, NOW_MS)]

    assert keys[65_535] == (NOW_MS, 65_535)
    assert keys[65_536] == (NOW_MS + 1, 0)
    assert keys[-1] == (NOW_MS + 1, 4_463)


def test_a_full_millisecond_is_gone_on_from_after_a_restart() -> None:
    last_key = KEY.pack(NOW_MS, 65_535)

    assert KeySequence(last_key).next_floor() == KEY.pack(NOW_MS + 1, 0)
    assert KeySequence(last_key).take(1, NOW_MS) == [KEY.pack(NOW_MS + 1, 0)]
