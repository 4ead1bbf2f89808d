"""Servers that share shards with a simulated clock, and what goes wrong without their guards."""

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import replace

import pytest
from hypothesis import settings

from tests.cluster.shards_world import LEASE_S, MOVE_DELAY_S, SHARDS, Servers
from tests.cluster.sharing_machine import SETTLED_S, Sharing
from tests.scale import scaled
from tests.virtual_loop import VirtualClock, VirtualLoop
from tests.waiting import passes
from tms.cluster import suspicions
from tms.cluster.lease import LeaseRecord
from tms.cluster.member import Member
from tms.cluster.presence import Presence
from tms.cluster.shard_members import ShardMembers
from tms.cluster.suspicions import FIRST_S
from tms.core.errors import StoreUnavailable

TestSharing = Sharing.TestCase
TestSharing.settings = settings(max_examples=scaled(4), stateful_step_count=15)


async def one_that_soon_leaves_moves_nothing(servers: Servers) -> None:
    first, second = await servers.start(), await servers.start()
    await passes(SETTLED_S)
    turns = len(servers.turns)
    third = await servers.start()
    await passes(MOVE_DELAY_S / 2)
    servers.all.remove(third)
    await third.stop()
    await passes(SETTLED_S)
    assert servers.is_even(first, second)
    assert len(servers.turns) == turns


async def one_shard_moves_at_a_time(servers: Servers) -> None:
    first = await servers.start()
    await passes(SETTLED_S)
    second = await servers.start()
    second.opens_s = 2 * MOVE_DELAY_S
    for _ in range(int(2 * SETTLED_S / 0.05)):
        await passes(0.05)
        assert len(servers.leaders) >= SHARDS - 1
    assert servers.is_even(first, second)


async def the_shards_of_one_that_stops_are_served_at_once(servers: Servers) -> None:
    first, second, third = [await servers.start() for _ in range(3)]
    await passes(SETTLED_S)
    servers.all.remove(first)
    await first.stop()
    await passes(0.01)
    assert servers.is_even(second, third)


async def one_that_could_not_open_its_shards_gets_its_share_later(servers: Servers) -> None:
    first, second = await servers.start(), await servers.start()
    second.fault = StoreUnavailable(reason="a test")
    await passes(3 * LEASE_S)
    assert len(first.led) == SHARDS
    second.fault = None
    await passes(FIRST_S + SETTLED_S)
    assert servers.is_even(first, second)


async def a_shard_that_came_back_moves_to_another_server(servers: Servers) -> None:
    first = await servers.start()
    await passes(SETTLED_S)
    second = await servers.start()
    second.fault = StoreUnavailable(reason="a test")
    await passes(SETTLED_S)
    assert len(first.led) == SHARDS
    servers.all.remove(second)
    await second.stop()
    third = await servers.start()
    await passes(SETTLED_S)
    assert servers.is_even(first, third)


def shards_rest_whoever_is_to_lead_them(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(ShardMembers, "_target", lambda _, __: (0, 0))


def moves_are_delayed(patch: pytest.MonkeyPatch) -> None:
    may_move = ShardMembers._may_move
    patch.setattr(ShardMembers, "_may_move", lambda self, shard, _: may_move(self, shard, 1e9))


def all_are_served(patch: pytest.MonkeyPatch) -> None:
    give_back = ShardMembers._give_back

    def as_if_served(self: ShardMembers, seen: Mapping[int, LeaseRecord]) -> None:
        nobodys = [replace(record, holder=0) for record in seen.values()]
        known = {**dict.fromkeys(range(SHARDS), nobodys[0]), **seen} if nobodys else {}
        give_back(self, {n: replace(each, is_serving=True) for n, each in known.items()})

    patch.setattr(ShardMembers, "_give_back", as_if_served)


def others_are_told_before_it_stops(patch: pytest.MonkeyPatch) -> None:
    async def say_nothing(_: Presence) -> None:
        pass

    patch.setattr(Presence, "retire", say_nothing)


def who_is_to_lead_is_found_out_when_a_shard_is_free(patch: pytest.MonkeyPatch) -> None:
    may_claim = ShardMembers._may_claim

    def as_if_long_free(self: ShardMembers, shard: int, free_s: float) -> bool:
        return may_claim(self, shard, free_s or 1e-9)

    patch.setattr(ShardMembers, "_may_claim", as_if_long_free)


def suspicions_end(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(suspicions, "FIRST_S", 1e9)


def who_has_failed_lets_others_claim(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Member, "has_failed_last", False)


Story = Callable[[Servers], "asyncio.Future[None]"]
CASES = [
    (one_that_soon_leaves_moves_nothing, moves_are_delayed),
    (one_shard_moves_at_a_time, all_are_served),
    (the_shards_of_one_that_stops_are_served_at_once, others_are_told_before_it_stops),
    (
        the_shards_of_one_that_stops_are_served_at_once,
        who_is_to_lead_is_found_out_when_a_shard_is_free,
    ),
    (one_that_could_not_open_its_shards_gets_its_share_later, suspicions_end),
    (a_shard_that_came_back_moves_to_another_server, shards_rest_whoever_is_to_lead_them),
    (one_that_could_not_open_its_shards_gets_its_share_later, who_has_failed_lets_others_claim),
]


def tell(story: Story) -> None:
    """Run a story on servers with simulated time."""
    loop = VirtualLoop()
    servers = Servers(rest_s=600.0, clock=VirtualClock(loop))
    try:
        loop.run_until_complete(story(servers))
    finally:
        loop.run_until_complete(servers.close())
        loop.close()


@pytest.mark.parametrize("story", dict.fromkeys(story for story, _ in CASES))
def test_with_its_guard_a_story_ends_well(story: Story) -> None:
    tell(story)


@pytest.mark.parametrize(("story", "switch_off"), CASES)
def test_without_its_guard_a_story_fails(
    monkeypatch: pytest.MonkeyPatch,
    story: Story,
    switch_off: Callable[[pytest.MonkeyPatch], None],
) -> None:
    switch_off(monkeypatch)
    with pytest.raises(AssertionError):
        tell(story)
