"""Schedules under leaders whose calls come late, by the simulation of `leaders_schedules`."""

import pytest
from hypothesis import settings

from tables.schedule_table import ScheduleRows
from tables.store import GROUP
from tests.scale import scaled
from tests.simulation.guards import SwitchOff, fails
from tests.simulation.leaders_schedules import ScheduleLeaders
from tms.core.values.batch import Batch
from tms.core.values.schedules import DuePlace

TestScheduleLeaders = ScheduleLeaders.TestCase
TestScheduleLeaders.settings = settings(max_examples=scaled(30), stateful_step_count=30)


def tombstones(patch: pytest.MonkeyPatch) -> None:
    def cancel(rows: ScheduleRows, batch: Batch, place: DuePlace) -> None:
        rows._store.check_unanswered(GROUP, [rows._key(place)])
        batch.delete(GROUP, rows._key(place))

    patch.setattr(ScheduleRows, "cancel", cancel)


@pytest.mark.slow
@pytest.mark.parametrize("switch_off", [tombstones])
def test_without_a_guard_the_simulation_fails(
    monkeypatch: pytest.MonkeyPatch, switch_off: SwitchOff
) -> None:
    switch_off(monkeypatch)
    assert fails(ScheduleLeaders, 1), "nothing fails without it"
