"""Schedules under leaders whose calls come late, by the simulation of `leaders_schedules`."""

import pytest
from hypothesis import settings

from tables import schedule_table
from tables.schedule_table import ScheduleRows
from tables.sealing.tables import SealedScheduleTable
from tables.store import GROUP
from tests.scale import scaled
from tests.simulation.guards import SwitchOff, fails
from tests.simulation.leaders_schedules import ScheduleLeaders
from tms.core.values.batch import Batch
from tms.core.values.schedules import FIRST_PLACE, DuePlace, SchedulePage

TestScheduleLeaders = ScheduleLeaders.TestCase
TestScheduleLeaders.settings = settings(max_examples=scaled(30), stateful_step_count=30)


def tombstones(patch: pytest.MonkeyPatch) -> None:
    def cancel(rows: ScheduleRows, batch: Batch, place: DuePlace) -> None:
        rows._store.check_unanswered(GROUP, [rows._key(place)])
        batch.delete(GROUP, rows._key(place))

    patch.setattr(ScheduleRows, "cancel", cancel)


def watermark(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(schedule_table, "_watermark", lambda *_: (0, FIRST_PLACE))


def tokens(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(SealedScheduleTable, "_token", lambda _: 0)


def publications_as_one(patch: pytest.MonkeyPatch) -> None:
    """Publish a page, and move the watermark, by calls of which some may be carried out."""

    def publish(rows: ScheduleRows, batch: Batch, page: SchedulePage, through: DuePlace) -> None:
        batch.put(GROUP, rows._watermark, schedule_table._PLACE.pack(*through))
        batch.delete_rows(GROUP, page.keys)

    patch.setattr(ScheduleRows, "publish", publish)


@pytest.mark.slow
@pytest.mark.parametrize("switch_off", [tombstones, watermark, tokens, publications_as_one])
def test_without_a_guard_the_simulation_fails(
    monkeypatch: pytest.MonkeyPatch, switch_off: SwitchOff
) -> None:
    switch_off(monkeypatch)
    assert fails(ScheduleLeaders, 1), "nothing fails without it"
