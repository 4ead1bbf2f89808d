"""The last hour of figures: rings, rates, and the busiest topics."""

import sys
from array import array

from tms.watch.figures import quantile
from tms.watch.history import POINTS, STEP_S, TOPICS_MAX, History, TopicTraffic

BYTES_MAX = 20_000_000


def test_points_of_more_than_an_hour_are_the_last_ones() -> None:
    history = History()
    for number in range(POINTS + 7):
        history.add(number * 10_000, {"sent": number * 100.0}, {})

    times = history.times_ms()
    assert times == [number * 10_000 for number in range(7, POINTS + 7)]
    assert history.values("sent")[0] == 700.0
    assert history.rates("sent") == [None] + [10.0] * (POINTS - 1)
    assert history.values("unknown") == [None] * POINTS


def test_a_figure_that_comes_later_was_not_known_before() -> None:
    history = History()
    history.add(0, {}, {})
    history.add(10_000, {"sent": 5.0}, {})
    history.add(20_000, {"sent": 2.0}, {})  # the counter was reset

    assert history.values("sent") == [None, 5.0, 2.0]
    assert history.rates("sent") == [None, None, 0.0]


def test_before_is_the_latest_point_that_is_old_enough() -> None:
    history = History()
    assert history.before(60, 0, "sent") is None
    for number in range(10):
        history.add(number * 10_000, {"sent": float(number)}, {})

    assert history.before(60, 90_000, "sent") == (3.0, 60.0)
    assert history.before(65, 90_000, "sent") == (2.0, 70.0)
    assert history.before(600, 90_000, "sent") == (0.0, 90.0)
    assert history.before(60, 90_000, "unknown") is None


def test_topics_have_rates_and_deleted_ones_are_forgotten() -> None:
    history = History()
    name = ("ns", "t")
    history.add(0, {}, {name: TopicTraffic(10, 100)})
    history.add(10_000, {}, {name: TopicTraffic(30, 300, 20, 200)})
    history.add(20_000, {}, {name: TopicTraffic(30, 300, 20, 200)})

    rates = history.topic(name)
    assert rates is not None
    assert rates["messages_in"] == [None, 2.0, 0.0]
    assert rates["bytes_out"] == [None, 20.0, 0.0]
    history.add(30_000, {}, {})
    assert history.topic(name) is None


def test_busier_topics_take_the_places_of_quieter_ones() -> None:
    history = History()
    history.add(0, {}, {})
    quiet = {("ns", f"q{n:03}"): TopicTraffic(10 + n) for n in range(TOPICS_MAX)}
    history.add(10_000, {}, quiet)
    busy = {("ns", f"b{n}"): TopicTraffic(1_000 * (n + 1)) for n in range(3)}
    history.add(20_000, {}, quiet | busy)

    assert history.busiest(3) == [("ns", "b2"), ("ns", "b1"), ("ns", "b0")]
    assert len(history.busiest(1_000)) == TOPICS_MAX
    assert history.topic(("ns", "q000")) is None
    assert history.topic(("ns", "q199")) is not None


def test_an_hour_of_many_topics_is_small() -> None:
    history = History()
    for number in range(400):
        topics = {
            ("namespace", f"topic{n}"): TopicTraffic(*[n * number + 1.0] * 4) for n in range(500)
        }
        history.add(number * STEP_S * 1000, {f"sum{n}": 1.0 for n in range(30)}, topics)

    assert size_of(history) < BYTES_MAX


def size_of(root: object) -> int:
    """Return the approximate size in bytes of an object and everything that it refers to."""
    seen: set[int] = set()
    waiting, total = [root], 0
    while waiting:
        each = waiting.pop()
        if id(each) in seen:
            continue
        seen.add(id(each))
        total += sys.getsizeof(each)
        if isinstance(each, dict):
            waiting += [*each.keys(), *each.values()]
        elif isinstance(each, list | tuple):
            waiting += each
        elif not isinstance(each, array | str | int | float | None):
            slots = getattr(type(each), "__slots__", ())
            waiting += [getattr(each, name) for name in slots]
            waiting += vars(each).values() if hasattr(each, "__dict__") else ()
    return total


def test_a_quantile_is_of_the_requests_between_two_looks() -> None:
    before = {0.001: 100.0, 0.01: 100.0, float("inf"): 100.0}
    now = {0.001: 150.0, 0.01: 199.0, float("inf"): 200.0}

    assert quantile(0.5, before, now) == 0.001
    assert quantile(0.99, before, now) == 0.01
    assert quantile(1.0, before, now) == 0.01  # the last bucket has no upper bound
    assert quantile(0.5, now, now) is None
    assert quantile(0.5, {}, {}) is None
