"""Leaders whose calls come late, by the simulation of `leaders_machine`.

The clock of a leader may pause with its machine, in the middle of any request
(`Mode.STANDS_STILL`). With the fence switched off (`test_guards.fence`) this fails within seconds,
whatever the seed: messages that the earlier leader acknowledged are missing.
"""

from hypothesis import settings

from tests.scale import scaled
from tests.simulation.leaders_machine import LeadersMachine

TestLeaders = LeadersMachine.TestCase
TestLeaders.settings = settings(
    max_examples=scaled(60),
    stateful_step_count=40,
)
