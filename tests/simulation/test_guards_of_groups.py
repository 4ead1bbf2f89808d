"""Each guard of groups is needed: without it a model fails.

The rules of members by the model of a group, what is written and read again by that of a service,
and what is there for later leaders by the simulation of those.
"""

from typing import Any

import pytest
from hypothesis.stateful import RuleBasedStateMachine

from tables.group_table import StoreGroupLog
from tables.sealing.groups import SealedGroupTable
from tests.messaging.groups.group_machine import ByKey as RulesByKey
from tests.messaging.groups.group_machine import Unordered as Rules
from tests.messaging.groups.rules_off import without_floor, without_refusal, without_release_behind
from tests.messaging.groups.stores_of_groups import ByKey, Unordered
from tests.simulation.guards import SwitchOff, fails
from tests.simulation.leaders_groups import GroupLeaders
from tms.cluster.lease import Lease
from tms.core.groups import Refusal
from tms.messaging.groups.commands import GroupCommands
from tms.messaging.groups.edits import ReadEdit
from tms.messaging.groups.loaded import LoadedGroups
from tms.messaging.groups.writes import CarriedAcks

pytestmark = pytest.mark.slow


def read_before_settled(patch: pytest.MonkeyPatch) -> None:
    """Leave what was read to the next row."""
    do, take_row = GroupCommands._do, GroupCommands.take_row

    def apart(self: GroupCommands, edit: Any, now_ms: int) -> None:
        do(self, edit, now_ms)
        if isinstance(edit, ReadEdit):
            later = vars(self).setdefault("_later", [])
            later.append(self._edits.pop())

    def row_without(self: GroupCommands) -> bytes | None:
        row = take_row(self)
        self._edits, self._later = vars(self).get("_later", []), []
        return row

    patch.setattr(GroupCommands, "_do", apart)
    patch.setattr(GroupCommands, "take_row", row_without)


def check_within_the_flush(patch: pytest.MonkeyPatch) -> None:
    """Look at a commit's acks when it is asked for."""
    init, check = CarriedAcks.__init__, CarriedAcks.check

    def checked(self: CarriedAcks, *given: Any) -> None:
        init(self, *given)
        check(self, ())

    patch.setattr(CarriedAcks, "__init__", checked)
    patch.setattr(CarriedAcks, "check", lambda *_: None)


def acks_in_the_commits_own_flush(patch: pytest.MonkeyPatch) -> None:
    """Acknowledge once the commit is durable, with the next flush."""
    add_rows = CarriedAcks.add_rows
    patch.setattr(CarriedAcks, "add_rows", lambda *_: None)
    patch.setattr(CarriedAcks, "on_durable", lambda self: add_rows(self, None, 0))


def reading_again_after_a_failure(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(LoadedGroups, "flush_failed", lambda _: None)


def tokens_of_rows(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(SealedGroupTable, "_token", lambda *_: 0)


def snapshot_under_the_leaders_token(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(StoreGroupLog, "is_own", True)


def lease_at_a_take(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Lease, "check", lambda _: None)


@pytest.mark.parametrize(
    ("switch_off", "machine", "first"),
    [
        (without_refusal(Refusal.EARLIER_OPEN), RulesByKey, 1),
        (without_refusal(Refusal.LEASE_LOST), Rules, 1),
        (without_release_behind, RulesByKey, 1),
        (without_floor, Rules, 1),
        (read_before_settled, Rules, 1),
        (read_before_settled, Unordered, 1),
        (reading_again_after_a_failure, ByKey, 1),
        (acks_in_the_commits_own_flush, Unordered, 1),
        (acks_in_the_commits_own_flush, GroupLeaders, 1),
        (check_within_the_flush, GroupLeaders, 1),
        (tokens_of_rows, GroupLeaders, 1),
        (snapshot_under_the_leaders_token, GroupLeaders, 1),
        (lease_at_a_take, GroupLeaders, 1),
    ],
)
def test_without_a_guard_of_groups_a_model_fails(
    monkeypatch: pytest.MonkeyPatch,
    switch_off: SwitchOff,
    machine: type[RuleBasedStateMachine],
    first: int,
) -> None:
    switch_off(monkeypatch)
    assert fails(machine, first), "nothing fails without it"
