"""What the holder of a lease may do by its clock, and what the others wait for by theirs."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tms.cluster.lease import BootClock, Lease, LeaseRecord, Sighting
from tms.core.errors import NoLeader

LEASE_S = 10.0
RECORD = LeaseRecord(token=1, holder=1, address="http://a", store="s", lease_s=LEASE_S, fence_s=5.0)


class Hands:
    """A clock that is set by hand."""

    def __init__(self, now_s: float = 0.0) -> None:
        self.s = now_s

    def now_s(self) -> float:
        return self.s


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


def test_one_that_was_given_back_is_free_and_needs_no_wait() -> None:
    sighting = Sighting(Hands())
    released = LeaseRecord(
        token=1, holder=1, address="", store="s", lease_s=1.0, fence_s=5.0, is_released=True
    )

    assert sighting.has_run_out(released)
    assert sighting.claim_wait_s(released) == 0
    assert sighting.claim_wait_s(None) == 0
    assert sighting.claim_wait_s(RECORD) == 5.0


def test_the_clock_goes_on() -> None:
    clock = BootClock()
    assert clock.now_s() <= clock.now_s()


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
    """Renewals reach the store and the other server after some time each; his clock is his own."""
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
        sighting.see(1, version)
    clock.s = seen_by_s + late_s
    other.s = offset_s + clock.s * rate

    if sighting.has_run_out(RECORD):
        assert lease.left_s == 0
