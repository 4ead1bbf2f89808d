"""A principal gets no more than its quota, whatever others do, and what is stored is bounded."""

from collections.abc import Callable
from dataclasses import fields

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.manual_clock import ManualClock
from tms.core.errors import RateExceeded
from tms.core.limits import PrincipalLimits
from tms.security.quotas import PrincipalUse, Quotas, SharedBounds
from tms.settings.security import SecuritySettings

LIMITS = PrincipalLimits(
    requests_per_s=10,
    publish_bytes_per_s=1000,
    publish_messages_per_s=5,
    connections_max=3,
    polls_max=1,
    arriving_bytes_max=100,
    topics_per_hour=4,
)


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock(1_700_000_000_000)


@pytest.fixture
def quotas(clock: ManualClock) -> Quotas:
    return Quotas(LIMITS, clock)


def refused(action: Callable[[], None], setting: str, retry_after_s: int) -> None:
    with pytest.raises(RateExceeded) as caught:
        action()
    assert caught.value.problem.code == "principal_rate_exceeded"
    assert caught.value.detail["setting"] == setting
    assert caught.value.detail["retry_after_s"] == retry_after_s
    name = setting.removeprefix("principal_")
    assert caught.value.detail["limit"] == getattr(LIMITS, name)


def test_limits_are_the_settings_of_one_principal() -> None:
    named = {name for name in SecuritySettings.model_fields if name.startswith("principal_")}
    counted = {f"principal_{each.name}" for each in fields(PrincipalLimits)}
    assert counted | {"principal_transactions_max"} == named, "tms.transactions counts those"


def test_requests_are_so_many_a_second_of_each(quotas: Quotas, clock: ManualClock) -> None:
    for _ in range(10):
        quotas.of("ann").take_request()
    refused(quotas.of("ann").take_request, "principal_requests_per_s", 1)
    quotas.of("bob").take_request()
    clock.advance(99)
    refused(quotas.of("ann").take_request, "principal_requests_per_s", 1)
    clock.advance(1)
    quotas.of("ann").take_request()


def test_a_clock_that_is_set_back_gives_and_takes_nothing(
    quotas: Quotas, clock: ManualClock
) -> None:
    for _ in range(10):
        quotas.of("ann").take_request()
    clock.set(0)
    refused(quotas.of("ann").take_request, "principal_requests_per_s", 1)
    clock.advance(100)
    quotas.of("ann").take_request()


def test_a_publish_takes_both_or_nothing(quotas: Quotas, clock: ManualClock) -> None:
    use = quotas.of("ann")
    use.take_publish(1, 900)
    refused(lambda: use.take_publish(4, 200), "principal_publish_bytes_per_s", 1)
    use.take_publish(4, 100)
    refused(lambda: use.take_publish(1, 0), "principal_publish_messages_per_s", 1)
    clock.advance(5_000)
    use.take_publish(1, 10_000)
    refused(lambda: use.take_publish(1, 1), "principal_publish_bytes_per_s", 10)


def test_topics_are_so_many_an_hour(quotas: Quotas, clock: ManualClock) -> None:
    for _ in range(4):
        quotas.of("ann").take_topic()
    refused(quotas.of("ann").take_topic, "principal_topics_per_hour", 900)
    clock.advance(900_000)
    quotas.of("ann").take_topic()


@pytest.mark.parametrize("name", ["connections", "polls"])
def test_so_many_are_open_at_once(quotas: Quotas, name: str) -> None:
    count = getattr(quotas.of("ann"), name)
    limit = getattr(LIMITS, f"{name}_max")
    for _ in range(limit):
        count.enter()
    refused(count.enter, f"principal_{name}_max", 1)
    getattr(quotas.of("bob"), name).enter()
    count.leave()
    with count.held():
        refused(count.enter, f"principal_{name}_max", 1)
    count.enter()
    count.enter_anyway()
    assert count.count == limit + 1


def test_what_fails_is_open_no_more(quotas: Quotas) -> None:
    polls = quotas.of("ann").polls
    with pytest.raises(ZeroDivisionError), polls.held():
        raise ZeroDivisionError
    assert polls.count == 0


def test_a_body_over_the_limit_arrives_alone(quotas: Quotas) -> None:
    arriving = quotas.of("ann").arriving_bytes
    with arriving.held(500):
        refused(lambda: arriving.enter(1), "principal_arriving_bytes_max", 1)
    arriving.enter(60)
    refused(lambda: arriving.enter(41), "principal_arriving_bytes_max", 1)
    arriving.enter(40)


@pytest.mark.parametrize("name", ["connections", "polls"])
def test_if_none_is_set_one_leaves_a_tenth_to_others(clock: ManualClock, name: str) -> None:
    quotas = Quotas(PrincipalLimits(), clock, SharedBounds(connections_max=20))
    count = getattr(quotas.of("ann"), name)
    for _ in range(18):
        count.enter()
    with pytest.raises(RateExceeded) as caught:
        count.enter()
    assert caught.value.detail["limit"] == 18
    for _ in range(2):
        getattr(quotas.of("bob"), name).enter()
    with pytest.raises(RateExceeded):
        getattr(quotas.of("cid"), name).enter()


def test_by_time_no_limit_is_none(clock: ManualClock) -> None:
    quotas = Quotas(PrincipalLimits(), clock)
    use = quotas.of("ann")
    for _ in range(1_000):
        use.take_request()
        use.take_publish(10**9, 10**12)
        use.take_topic()
    assert use.is_as_new


@pytest.mark.parametrize("name", [each.name for each in fields(PrincipalLimits)])
def test_each_limit_holds_by_itself(clock: ManualClock, name: str) -> None:
    use = Quotas(PrincipalLimits(**{name: 1}), clock).of("ann")

    def everything() -> None:
        use.take_request()
        use.take_publish(1, 1)
        use.take_topic()
        for count in (use.connections, use.polls, use.arriving_bytes):
            count.enter()

    everything()
    with pytest.raises(RateExceeded) as caught:
        everything()
    assert caught.value.detail["setting"] == f"principal_{name}"


def test_those_of_whom_nothing_is_to_know_are_forgotten_first(clock: ManualClock) -> None:
    quotas = Quotas(LIMITS, clock, principals_max=3)
    quotas.of("open").connections.enter()
    used = quotas.of("used")
    used.take_request()
    quotas.of("new1").take_request()
    quotas.of("new2").take_request()  # "open" goes
    assert quotas.of("used") is used
    quotas.of("new3").take_request()  # all have used something; "new1" was looked up longest ago
    assert quotas.of("used") is used
    assert len(quotas) == 3


def test_what_is_open_is_not_forgotten(clock: ManualClock) -> None:
    quotas = Quotas(LIMITS, clock, principals_max=3)
    before = quotas.of("ann")
    before.polls.enter()
    for number in range(5):
        quotas.of(f"{number}")
    now = quotas.of("ann")
    assert now is not before
    refused(now.polls.enter, "principal_polls_max", 1)
    before.polls.leave()
    now.polls.enter()


@given(st.lists(st.tuples(st.integers(0, 6), st.booleans()), max_size=60))
def test_what_is_kept_is_bounded(asked: list[tuple[int, bool]]) -> None:
    quotas = Quotas(LIMITS, ManualClock(0), principals_max=3)
    for number, has_open in asked:
        use: PrincipalUse = quotas.of(str(number))
        if has_open and not use.polls.count:
            use.polls.enter()
        assert len(quotas) <= 3
        assert quotas.of(str(number)) is use
    assert quotas.polls.used <= 7
