"""In any time span no more is taken than the rate allows plus one period's amount."""

from hypothesis import given
from hypothesis import strategies as st

from tms.core.runtime.rates import Rate, in_seconds

TAKINGS = st.lists(st.tuples(st.integers(0, 900), st.integers(1, 30)), max_size=60)


@given(st.integers(1, 20), st.integers(1, 3000), TAKINGS)
def test_what_is_taken_is_bounded(
    per_period: int, period_ms: int, takings: list[tuple[int, int]]
) -> None:
    rate = Rate(per_period, period_ms)
    now_ms, taken = 0, 0
    for after_ms, amount in takings:
        now_ms += after_ms
        wait_ms = rate.wait_ms(amount, now_ms)
        if wait_ms <= 0:
            rate.take(amount, now_ms)
            taken += amount
            largest = max(per_period, *(each for _, each in takings))
            assert (taken - largest) * period_ms <= now_ms * per_period
        else:
            assert rate.wait_ms(amount, now_ms + wait_ms) <= 0
            assert rate.wait_ms(amount, now_ms + wait_ms - 1) > 0


def test_a_whole_period_may_be_taken_at_once_and_comes_back_bit_by_bit() -> None:
    rate = Rate(10, 60_000)
    for _ in range(10):
        assert rate.wait_ms(1, 5) <= 0
        rate.take(1, 5)
    assert rate.wait_ms(1, 5) == 6_000
    assert not rate.is_paid(60_004)
    assert rate.is_paid(60_005)
    rate.give_back(1, 5)
    assert rate.wait_ms(1, 5) <= 0


def test_more_than_a_period_is_taken_if_all_is_paid() -> None:
    rate = Rate(10)
    assert rate.wait_ms(100, 0) <= 0
    rate.take(100, 0)
    assert rate.wait_ms(1, 0) == 9_100
    assert in_seconds(9_100) == 10


@given(st.integers(0, 10**9), st.integers(1, 9))
def test_what_was_given_back_was_not_taken(now_ms: int, amount: int) -> None:
    rate, other = Rate(9), Rate(9)
    rate.take(3, 0)
    other.take(3, 0)
    rate.take(amount, 0)
    rate.give_back(amount, 0)
    assert rate.wait_ms(9, now_ms) == other.wait_ms(9, now_ms)
