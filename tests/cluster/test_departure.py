"""The last server of a cluster to stop frees the store, whatever the order and timing."""

import asyncio
from itertools import permutations

import pytest

from tests.cluster.world import LEASE_S, Server, World
from tests.waiting import passes, turns, until
from tms.cluster import departure

pytestmark = pytest.mark.anyio


async def three(world: World) -> list[Server]:
    """Return three servers; the first one leads."""
    servers = [await world.server() for _ in range(3)]
    await until(lambda: len(world.open) == 1)
    [leader] = world.open
    return sorted(servers, key=lambda each: each is not leader)


@pytest.mark.parametrize("apart", [0, 1, 3, 10, 50])
@pytest.mark.parametrize("order", list(permutations(range(3))))
async def test_servers_that_stop_together_free_the_store(
    world: World, order: tuple[int, ...], apart: int
) -> None:
    servers = await three(world)
    stopping = []
    for number in order:
        stopping.append(asyncio.create_task(servers[number].stop()))
        await turns(apart)
    await asyncio.gather(*stopping)
    assert not world.marks


async def test_a_leader_that_needs_long_to_close_frees_the_store(world: World) -> None:
    leader, *others = await three(world)
    leader.may_close.clear()
    stopping = [asyncio.create_task(each.member.close()) for each in (leader, *others)]
    await passes(LEASE_S / 2)
    assert world.marks
    leader.may_close.set()
    await asyncio.gather(*stopping)
    assert not world.marks


async def test_a_store_that_another_server_leads_is_not_freed(world: World) -> None:
    leader, second, third = await three(world)
    await asyncio.gather(leader.stop(), second.stop())
    await until(lambda: third.is_open)
    assert third.lease is not None
    assert world.marks == {third.lease.token}
    leader.free(third.lease.token - 1)
    assert world.marks


async def test_a_store_whose_leader_died_is_freed_by_the_last_one(world: World) -> None:
    leader, second, third = await three(world)
    world.host.disconnect(leader.session)
    await world.host.expire(leader.session)
    await asyncio.gather(second.stop(), third.stop())
    assert not world.marks


async def test_without_the_last_look_the_store_is_not_freed(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def nobody(*_: object) -> bool:
        return False

    monkeypatch.setattr(departure, "is_last", nobody)
    servers = await three(world)
    await servers[0].stop()
    await until(lambda: len(world.open) == 1)
    leader = world.open[0]
    stopping = asyncio.create_task(leader.stop())
    await until(lambda: not world.open)
    await asyncio.gather(stopping, *(each.stop() for each in servers[1:] if each is not leader))
    assert world.marks
