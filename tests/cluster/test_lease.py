"""How long a holder may act by its own clock, and how long the others wait by theirs."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.cluster.hands import LEASE_S, Hands
from tests.manual_clock import ManualClock
from tms.cluster.lease import Lease, LeaseRecord, Sighting, SteadySeconds
from tms.core.errors import NoLeader, StoreUnavailable
from tms.core.runtime.clock import KeyTime, SystemClock
from tms.core.runtime.trusted_clock import TrustedClock

RECORD = LeaseRecord(token=1, holder=1, address="http://a", store="s", lease_s=LEASE_S, fence_s=5.0)


def test_a_lease_counts_from_when_a_renewal_was_sent() -> None:
    clock = Hands(100.0)
    lease = Lease(1, LEASE_S, clock, sent_s=98.0)
    assert lease.left_s == 8.0
    clock.s = 107.9
    lease.check()
    clock.s = 108.0
    with pytest.raises(NoLeader):
        lease.check()

    lease.renewed(sent_s=107.0)
    lease.check()
    assert lease.left_s == 9.0
    lease.end()
    lease.renewed(sent_s=108.0)
    with pytest.raises(NoLeader):
        lease.check()


def test_one_that_is_suspended_waits_for_a_renewal_that_was_sent_since() -> None:
    lease = Lease(1, LEASE_S, Hands(), sent_s=0.0)
    before = lease.suspensions
    lease.suspend()
    assert lease.left_s == 0.0
    lease.renewed(0.0, 0, before)
    with pytest.raises(NoLeader):
        lease.check()

    lease.renewed(0.0, 0, lease.suspensions)
    lease.check()


def test_one_that_is_lost_is_over_and_tells() -> None:
    lease = Lease(1, LEASE_S, Hands(), sent_s=0.0)
    told: list[float] = []
    lease.on_lost.append(lambda: told.append(lease.left_s))
    lease.lose()
    lease.renewed(0.0)

    assert told == [0.0]
    with pytest.raises(NoLeader):
        lease.check()


def test_keys_are_given_up_to_the_ceiling_which_renewals_move_on() -> None:
    lease = Lease(2, LEASE_S, Hands(), 0.0, keys_after_ms=100, keys_until_ms=500)
    lease.give_keys(500)
    with pytest.raises(StoreUnavailable):
        lease.give_keys(501)

    asked_ms = lease.ceiling_ms(now_ms=50)
    assert asked_ms == 501 + 10_001
    lease.renewed(0.0, asked_ms)
    lease.give_keys(501)
    assert lease.last_given_ms == 501
    lease.renewed(1.0, 3)
    assert lease.keys_until_ms == asked_ms


def test_one_that_gave_no_keys_gives_back_the_ceiling_before_it() -> None:
    lease = Lease(2, LEASE_S, Hands(), 0.0, keys_after_ms=100, keys_until_ms=50_000)

    assert lease.last_given_ms == 101


@given(
    times=st.lists(st.integers(0, 2_000), min_size=1, max_size=8),
    after_ms=st.integers(0, 1_000),
    until_ms=st.integers(0, 1_000),
)
def test_the_time_of_keys_is_within_what_the_lease_allows(
    times: list[int], after_ms: int, until_ms: int
) -> None:
    until_ms += after_ms + 1
    lease = Lease(1, LEASE_S, Hands(), 0.0, keys_after_ms=after_ms, keys_until_ms=until_ms)
    clock = ManualClock(0)
    time = KeyTime(clock, lease)
    for now_ms in times:
        clock.set(now_ms)
        assert after_ms < time.now_ms() <= lease.keys_until_ms
        if after_ms < now_ms <= until_ms:
            assert time.now_ms() == now_ms
    assert time.steady_ms() == clock.steady_ms()


def test_one_that_was_given_back_is_free_and_needs_no_wait() -> None:
    sighting = Sighting(Hands())
    released = LeaseRecord(
        token=1, holder=1, address="", store="s", lease_s=1.0, fence_s=5.0, is_released=True
    )

    assert sighting.has_expired(released)
    assert sighting.claim_wait_s(released) == 0
    assert sighting.claim_wait_s(None) == 0
    assert sighting.claim_wait_s(RECORD) == 5.0


def test_the_clock_continues() -> None:
    clock = SteadySeconds(SystemClock())
    assert clock.now_s() <= clock.now_s()


def test_time_in_which_nobody_looked_says_nothing_of_the_leader() -> None:
    clock = Hands()
    sighting = Sighting(clock)
    for clock.s in (0.0, 4.0, 8.0):
        sighting.see((1, 1), LEASE_S)
    clock.s = 30.0  # the store was unreachable, or this process was paused
    sighting.see((1, 1), LEASE_S)
    assert not sighting.has_expired(RECORD)
    for clock.s in (34.0, 38.0):
        sighting.see((1, 1), LEASE_S)
        sighting.see(None, LEASE_S)
        assert not sighting.has_expired(RECORD)
    for clock.s in (40.9, 41.1):
        sighting.see((1, 1), LEASE_S)
    assert sighting.has_expired(RECORD)

    sighting.restart()
    sighting.see((1, 1), LEASE_S)
    assert not sighting.has_expired(RECORD)


DAY_MS = 86_400_000


@pytest.mark.parametrize(
    ("wall_ms", "how", "times_ms"),
    [
        # The last renewal was seen as it arrived, 4 s ago: any other difference is a clock step.
        (30 * DAY_MS, "timed", (4_000, 4_000, 4_000)),
        (-30 * DAY_MS, "timed", (4_000, -30 * DAY_MS, -30 * DAY_MS)),
        (30_000, "timed", (30_000, 30_000, 30_000)),
        # Nobody knows for how long there was no leader, so this is like a start after a stop.
        (30 * DAY_MS, "not timed", (30 * DAY_MS, 30 * DAY_MS, 0)),
        (3_600_000, "not timed", (3_600_000, 3_600_000, 3_600_000)),
        (-30 * DAY_MS, "not timed", (0, -30 * DAY_MS, -30 * DAY_MS)),
        # The leader was of a version that does not publish its time.
        (30 * DAY_MS, "not told", (30 * DAY_MS, 30 * DAY_MS, 30 * DAY_MS)),
    ],
)
def test_the_time_continues_from_that_of_the_leader_before(
    wall_ms: int, how: str, times_ms: tuple[int, int, int]
) -> None:
    """`times_ms`: the trusted, expiry and deletion time, since the leader renewed its lease."""
    began_ms = 1_800_000_000_000
    hands = Hands()
    sighting = Sighting(hands)
    sighting.see((1, 1), LEASE_S)
    if how != "not timed":
        hands.s += 2.0
        sighting.see((1, 2), LEASE_S)
        hands.s += 4.0
        sighting.see((1, 2), LEASE_S)
    time = TrustedClock(ManualClock(began_ms + wall_ms))

    sighting.set_time(time, replace(RECORD, time_ms=0 if how == "not told" else began_ms))

    found = (time.now_ms(), time.expiry_ms(), time.deletion_ms())
    assert found == tuple(began_ms + each for each in times_ms)
    assert time.keys_ms() == began_ms + max(times_ms[0], wall_ms)


@given(
    offset_s=st.floats(-1e6, 1e6),
    rate=st.floats(1 / 1.04, 1.04),
    renewals=st.lists(
        st.tuples(st.floats(0, 12), st.floats(0, 5), st.floats(0, 5)), min_size=1, max_size=20
    ),
    late_s=st.floats(0, 30),
)
def test_who_sees_it_run_out_is_never_early(
    offset_s: float, rate: float, renewals: list[tuple[float, float, float]], late_s: float
) -> None:
    """Renewals reach the store and the other server, which has its own clock, with delays."""
    clock, other = Hands(), Hands(offset_s)
    lease = Lease(1, LEASE_S, clock, sent_s=0.0)
    sighting = Sighting(other)
    seen_by_s = 0.0
    for version, (pause_s, to_store_s, to_other_s) in enumerate(renewals):
        sent_s = clock.s = clock.s + pause_s
        clock.s += to_store_s
        lease.renewed(sent_s)
        seen_by_s = max(seen_by_s, clock.s + to_other_s)
        other.s = offset_s + seen_by_s * rate
        sighting.see((1, version), LEASE_S)
    looks = int(late_s / (LEASE_S / 4)) + 1
    for look in range(looks + 1):
        clock.s = seen_by_s + late_s * look / looks
        other.s = offset_s + clock.s * rate
        sighting.see((1, version), LEASE_S)

    if sighting.has_expired(RECORD):
        assert lease.left_s == 0
    elif late_s > LEASE_S * 1.2:
        raise AssertionError("it is never taken over")
