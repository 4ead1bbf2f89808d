"""A day in the life of a store, on machines that sleep, pause or restart each hour.

Messages live for five hours of true time. None expires sooner or later, unless the machine cannot
know the time.
"""

import asyncio
import logging
from collections.abc import Callable
from dataclasses import replace

import pytest

from tests.cleanup.twins import LIMITS, NOW_MS, Twin
from tests.contracts.invalid_contract import _timeouts_by_hand  # noqa: F401  a fixture
from tests.manual_clock import ManualClock
from tms.core.values.topic import TopicId

TOPIC = TopicId("ns", "t")
MINUTE, HOUR = 60_000, 3_600_000
TTL_H = 5
HOURS = 15


class Machine:
    """A store, and the true time."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self.clock = ManualClock(NOW_MS)
        self.true_ms = NOW_MS
        self.twin = Twin(loop, self.clock, replace(LIMITS, clock_hold_s=3_600))
        self.twin.await_(self.twin.services.messaging.create_topic(TOPIC, {"ttl": TTL_H * 3_600}))

    def runs(self, ms: int) -> None:
        self.clock.advance(ms)
        self.true_ms += ms
        self.twin.services.engine.clock.now_ms()  # the mark's timer reads the clock like this

    def suspends(self, ms: int) -> None:
        self.clock.advance(ms)
        self.true_ms += ms

    def is_paused(self, ms: int) -> None:
        """Pause the machine, for which no time passes; then its wall is set right."""
        self.clock.step(ms)
        self.true_ms += ms

    def starts_again(self, ms: int, wall_ms: int | None, *, boots: bool = True) -> None:
        """Start after `ms` without power; the wall has a battery, or starts at `wall_ms`."""
        self.twin.put_mark()
        self.twin.crash()
        self.suspends(ms)
        if boots:
            self.clock.reboot()
        if wall_ms is not None:
            self.clock.step(wall_ms - self.clock.now_ms())
        self.twin.open()
        self.runs(30_000)
        self.clock.step(self.true_ms - self.clock.now_ms())  # NTP corrects a wrong wall
        self.twin.services.engine.clock.now_ms()


def laptop(machine: Machine) -> None:
    machine.suspends(50 * MINUTE)
    machine.runs(10 * MINUTE)


def laptop_with_a_flat_battery(machine: Machine) -> None:
    machine.starts_again(50 * MINUTE, None)
    machine.runs(10 * MINUTE)


def container(machine: Machine) -> None:
    machine.starts_again(5_000, None, boots=False)
    machine.runs(HOUR - 35_000)


def board_without_a_battery(machine: Machine) -> None:
    machine.starts_again(50 * MINUTE, 0)
    machine.runs(10 * MINUTE)


def board_that_has_the_time_of_its_stop(machine: Machine) -> None:
    machine.starts_again(50 * MINUTE, machine.clock.now_ms())
    machine.runs(10 * MINUTE)


def virtual_machine(machine: Machine) -> None:
    machine.is_paused(2 * MINUTE)
    machine.runs(HOUR - 2 * MINUTE)


Schedule = Callable[[Machine], None]


@pytest.mark.parametrize(
    ("schedule", "late_ms", "warnings"),
    [
        (laptop, 0, 0),
        (laptop_with_a_flat_battery, 0, 0),
        (container, 0, 0),
        (board_that_has_the_time_of_its_stop, 0, 0),
        (board_without_a_battery, 0, 2),
        # Each pause is in doubt for an hour, so the clock is 30 minutes behind after a night of
        # pauses.
        (virtual_machine, HOURS * 2 * MINUTE, None),
    ],
)
@pytest.mark.usefixtures("_timeouts_by_hand")
def test_messages_live_for_their_time(
    schedule: Schedule, late_ms: int, warnings: int | None, caplog: pytest.LogCaptureFixture
) -> None:
    loop = asyncio.new_event_loop()
    machine = Machine(loop)
    published: dict[bytes, int] = {}
    ids: list[bytes] = []
    for hour in range(HOURS):
        with caplog.at_level(logging.WARNING, logger="tms.core.runtime.trusted_clock"):
            schedule(machine)
        payload = b"%d" % hour
        machine.twin.await_(machine.twin.services.messaging.publish(TOPIC, [payload]))
        published[payload] = machine.true_ms
        machine.twin.clean()
        found = machine.twin.await_(machine.twin.polled(TOPIC))
        ages = {each: machine.true_ms - at for each, at in published.items()}
        young = [each for each, age_ms in ages.items() if age_ms <= TTL_H * HOUR]
        shown = [each for _, each in found]
        assert shown[-len(young) :] == young, "none goes sooner"
        assert all(ages[each] <= TTL_H * HOUR + late_ms for each in shown), "and none later"
        ids += [id_ for id_, each in found if each == payload]
    machine.twin.close()
    loop.close()

    assert ids == sorted(set(ids))
    assert len(ids) == HOURS
    told = [each for each in caplog.records if each.name == "tms.core.runtime.trusted_clock"]
    if warnings is not None:
        assert len(told) == warnings * HOURS
