"""Each guard of groups that leaders hand on is needed: without it their simulation fails.

The rules of members have stories of their own, in `tests/messaging/groups/test_rules.py`.
"""

from types import SimpleNamespace
from typing import Any

import pytest

from tables.group_table import StoreGroupLog
from tables.sealing.groups import SealedGroupTable
from tests.simulation.guards import SwitchOff, fails
from tests.simulation.leaders_groups import GroupLeaders
from tms.messaging.groups import commands, edits
from tms.messaging.groups.takes import Takes
from tms.messaging.groups.writes import CarriedAcks

pytestmark = pytest.mark.slow


def rows_by_token(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(SealedGroupTable, "_token", lambda *_: 0)


def a_snapshot_under_the_own_token(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(StoreGroupLog, "is_own", True)


def the_lease_at_takes(patch: pytest.MonkeyPatch) -> None:
    begin = Takes.__init__

    def without(self: Takes, *given: Any) -> None:
        begin(self, *given)
        self._engine = SimpleNamespace(lease=None)  # type: ignore[assignment]

    patch.setattr(Takes, "__init__", without)


def the_check_within_the_flush(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(CarriedAcks, "check", lambda *_: None)


def what_is_read_stands_first_in_a_row(patch: pytest.MonkeyPatch) -> None:
    encode_row = edits.encode_row
    patch.setattr(commands, "encode_row", lambda edits: encode_row(sorted(edits, reverse=True)))


@pytest.mark.parametrize(
    ("switch_off", "first"),
    [
        (rows_by_token, 4),
        (a_snapshot_under_the_own_token, 1),
        (the_lease_at_takes, 1),
        (the_check_within_the_flush, 1),
        (what_is_read_stands_first_in_a_row, 1),
    ],
)
def test_without_a_guard_the_simulation_of_groups_fails(
    monkeypatch: pytest.MonkeyPatch, switch_off: SwitchOff, first: int
) -> None:
    switch_off(monkeypatch)
    assert fails(GroupLeaders, first), "nothing fails without it"
