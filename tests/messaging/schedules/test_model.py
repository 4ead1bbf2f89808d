"""Whatever fails, a scheduled message is published once, when it is due, or cancelled."""

from hypothesis import Phase, settings

from tests.messaging.schedules.schedule_machine import Elsewhere, OnLevelDB, OnMemory
from tests.scale import scaled

# A failing example is not shrunk: each step may recover a service, which takes minutes.
SETTINGS = settings(
    max_examples=scaled(30), stateful_step_count=30, phases=[Phase.explicit, Phase.generate]
)

TestOnMemory = OnMemory.TestCase
TestOnMemory.settings = SETTINGS

TestElsewhere = Elsewhere.TestCase
TestElsewhere.settings = SETTINGS

TestOnLevelDB = OnLevelDB.TestCase
TestOnLevelDB.settings = SETTINGS
