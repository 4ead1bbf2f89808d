"""Schedules under leaders whose calls come late, by the simulation of `leaders_schedules`."""

from hypothesis import settings

from tests.scale import scaled
from tests.simulation.leaders_schedules import ScheduleLeaders

TestScheduleLeaders = ScheduleLeaders.TestCase
TestScheduleLeaders.settings = settings(max_examples=scaled(30), stateful_step_count=30)
