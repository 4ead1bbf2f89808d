"""Each guard of shards is needed: without it the simulation of `shards_machine` fails.

The guards of requests over HTTP are in `tests/api/cluster/test_guards.py`, and the guards of the
leaders in `tests/cluster/test_sharing.py`.
"""

import pytest

from tests.simulation.guards import SwitchOff, fails
from tests.simulation.shards_machine import ShardsMachine
from tms.core.values.shards import OwnIds
from tms.server import sharded
from tms.transactions.journal import TransactionJournal

pytestmark = pytest.mark.slow


def ids_have_the_residue_of_their_shard(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(OwnIds, "first_from", lambda _, pointer: pointer)


def snapshots_are_of_their_shard(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(TransactionJournal, "check_here", lambda *_: None)


def lists_are_made_under_a_lease(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(sharded, "held", lambda place: place)


@pytest.mark.parametrize(
    ("switch_off", "first"),
    [
        (ids_have_the_residue_of_their_shard, 1),
        (snapshots_are_of_their_shard, 1),
        (lists_are_made_under_a_lease, 2),
    ],
)
def test_without_a_guard_the_simulation_fails(
    monkeypatch: pytest.MonkeyPatch, switch_off: SwitchOff, first: int
) -> None:
    switch_off(monkeypatch)
    assert fails(ShardsMachine, first), "nothing fails without it"
