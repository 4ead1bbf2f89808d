"""The limits of a namespace: sizes, and average rates."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.manual_clock import ManualClock
from tms.core.errors import InvalidRequest, RateExceeded, TmsError, TooLarge
from tms.core.limits import Limits
from tms.core.values.namespaces import NamespaceRules, NamespaceSettings, rules_of
from tms.core.values.topic import TopicId
from tms.messaging.admission import Admission

NOW_MS = 1_800_000_000_000
LIMITS = Limits(message_bytes_max=100, request_bytes_max=1000)


class Held:
    """An admission with its clock and its rules."""

    def __init__(self, **settings: int) -> None:
        self.clock = ManualClock(NOW_MS)
        self.declared: dict[str, NamespaceRules] = {}
        self.admission = Admission(LIMITS, self.clock, self.declared)
        if settings:
            self.declare(**settings)

    def declare(self, **settings: int) -> None:
        self.declared["shop"] = rules_of(NamespaceSettings(**settings), LIMITS)

    def publish(self, *sizes: int, namespace: str = "shop") -> int:
        return self.admission.payload_bytes(namespace, [bytes(size) for size in sizes])

    def wait_s(self, *sizes: int) -> int:
        with pytest.raises(RateExceeded) as refused:
            self.publish(*sizes)
        assert refused.value.detail["namespace"] == "shop"
        return int(refused.value.detail["retry_after_s"])


def code_of(error: pytest.ExceptionInfo[TmsError]) -> str:
    return error.value.problem.code


def test_a_namespace_without_rules_has_the_servers_limits() -> None:
    held = Held(message_bytes_max=1, publish_messages_per_s=1)

    for _ in range(100):
        assert held.publish(*[100] * 10, namespace="other") == 1000
    with pytest.raises(TooLarge):
        held.publish(101, namespace="other")


def test_a_message_and_a_request_are_held_to_the_namespaces_sizes() -> None:
    held = Held(message_bytes_max=10, request_bytes_max=25)

    assert held.publish(10, 10, 5) == 25
    with pytest.raises(TooLarge) as message:
        held.publish(11)
    with pytest.raises(TooLarge) as request:
        held.publish(10, 10, 6)

    assert code_of(message) == "message_over_namespace_limit"
    assert message.value.detail == {"namespace": "shop", "bytes": 11, "message_bytes_max": 10}
    assert code_of(request) == "request_over_namespace_limit"
    assert request.value.detail == {"namespace": "shop", "bytes": 26, "request_bytes_max": 25}


def test_the_servers_own_limits_hold_besides() -> None:
    held = Held(message_bytes_max=5000, request_bytes_max=5000)

    with pytest.raises(TooLarge) as error:
        held.publish(101)

    assert code_of(error) == "message_too_large"


def test_a_rate_takes_a_second_s_worth_at_once_and_then_says_how_long_to_wait() -> None:
    held = Held(publish_messages_per_s=5)
    held.publish(*[1] * 5)

    assert held.wait_s(*[1] * 5) == 1
    held.clock.advance(999)
    assert held.wait_s(*[1] * 5) == 1
    held.publish(*[1] * 4)
    held.clock.advance(801)
    held.publish(*[1] * 4)


@pytest.mark.parametrize("per_s", [1, 3, 7, 999])
def test_a_second_s_worth_may_come_singly(per_s: int) -> None:
    held = Held(publish_messages_per_s=per_s)
    for _ in range(3):
        for _ in range(per_s):
            held.publish(1)
        assert held.wait_s(1) == 1
        held.clock.advance(1_000)


def test_more_than_a_second_s_worth_is_taken_if_nothing_is_unpaid() -> None:
    held = Held(publish_messages_per_s=2)
    held.publish(1)

    assert held.wait_s(*[1] * 10) == 1
    held.clock.advance(500)
    held.publish(*[1] * 10)
    assert held.wait_s(1, 1) == 5
    assert held.wait_s(1) == 5
    held.clock.advance(4_500)
    held.publish(1)


def test_bytes_have_a_rate_of_their_own_and_no_messages_cost_nothing() -> None:
    held = Held(publish_bytes_per_s=100, publish_messages_per_s=1000)
    held.publish(100, 100)

    assert held.wait_s(0) == 1
    held.clock.advance(1_000)
    held.publish()
    assert held.wait_s(100) == 1
    held.clock.advance(1_000)
    held.publish(100)


def test_a_refused_publish_costs_nothing() -> None:
    held = Held(publish_messages_per_s=1, publish_bytes_per_s=100)
    held.publish(1, 1)
    for _ in range(50):
        assert held.wait_s(100) == 2
    held.clock.advance(2_000)

    held.publish(100)


def test_several_topics_of_a_namespace_are_one_publish() -> None:
    held = Held(request_bytes_max=10)
    topics = {TopicId("shop", name): [bytes(6)] for name in "ab"}

    with pytest.raises(TooLarge):
        held.admission.all_payloads(topics)
    held.admission.all_payloads({**dict([topics.popitem()]), TopicId("bank", "a"): [bytes(6)]})


def test_changed_rules_hold_at_once_and_removed_ones_no_more() -> None:
    held = Held(publish_messages_per_s=1)
    held.publish(1, 1)
    held.wait_s(1)

    held.declare(publish_messages_per_s=5)
    held.publish(*[1] * 5)
    held.declared.clear()
    for _ in range(100):
        held.publish(1)
    held.declare(publish_messages_per_s=1)
    held.publish(1)
    assert len(held.admission._rates) == 1


def test_rates_of_namespaces_that_are_gone_are_not_kept() -> None:
    held = Held()
    for number in range(10):
        held.declared.clear()
        name = f"n{number}"
        held.declared[name] = rules_of(NamespaceSettings(publish_bytes_per_s=1), LIMITS)
        held.publish(1, namespace=name)

    assert set(held.admission._rates) == {"n9"}


def test_a_ttl_is_the_namespaces_and_no_longer_than_its_longest() -> None:
    held = Held(ttl_s_default=60, ttl_s_max=100)

    assert held.admission.properties("shop", None) == (60, {})
    assert held.admission.properties("shop", {"ttl": 100, "a": "b"}) == (100, {"a": "b"})
    assert held.admission.properties("other", {"ttl": 101}) == (101, {})
    with pytest.raises(InvalidRequest) as error:
        held.admission.properties("shop", {"ttl": 101})
    assert code_of(error) == "ttl_over_namespace_limit"
    assert error.value.detail == {"namespace": "shop", "ttl": 101, "ttl_s_max": 100}


@given(
    st.integers(1, 50),
    st.lists(st.tuples(st.integers(0, 60), st.integers(0, 3_000)), min_size=1, max_size=60),
)
def test_a_rate_holds_on_the_average_and_a_wait_is_always_enough(
    per_s: int, publishes: list[tuple[int, int]]
) -> None:
    held = Held(publish_messages_per_s=per_s)
    taken: list[tuple[int, int]] = []
    for count, pause_ms in publishes:
        held.clock.advance(pause_ms)
        try:
            held.publish(*[1] * count)
        except RateExceeded as refused:
            held.clock.advance(refused.detail["retry_after_s"] * 1000)
            held.publish(*[1] * count)
        taken.append((held.clock.steady_ms(), count))

    for first in range(len(taken)):
        for last in range(first, len(taken)):
            # Any stretch allows its own share of the rate, plus one second's amount or one publish.
            counts = [count for _, count in taken[first : last + 1]]
            stretch_ms = taken[last][0] - taken[first][0]
            at_once = max(per_s * 1000, max(counts) * 1000)
            assert sum(counts) * 1000 <= at_once + per_s * stretch_ms
