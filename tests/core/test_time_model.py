"""A clock that steps, against what is said of it: C9 and C10 of its rules, and when it warns."""

import logging
from collections.abc import Callable

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from tms.core.clock import ManualClock, SessionTime
from tms.core.errors import ClockMoved
from tms.core.trusted_clock import TrustedClock

S, MINUTE, HOUR, DAY = 1_000, 60_000, 3_600_000, 86_400_000
NOW_MS = 1_800_000_000_000
STEPS = [
    sign * ms for sign in (1, -1) for ms in (S, 59 * S, 61 * S, 5 * MINUTE, 26 * HOUR, 400 * DAY)
]
PASSES = (200, 10 * S, 59 * MINUTE, 61 * MINUTE)


class Spec:
    """What a clock should say: the wall's offset to true time, and what of it is believed."""

    def __init__(self) -> None:
        self.wall = self.trusted = 0
        self.stepped_at: int | None = None
        self.doubted = 0
        """The wall's offset when it stepped last."""

    def look(self, steady: int) -> None:
        if abs(self.wall - self.trusted) <= MINUTE:
            self.trusted, self.stepped_at = self.wall, None
        elif self.stepped_at is None or abs(self.wall - self.doubted) > MINUTE:
            self.stepped_at, self.doubted = steady, self.wall
        elif steady - self.stepped_at >= HOUR:
            self.trusted, self.stepped_at = self.wall, None


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

    @rule(stop_ms=st.sampled_from((0, *PASSES, 3 * DAY)), lost_ms=st.sampled_from((0, MINUTE)))
    def the_process_stops_and_starts(self, stop_ms: int, lost_ms: int) -> None:
        """In the same boot: its mark may be a minute old."""
        steady, trusted = self.source.steady_ms() - lost_ms, self.clock.now_ms() - lost_ms
        if self.spec.stepped_at is None:
            trusted = NOW_MS + self.true + self.spec.trusted - lost_ms
        self.source.advance(stop_ms)
        self.true += stop_ms
        self.clock = TrustedClock(self.source)
        self.clock.start_after(trusted, self.source.boot_id, steady)
        self.spec.stepped_at = None
        self._look()
        self.last_step = self.true if self.spec.stepped_at is not None else self.last_step
        self._new_session()

    @rule(stop_ms=st.sampled_from((0, *PASSES, 3 * DAY)))
    def the_machine_starts_again(self, stop_ms: int) -> None:
        trusted, boot, steady = self.clock.now_ms(), self.source.boot_id, self.source.steady_ms()
        self.source.advance(stop_ms)
        self.true += stop_ms
        self.source.reboot()
        self.clock = TrustedClock(self.source)
        self.clock.start_after(trusted, boot, steady)
        behind_ms = trusted - self.source.now_ms()
        self.spec.stepped_at = None
        if behind_ms > MINUTE:
            self.spec.trusted = trusted - NOW_MS - self.true
        else:
            self.spec.trusted = self.spec.wall
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


TimeMachine.TestCase.settings = settings(max_examples=200, stateful_step_count=30, deadline=None)
TestTime = TimeMachine.TestCase

Act = Callable[[ManualClock], None]


def _reboot(clock: ManualClock) -> None:
    clock.reboot()


RIGHT: dict[str, Act] = {
    "an hour": lambda clock: clock.advance(HOUR),
    "a month": lambda clock: clock.advance(30 * DAY),
    "a reboot": _reboot,
    "slewed": lambda clock: clock.step(-500),
}


@pytest.mark.parametrize("lost_ms", [0, MINUTE])
@pytest.mark.parametrize("first", RIGHT)
@pytest.mark.parametrize("second", RIGHT)
def test_without_a_wrong_clock_nobody_is_warned(
    first: str, second: str, lost_ms: int, caplog: pytest.LogCaptureFixture
) -> None:
    """Whatever starts, stops, sleeps and reboots, in all orders; hourly, as a laptop does."""
    source = ManualClock(NOW_MS)
    clock = TrustedClock(source)
    with caplog.at_level(logging.WARNING):
        for _ in range(3):
            for act in (RIGHT[first], RIGHT[second]):
                mark = clock.now_ms(), source.boot_id, source.steady_ms()
                source.advance(lost_ms)
                act(source)
                clock = TrustedClock(source)
                clock.start_after(*mark)
                assert clock.now_ms() == clock.expiry_ms() == source.now_ms()
                source.advance(HOUR)
                assert clock.now_ms() == clock.deletion_ms() == source.now_ms()
    assert not caplog.records
    assert clock.steps == 0


def test_a_doubt_is_told_once_when_it_begins_and_once_when_it_ends(
    caplog: pytest.LogCaptureFixture,
) -> None:
    source = ManualClock(NOW_MS)
    clock = TrustedClock(source)
    with caplog.at_level(logging.WARNING):
        for step_ms in (8 * DAY, -400 * DAY):
            source.step(step_ms)
            for _ in range(40):
                clock.now_ms()
                source.advance(MINUTE)
        for _ in range(40):
            clock.now_ms()
            source.advance(MINUTE)
    assert len(caplog.records) == 2
    assert clock.now_ms() == source.now_ms()


def test_after_a_start_far_ahead_only_deletion_waits() -> None:
    """A machine that was off for long, or one whose clock is wrong: nobody can tell."""
    source = ManualClock(NOW_MS)
    clock = TrustedClock(source)
    clock.start_after(NOW_MS - 30 * DAY, "another boot", 7)

    assert clock.now_ms() == clock.expiry_ms() == clock.keys_ms() == NOW_MS
    assert clock.deletion_ms() == NOW_MS - 30 * DAY
    assert clock.state().held == ("deletion",)
    source.advance(HOUR - 1)
    assert clock.deletion_ms() == NOW_MS - 30 * DAY + HOUR - 1
    source.advance(1)
    assert clock.deletion_ms() == NOW_MS + HOUR


def test_a_clock_that_is_unset_at_boot_holds_nothing_up_once_it_is_set() -> None:
    source = ManualClock(NOW_MS)
    source.set(0)
    clock = TrustedClock(source)
    clock.start_after(NOW_MS, "another boot", 7)

    assert (clock.now_ms(), clock.keys_ms(), clock.expiry_ms()) == (NOW_MS, NOW_MS, 0)
    source.step(NOW_MS + 30 * S)
    assert clock.now_ms() == source.now_ms() == clock.expiry_ms()
    assert clock.state().in_doubt_s is None


@pytest.mark.parametrize("step_ms", STEPS)
def test_no_hold_believes_each_step_at_once(step_ms: int) -> None:
    source = ManualClock(NOW_MS)
    clock = TrustedClock(source, hold_s=0)
    source.step(step_ms)

    assert clock.candidates() == (NOW_MS + step_ms, NOW_MS + step_ms)


def test_what_is_forgotten_keeps_keys_above_it() -> None:
    clock = TrustedClock(ManualClock(NOW_MS))
    clock.keep_keys_from(NOW_MS + DAY)

    assert (clock.now_ms(), clock.keys_ms()) == (NOW_MS, NOW_MS + DAY)
