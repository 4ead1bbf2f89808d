"""Servers claim leases and give them up depending on whether they reach the store."""

import math

from hypothesis import given
from hypothesis import strategies as st

from tests.cluster.hands import LEASE_S
from tms.cluster.lease import RENEWALS
from tms.cluster.reach import GIVEN_UP_LEASES, StoreReach

EVERY_S = LEASE_S / RENEWALS
LOOKS = st.lists(
    st.tuples(
        st.booleans(),  # whether it was answered
        st.sampled_from([0.01, EVERY_S]),  # how long it took
        st.one_of(
            st.just(0.0), st.just(0.0), st.floats(0, 100)
        ),  # how long the process was paused after that
        st.booleans(),  # whether another server then reports that it reaches the store
    ),
    max_size=30,
)


@given(LOOKS)
def test_what_looks_say(looks: list[tuple[bool, float, float, bool]]) -> None:
    reach, now_s = StoreReach(LEASE_S), 0.0
    failing: list[tuple[float, float]] = []
    """When each check of the current row of failures was sent and ended; a pause clears the row."""
    told_s: float | None = None
    """Since when another server is known to reach the store."""
    answered_s = -math.inf
    for is_answered, took_s, paused_s, is_told in looks:
        sent_s, now_s = now_s, now_s + took_s + paused_s
        if is_answered:
            reach.answered(sent_s, now_s)
            answered_s, failing, told_s = sent_s, [], None
        else:
            if paused_s > EVERY_S:
                failing, told_s = [], None
            reach.failed(sent_s, now_s)
            failing.append((sent_s if took_s + paused_s <= LEASE_S / 2 else now_s, now_s))
        gives_up = reach.hear(now_s, does_another_reach=is_told)

        assert reach.is_reached == (is_answered)
        assert reach.may_claim(now_s) == (now_s - answered_s <= LEASE_S)
        if not is_told or is_answered:
            told_s = None
        elif told_s is None:
            told_s = now_s
        if gives_up:
            # No check was answered for the time of a lease; the failures were reported one by one.
            assert failing
            assert now_s - failing[0][0] >= LEASE_S
            assert told_s is not None
            assert any(sent_s > told_s for sent_s, _ in failing)
        elif failing and not paused_s:
            is_new = told_s is None or failing[-1][0] <= told_s
            assert is_new or now_s - failing[0][0] < LEASE_S or len(failing) < RENEWALS
        now_s = max(now_s, sent_s + EVERY_S)


def test_who_gave_a_lease_up_claims_none_for_three_leases() -> None:
    reach = StoreReach(LEASE_S)
    reach.answered(0.0, 0.1)
    assert reach.may_claim(0.1)

    reach.give_up(1.0)
    for after_s in (0.0, LEASE_S, GIVEN_UP_LEASES * LEASE_S - 0.1):
        reach.answered(1.0 + after_s, 1.0 + after_s)
        assert not reach.may_claim(1.0 + after_s)

    reach.answered(31.0, 31.0)
    assert reach.may_claim(31.0)


def test_who_never_reached_the_store_claims_nothing() -> None:
    reach = StoreReach(LEASE_S)
    assert not reach.may_claim(0.0)
    reach.failed(0.0, 1.0)
    assert not reach.may_claim(1.0)


def test_a_store_that_is_back_for_others_first_costs_no_leader_its_place() -> None:
    """All lose the store at once; the others' checks are answered before the leader's next one."""
    reach = StoreReach(LEASE_S)
    reach.answered(0.0, 0.1)
    for sent_s in range(3, 60, 3):
        reach.failed(sent_s, sent_s + 2.5)
        assert not reach.hear(sent_s + 2.5, does_another_reach=False)

    assert not reach.hear(60.0, does_another_reach=True)
    reach.answered(60.5, 60.6)
    assert not reach.hear(61.0, does_another_reach=True)


def test_a_look_that_was_sent_at_the_very_moment_says_nothing_of_what_was_heard() -> None:
    """Both times are whole milliseconds, and a gateway that is down refuses at once."""
    reach = StoreReach(LEASE_S)
    for sent_s in range(0, 14, 2):
        reach.failed(sent_s, sent_s)

    assert not reach.hear(12.0, does_another_reach=True)
    reach.failed(14.0, 14.0)
    assert reach.hear(14.0, does_another_reach=True)
