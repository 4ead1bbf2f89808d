"""Groups under leaders whose calls come late, by the simulation of `leaders_groups`."""

from hypothesis import settings

from tests.scale import scaled
from tests.simulation.leaders_groups import GroupLeaders

TestGroupLeaders = GroupLeaders.TestCase
TestGroupLeaders.settings = settings(max_examples=scaled(30), stateful_step_count=30)
