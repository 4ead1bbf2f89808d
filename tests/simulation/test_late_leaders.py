"""Leaders whose calls come late, by the simulation of `leaders_machine`."""

from hypothesis import settings

from tests.scale import scaled
from tests.simulation.leaders_machine import LeadersMachine

TestLeaders = LeadersMachine.TestCase
TestLeaders.settings = settings(
    max_examples=scaled(60),
    stateful_step_count=40,
)
