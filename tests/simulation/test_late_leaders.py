"""Leaders whose calls come late, by the simulation of `leaders_machine`."""

from hypothesis import settings

from tests.simulation.leaders_machine import LeadersMachine

TestLeaders = LeadersMachine.TestCase
TestLeaders.settings = settings(
    max_examples=int(__import__("os").environ.get("EX", "60")),
    stateful_step_count=40,
    deadline=None,
)
