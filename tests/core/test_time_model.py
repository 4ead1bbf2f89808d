"""A clock that steps, compared with rules C9 and C10, and when it warns."""

import logging
from collections.abc import Callable

import pytest
from hypothesis import settings

from tests.core.time_machine import DAY, HOUR, MINUTE, NOW_MS, STEPS, S, TimeMachine
from tests.manual_clock import ManualClock
from tests.scale import scaled
from tms.core.runtime.trusted_clock import TrustedClock

TimeMachine.TestCase.settings = settings(max_examples=scaled(200), stateful_step_count=30)
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
    """Whatever starts, stops, sleeps and reboots, in any order, at intervals of an hour."""
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


def test_a_doubt_is_reported_once_when_it_begins_and_once_when_it_ends(
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
    """Nobody can distinguish a machine that was off for long from one with a wrong clock."""
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
