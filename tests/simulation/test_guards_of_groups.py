"""Each guard of groups is needed: without it a model fails.

The simulation of leaders shows this for the state that leaders hand on, the model of one group for
the rules of members, and the model of a service for stored state.
`tests/messaging/groups/test_rules.py` also has a story for each rule.
"""

from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis.stateful import RuleBasedStateMachine

from tables.group_table import StoreGroupLog
from tables.hbase.fence import Fence
from tables.sealing.groups import SealedGroupTable
from tests.messaging.groups import group_machine, stores_of_groups
from tests.messaging.groups.rules_off import without_floor, without_refusal, without_release_behind
from tests.simulation.guards import SwitchOff, fails
from tests.simulation.leaders_groups import GroupLeaders
from tms.core.values.groups import Refusal
from tms.messaging.groups import commands, edits
from tms.messaging.groups.takes import Takes
from tms.messaging.groups.writes import CarriedAcks

pytestmark = pytest.mark.slow


def rows_by_token(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(SealedGroupTable, "_token", lambda *_: 0)


def fence(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Fence, "check", lambda _: None)


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


def acks_in_the_flush_of_their_commit(patch: pytest.MonkeyPatch) -> None:
    """Write the acks with the next flush, once the commit is durable."""
    add_rows = CarriedAcks.add_rows
    patch.setattr(CarriedAcks, "add_rows", lambda *_: None)
    patch.setattr(CarriedAcks, "on_durable", lambda self: add_rows(self, None, 0))  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("switch_off", "first"),
    [
        (fence, 1),
        (rows_by_token, 4),
        (a_snapshot_under_the_own_token, 1),
        (the_lease_at_takes, 1),
        (the_check_within_the_flush, 1),
        (what_is_read_stands_first_in_a_row, 1),
        (acks_in_the_flush_of_their_commit, 1),
    ],
)
def test_without_a_guard_the_simulation_of_groups_fails(
    monkeypatch: pytest.MonkeyPatch, switch_off: SwitchOff, first: int
) -> None:
    switch_off(monkeypatch)
    assert fails(GroupLeaders, first), "nothing fails without it"


@pytest.mark.parametrize(
    ("switch_off", "machine", "first"),
    [
        (without_refusal(Refusal.EARLIER_OPEN), group_machine.ByKey, 5),
        (without_refusal(Refusal.LEASE_LOST), group_machine.Unordered, 1),
        (without_release_behind, group_machine.ByKey, 4),
        (without_floor, group_machine.ByKey, 3),
        (what_is_read_stands_first_in_a_row, group_machine.Unordered, 4),
        (what_is_read_stands_first_in_a_row, stores_of_groups.Unordered, 1),
        (acks_in_the_flush_of_their_commit, stores_of_groups.Unordered, 1),
    ],
)
def test_without_a_rule_of_groups_their_model_fails(
    monkeypatch: pytest.MonkeyPatch,
    switch_off: SwitchOff,
    machine: type[RuleBasedStateMachine],
    first: int,
) -> None:
    switch_off(monkeypatch)
    assert fails(machine, first), "nothing fails without it"
