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


def test_what_a_failed_flush_wrote_is_published_though_nothing_else_waits() -> None:
    machine = OnMemory()
    machine.begin()
    machine.schedule_some(count=1, delay_s=0, dies=None)
    machine.pass_time(by_ms=5_000, dies=None)

    machine.schedule_some(count=1, delay_s=0, dies="after")

    machine.teardown()
