"""Each guard of shards is needed: without it the simulation of `shards_machine` fails.

Those of requests over HTTP are in `tests/api/cluster/test_guards.py`, those of who leads in
`tests/cluster/test_sharing.py`.
"""

from collections.abc import Mapping
from contextlib import nullcontext

import pytest

from tests.simulation.guards import SwitchOff, fails
from tests.simulation.shards_machine import ShardsMachine
from tms.core.caller import ANYBODY, Caller
from tms.core.shards import OwnIds
from tms.core.topic import TopicId
from tms.server import sharded
from tms.sharding.messaging import ShardedMessaging

pytestmark = pytest.mark.slow


def a_topic_is_created_in_its_shard(patch: pytest.MonkeyPatch) -> None:
    """Have a server create a topic in a shard that it leads, because it was asked for it."""

    async def create_topic(
        self: ShardedMessaging,
        topic_id: TopicId,
        properties: Mapping[str, object] | None = None,
        *,
        caller: Caller = ANYBODY,
    ) -> None:
        own = self._sharding.shard_of(topic_id)
        shard = min(self._led) if self._led and own not in self._led else own
        await self._services[shard].create_topic(topic_id, properties, caller=caller)

    patch.setattr(ShardedMessaging, "create_topic", create_topic)


def ids_have_the_residue_of_their_shard(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(OwnIds, "first_from", lambda _, pointer: pointer)


def snapshots_are_of_their_shard(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(ShardedMessaging, "_read_by", lambda *_: nullcontext())


def lists_are_made_under_a_lease(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(sharded, "held", lambda place: place)


@pytest.mark.parametrize(
    ("switch_off", "first"),
    [
        (a_topic_is_created_in_its_shard, 1),
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
