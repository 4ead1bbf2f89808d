"""A clock that steps, compared with rules C9 and C10, and when it warns."""

import math

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from tests.manual_clock import ManualClock
from tms.core.errors import ClockMoved
from tms.core.runtime.clock import SessionTime
from tms.core.runtime.trusted_clock import TrustedClock

S, MINUTE, HOUR, DAY = 1_000, 60_000, 3_600_000, 86_400_000
NOW_MS = 1_800_000_000_000
STEPS = [
    sign * ms for sign in (1, -1) for ms in (S, 59 * S, 61 * S, 5 * MINUTE, 26 * HOUR, 400 * DAY)
]
PASSES = (200, 10 * S, 59 * MINUTE, 61 * MINUTE)


class Spec:
    """A model of a clock: the wall's offset to true time, and how much of it is believed."""

    def __init__(self) -> None:
        self.wall = self.trusted = 0
        self.stepped_at: int | None = None
        self.doubted = 0
        """The wall's offset after its last step."""
        self.unset_until = 0.0
        """Up to this time the wall may still be unset after a start."""

    def look(self, steady: int) -> None:
        is_near = abs(self.wall - self.trusted) <= MINUTE
        is_set = steady < self.unset_until and self.wall > self.trusted
        if is_near or is_set:
            was_right = is_near and self.stepped_at is None
            self.unset_until = self.unset_until if was_right else 0
            self.trusted, self.stepped_at = self.wall, None
        elif self.stepped_at is None or abs(self.wall - self.doubted) > MINUTE:
            self.stepped_at, self.doubted = steady, self.wall
        elif steady - self.stepped_at >= HOUR:
            self.trusted, self.stepped_at, self.unset_until = self.wall, None, 0


class TimeMachine(RuleBasedStateMachine):
    """Time passes, the wall steps, the process and the machine stop and start."""

    @initialize()
    def begin(self) -> None:
        self.source = ManualClock(NOW_MS)
        self.clock = TrustedClock(self.source)
        self.spec, self.true, self.last_step = Spec(), 0, 0
        self.session, self.session_from = SessionTime(self.clock), NOW_MS
        self.session_true = 0

    def _look(self) -> None:
        self.spec.look(self.source.steady_ms())
        # Like polls, before anything else has read the wall clock.
        earlier = min(self.spec.trusted, self.spec.wall)
        assert self.clock.expiry_ms() == NOW_MS + self.true + earlier
        self.clock.now_ms()

    @rule(ms=st.sampled_from(PASSES))
    def time_passes(self, ms: int) -> None:
        self.source.advance(ms)
        self.true += ms
        self._look()

    @rule(ms=st.sampled_from(STEPS))
    def the_wall_steps(self, ms: int) -> None:
        self.source.step(ms)
        self.spec.wall += ms
        self.last_step = self.true
        self._look()

    @rule()
    def the_wall_comes_back(self) -> None:
        self.the_wall_steps(-self.spec.wall)

    @rule()
    def somebody_accepts(self) -> None:
        told, in_doubt_s = self.clock.state().step_s, self.clock.state().in_doubt_s
        assert in_doubt_s is not None or self.spec.stepped_at is None
        if in_doubt_s is None:
            with pytest.raises(ClockMoved):
                self.clock.accept(told)
            return
        with pytest.raises(ClockMoved):
            self.clock.accept(told + 61)
        self.clock.accept(told)
        self.spec.trusted, self.spec.stepped_at = self.spec.wall, None
        self.spec.unset_until = 0

    @rule(stop_ms=st.sampled_from((0, *PASSES, 3 * DAY)), lost_ms=st.sampled_from((0, MINUTE)))
    def the_process_stops_and_starts(self, stop_ms: int, lost_ms: int) -> None:
        """Restart the process in the same boot: its mark may be a minute old."""
        steady, trusted = self.source.steady_ms() - lost_ms, self.clock.now_ms() - lost_ms
        if self.spec.stepped_at is None:
            trusted = NOW_MS + self.true + self.spec.trusted - lost_ms
        self.source.advance(stop_ms)
        self.true += stop_ms
        self.clock = TrustedClock(self.source)
        self.clock.start_after(trusted, self.source.boot_id, steady)
        self.spec.stepped_at, self.spec.unset_until = None, 0
        self._look()
        self.last_step = self.true if self.spec.stepped_at is not None else self.last_step
        self._new_session()

    @rule(stop_ms=st.sampled_from((0, *PASSES, 3 * DAY)))
    def the_machine_starts_again(self, stop_ms: int) -> None:
        trusted, boot, steady = self.clock.now_ms(), self.source.boot_id, self.source.steady_ms()
        self._other_machine(stop_ms)
        self.clock.start_after(trusted, boot, steady)
        self._has_started(trusted)

    @rule(
        stop_ms=st.sampled_from((0, *PASSES)),
        ms=st.sampled_from((0, *STEPS)),
        is_timed=st.booleans(),
    )
    def another_takes_over(self, stop_ms: int, ms: int, *, is_timed: bool) -> None:
        """Start on a machine with its own wall (`tms.cluster.lease.Sighting.set_time`)."""
        trusted = self.clock.now_ms()
        self._other_machine(stop_ms)
        self.source.step(ms)
        self.spec.wall += ms
        self.clock = TrustedClock(self.source)
        if is_timed:
            self.clock.go_on_from(trusted + stop_ms)
            self._has_started(trusted + stop_ms, believes_ahead=False)
        else:
            self.clock.start_after(trusted, "", 0)
            self._has_started(trusted)

    @rule()
    def the_mark_is_lost(self) -> None:
        self.clock = TrustedClock(self.source)
        self._has_started(-1)

    def _other_machine(self, stop_ms: int) -> None:
        self.source.advance(stop_ms)
        self.true += stop_ms
        self.source.reboot()
        self.clock = TrustedClock(self.source)

    def _has_started(self, trusted: int, *, believes_ahead: bool = True) -> None:
        """Record the time that it continues from; a wall clock behind that is never believed."""
        self.spec.stepped_at = None
        self.spec.unset_until = 0
        ahead_ms = self.source.now_ms() - trusted
        if ahead_ms < -MINUTE or (ahead_ms > MINUTE and not believes_ahead):
            self.spec.trusted = trusted - NOW_MS - self.true
            self.spec.unset_until = math.inf if believes_ahead else 0
        else:
            self.spec.trusted = self.spec.wall
            if believes_ahead and ahead_ms <= MINUTE:
                self.spec.unset_until = 10 * MINUTE
        self._look()
        self.last_step = self.true if self.spec.stepped_at is not None else self.last_step
        self._new_session()

    def _new_session(self) -> None:
        self.session, self.session_from = SessionTime(self.clock), self.clock.now_ms()
        self.session_true = self.true

    @invariant()
    def it_says_what_it_should(self) -> None:
        trusted, wall = self.clock.candidates()
        assert wall == NOW_MS + self.true + self.spec.wall
        assert trusted == NOW_MS + self.true + self.spec.trusted
        assert (self.clock.state().in_doubt_s is None) == (self.spec.stepped_at is None) or (
            self.clock.state().held == ("deletion",)
        )

    @invariant()
    def c9_a_doubt_ends_an_hour_after_the_last_step(self) -> None:
        if self.true - self.last_step >= HOUR:
            assert self.spec.stepped_at is None
            assert self.clock.now_ms() == self.source.now_ms()

    @invariant()
    def c10_the_order_of_the_times(self) -> None:
        clock = self.clock
        assert clock.deletion_ms() <= clock.expiry_ms() <= clock.now_ms() <= clock.keys_ms()
        assert self.session.now_ms() == self.session_from + self.true - self.session_true
