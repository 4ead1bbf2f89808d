"""The replay window, compared with a set of all numbers accepted so far."""

from hypothesis import given
from hypothesis import strategies as st

from tests.manual_clock import ManualClock
from tms.security.replays import SENDERS_MAX, SILENCE_MS, WINDOW, Replays

NEAR = st.integers(0, 3 * WINDOW) | st.integers(WINDOW - 3, WINDOW + 3) | st.integers(0, 5)


@given(st.lists(st.tuples(st.sampled_from("ab"), NEAR), max_size=60))
def test_each_number_is_taken_once(taking: list[tuple[str, int]]) -> None:
    replays = Replays(ManualClock(0).steady_ms)
    taken: dict[str, set[int]] = {"a": set(), "b": set()}
    for sender, number in taking:
        highest = max(taken[sender], default=-1)
        is_new = number not in taken[sender] and number > highest - WINDOW
        assert (replays.take(sender, number) is None) == is_new
        if is_new:
            taken[sender].add(number)


def test_who_was_silent_for_longest_makes_way_for_another() -> None:
    clock = ManualClock(0)
    replays = Replays(clock.steady_ms)
    for sender in range(SENDERS_MAX):
        assert replays.take(f"{sender}", 1) is None
    clock.advance(SILENCE_MS)
    assert replays.take("0", 1) is not None, "that keeps nothing of it"
    assert replays.take("1", 2) is None
    assert replays.take("other", 1) is not None
    clock.advance(1)
    assert replays.take("other", 1) is None
    assert len(replays) == SENDERS_MAX
    assert replays.take("1", 2) is not None
    assert replays.take("2", 1) is not None, "time alone takes nothing away"


def test_what_a_window_takes_is_bounded() -> None:
    replays = Replays(ManualClock(0).steady_ms)
    for number in range(0, 10**18, 10**16):
        assert replays.take("a", number) is None
    for number in range(10**18, 10**18 + 1000):
        assert replays.take("a", number) is None
    assert replays._windows["a"]._taken.bit_length() <= WINDOW
