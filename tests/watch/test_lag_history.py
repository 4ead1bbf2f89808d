"""The lags of the last hour."""

from tms.core.values.lags import ReaderLag
from tms.core.values.subscriptions import SubscriptionKind
from tms.watch.lag_history import POINTS, READERS_MAX, LagHistory


def lag(name: str, messages: int, seconds: float) -> ReaderLag:
    return ReaderLag(
        namespace="ns",
        topic="t",
        name=name,
        kind=SubscriptionKind.SINGLE,
        messages=messages,
        seconds=seconds,
    )


def test_points_are_those_of_the_last_hour() -> None:
    history = LagHistory()
    history.add(0, [lag("early", 1, 1)])
    for number in range(1, POINTS + 5):
        history.add(number, [lag("a", number, number / 2), *[lag("b", 7, 1)] * (number > POINTS)])

    assert history.of(("ns", "t", "early")) is None
    points = history.of(("ns", "t", "a"))
    assert points is not None
    assert points.times_ms == points.messages == list(range(5, POINTS + 5))
    assert points.seconds[-1] == (POINTS + 4) / 2
    late = history.of(("ns", "t", "b"))
    assert late is not None
    assert late.messages == [None] * (POINTS - 4) + [7.0] * 4


def test_those_are_kept_that_are_behind_longest() -> None:
    history = LagHistory()
    history.add(0, [lag(f"r{n}", 1, n) for n in range(READERS_MAX + 10)])

    assert history.of(("ns", "t", "r9")) is None
    assert history.of(("ns", "t", "r10")) is not None
