"""Servers that share shards: each shard has one leader, they share evenly, and few shards move."""

from collections.abc import AsyncIterator

import pytest

from tests.cluster.shards_world import LEASE_S, MOVE_DELAY_S, SHARDS, Server, Servers
from tests.cluster.sharing_machine import SICK
from tests.waiting import passes, until
from tms.cluster.shard_members import MoveCause
from tms.core.errors import InvalidRequest, StoreCorrupt
from tms.core.services.cluster import Role, ShardStanding

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


@pytest.mark.parametrize("fault", SICK)
async def test_a_shard_that_nobody_can_open_holds_no_other_up(
    servers: Servers, fault: Exception
) -> None:
    servers.rest_s = 600.0
    servers.sick[1] = fault
    first = await servers.start()
    await until(lambda: len(first.led) == SHARDS - 1)
    second = await servers.start()
    await settled(servers, first, second)
    third = await servers.start()
    await settled(servers, first, second, third)

    shard = next(iter(first.led))
    await second.members.wish({shard: second.id})
    await until(lambda: servers.leaders.get(shard) == second.id)
    await settled(servers, first, second, third)
    state = await third.members.state()
    assert [each.state for each in state.shards].count(ShardStanding.SERVING) == SHARDS - 1


@pytest.mark.parametrize("fault", SICK)
async def test_servers_that_start_together_share_all_but_a_shard_that_nobody_can_open(
    servers: Servers, fault: Exception
) -> None:
    servers.rest_s = 600.0
    servers.sick[0] = fault
    all_three = [await servers.start() for _ in range(3)]
    await settled(servers, *all_three)

    servers.sick.clear()
    if isinstance(fault, StoreCorrupt):
        await all_three[0].members.wish({0: all_three[0].id})
    await settled(servers, *all_three)


async def test_servers_say_which_shards_they_could_not_open(servers: Servers) -> None:
    first = await servers.start()
    await settled(servers, first)
    assert servers.sick.setdefault(2, SICK[0])
    await first.stop()
    servers.all.remove(first)
    second = await servers.start()

    async def are_reported(*shards: int) -> bool:
        state = await second.members.state()
        return [each.unopened_shards for each in state.instances] == [shards]

    await until(lambda: are_reported(2))
    servers.sick.clear()
    await second.members.wish({2: second.id})
    await until(are_reported)
    await settled(servers, second)


async def test_a_server_that_the_others_cannot_reach_leads_nothing(servers: Servers) -> None:
    first, second, third = [await servers.start() for _ in range(3)]
    await settled(servers, first, second, third)
    servers.hidden.add(third.id)
    await settled(servers, first, second)
    for server in (first, second, third):
        await until(server.members.findings)
        [finding] = server.members.findings()
        assert finding.where == f"server {third.id}"
        assert f"http://{third.id}" in finding.text
    assert (await third.members.state()).instances[0].unreached_servers == (third.id,)
    await passes(4 * LEASE_S)
    assert not third.led

    servers.hidden.clear()
    await settled(servers, first, second, third)
    assert not first.members.findings()


async def test_a_link_that_is_cut_moves_nothing(servers: Servers) -> None:
    first, second, third = [await servers.start() for _ in range(3)]
    await settled(servers, first, second, third)
    turns = len(servers.turns)
    servers.cut = {(first.id, second.id), (second.id, first.id)}
    await until(lambda: first.members._presence.peers.unreached == 1)
    await passes(4 * LEASE_S + MOVE_DELAY_S)
    assert len(servers.turns) == turns


async def test_servers_that_all_do_not_reach_each_other_continue(servers: Servers) -> None:
    first, second = await servers.start(), await servers.start()
    await settled(servers, first, second)
    turns = len(servers.turns)
    servers.hidden = {first.id, second.id}
    await until(lambda: second.members._presence.peers.unreached == 1)
    await passes(4 * LEASE_S + MOVE_DELAY_S)
    assert len(servers.turns) == turns
