"""Servers that share shards: each shard has one leader, they share evenly, and few shards move."""

from collections.abc import AsyncIterator

import pytest

from tests.cluster.shards_world import LEASE_S, MOVE_DELAY_S, SHARDS, Server, Servers
from tests.waiting import passes, until
from tms.cluster.shard_members import MoveCause
from tms.core.cluster import Role, ShardStanding
from tms.core.errors import InvalidRequest

pytestmark = pytest.mark.anyio


@pytest.fixture
async def servers(anyio_backend: object) -> AsyncIterator[Servers]:
    servers = Servers()
    yield servers
    await servers.close()


async def settled(servers: Servers, *among: Server) -> None:
    await until(lambda: servers.is_even(*among))


async def test_servers_started_together_share_and_nothing_moves(servers: Servers) -> None:
    first, second = await servers.start(), await servers.start()
    await settled(servers, first, second)
    await passes(2 * MOVE_DELAY_S)
    assert len(servers.turns) == SHARDS
    for server in (first, second):
        state = await server.members.state()
        assert state.role is Role.LEADER
        assert {each.shard: each.leader for each in state.shards} == servers.leaders
        assert {each.state for each in state.shards} == {ShardStanding.SERVING}
        assert server.members.count(ShardStanding.SERVING) == SHARDS
        others = {shard: f"http://{who}" for shard, who in servers.leaders.items()}
        told = {shard: address for shard, address in server.heard.items() if address}
        assert told == {
            shard: address for shard, address in others.items() if shard not in server.led
        }


async def test_one_that_joins_gets_its_share_and_one_that_stops_gives_its_own_back(
    servers: Servers,
) -> None:
    first = await servers.start()
    await settled(servers, first)
    second = await servers.start()
    await settled(servers, first, second)
    assert len(servers.turns) == SHARDS + SHARDS // 2, "only what was needed moved"
    assert servers.moves == {MoveCause.BALANCE: SHARDS // 2}

    await first.stop()
    servers.all.remove(first)
    await settled(servers, second)
    stopped = SHARDS - SHARDS // 2
    assert servers.moves == {MoveCause.BALANCE: SHARDS // 2, MoveCause.STOPPED: stopped}


async def test_one_that_comes_and_goes_gets_its_share_each_time(servers: Servers) -> None:
    servers.rest_s = 600.0
    first = await servers.start()
    await settled(servers, first)
    for _ in range(2):
        second = await servers.start()
        await settled(servers, first, second)
        await second.stop()
        servers.all.remove(second)
        await settled(servers, first)


async def test_the_shards_of_one_that_dies_are_shared_by_the_others(servers: Servers) -> None:
    first, second, third = [await servers.start() for _ in range(3)]
    await settled(servers, first, second, third)
    turns = len(servers.turns)
    lost = len(first.led)
    await first.die()
    await settled(servers, second, third)
    assert len(servers.turns) == turns + lost
    assert servers.moves[MoveCause.RAN_OUT] == lost
    await passes(2 * MOVE_DELAY_S)
    assert len(servers.turns) == turns + lost, "nothing moves to who is dead"


async def test_a_wish_counts_until_it_is_taken_back(servers: Servers) -> None:
    first, second = await servers.start(), await servers.start()
    await settled(servers, first, second)
    shard = next(iter(first.led))
    assert await second.members.wish({shard: second.id}) == {shard: second.id}
    await until(lambda: servers.leaders.get(shard) == second.id)
    await settled(servers, first, second)
    state = await first.members.state()
    assert state.shards[shard].wish == second.id
    assert servers.moves[MoveCause.WISH] == 1
    assert await first.members.wish({shard: None}) == {}
    with pytest.raises(InvalidRequest) as refused:
        await first.members.wish({shard: 77})
    assert refused.value.problem.code == "invalid_wish"


async def test_a_wish_for_who_cannot_open_the_shard_is_tried_once(servers: Servers) -> None:
    servers.rest_s = 60.0
    first, second = await servers.start(), await servers.start()
    await settled(servers, first, second)
    shard = next(iter(first.led))
    second.damaged.add(shard)
    await second.members.wish({shard: second.id})
    await until(lambda: shard not in first.led)
    await until(lambda: shard in first.led)
    turns = [each for each in servers.turns if each[0] == shard]
    await passes(4 * LEASE_S)
    assert [each for each in servers.turns if each[0] == shard] == turns
    assert servers.leaders[shard] == first.id
    assert set(servers.leaders) == set(range(SHARDS))


async def test_one_that_does_not_reach_the_store_leads_nothing(servers: Servers) -> None:
    first, second = await servers.start(), await servers.start()
    await settled(servers, first, second)
    first.reaches = False
    await settled(servers, second)
    assert not first.led
    first.reaches = True
    await settled(servers, first, second)
