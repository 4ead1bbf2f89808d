"""Leaders whose calls come late, by the simulation of `leaders_machine`.

The clock of a leader may pause with its machine, within whatever it does
(`Mode.STANDS_STILL`). With the fence switched off (`test_guards.fence`) this fails within seconds,
whatever the seed: what the earlier leader has acknowledged is not there.
"""

from hypothesis import settings

from tests.scale import scaled
from tests.simulation.leaders_machine import LeadersMachine

TestLeaders = LeadersMachine.TestCase
TestLeaders.settings = settings(
    max_examples=scaled(60),
    stateful_step_count=40,
)
