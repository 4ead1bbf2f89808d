"""Servers that share shards: each shard has one leader, they share evenly, and few shards move."""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from tests.cluster.world import until
from tms.cluster import shard_members
from tms.cluster.instances import next_instance_id
from tms.cluster.lease import Lease
from tms.cluster.presence import Presence
from tms.cluster.shard_members import ShardMembers
from tms.core.cluster import Instance, Role, ShardStanding
from tms.core.errors import InvalidRequest, StoreCorrupt, StoreUnavailable
from tms.core.shards import Sharding
from tms.metadata.host import MetadataHost

pytestmark = pytest.mark.anyio

SHARDS = 4
LEASE_S = 0.5
MOVE_DELAY_S = 0.5


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shard_members, "SETTLING_S", 0.6)


class Servers:
    """The servers of a test, on one metadata store."""

    def __init__(self) -> None:
        self.host = MetadataHost()
        self.all: list[Server] = []
        self.turns: list[tuple[int, int]] = []
        """Each shard that came to be led, and by whom."""

    async def start(self) -> "Server":
        session = self.host.open_session()
        server = Server(self, await next_instance_id(session))
        self.all.append(server)
        await server.members.open(server.lead, server.hear)
        return server

    @property
    def leaders(self) -> dict[int, int]:
        return {shard: each.id for each in self.all for shard in each.led}

    def is_even(self, *among: "Server") -> bool:
        counts = Counter(self.leaders.values())
        numbers = [counts[each.id] for each in among]
        return sum(numbers) == SHARDS and max(numbers) - min(numbers) <= 1

    async def close(self) -> None:
        for server in self.all:
            await server.stop()


class Server:
    """One server. Asserts that it leads nothing that another leads."""

    def __init__(self, servers: Servers, number: int) -> None:
        self.servers = servers
        self.id = number
        self.session = servers.host.open_session()
        self.led: dict[int, Lease] = {}
        self.heard: dict[int, str | None] = {}
        self.damaged: set[int] = set()
        self.reaches = True
        instance = Instance(id=number, address=f"http://{number}", version="1", since_ms=1)
        presence = Presence(self.session, instance, lease_s=LEASE_S, look=self.look)
        self.members = ShardMembers(
            presence, Sharding(SHARDS), of_store="s", move_delay_s=MOVE_DELAY_S
        )

    def look(self) -> None:
        if not self.reaches:
            raise StoreUnavailable(reason="a test")

    def hear(self, shard: int, address: str | None, _: str) -> None:
        self.heard[shard] = address

    @asynccontextmanager
    async def lead(self, shard: int, lease: Lease) -> AsyncIterator[None]:
        if shard in self.damaged:
            raise StoreCorrupt(reason="a test")
        for other in self.servers.all:
            if other is not self and shard in other.led:
                assert other.led[shard].left_s == 0, (shard, other.id, self.id)
        self.led[shard] = lease
        self.servers.turns.append((shard, self.id))
        try:
            yield
        finally:
            del self.led[shard]

    async def die(self) -> None:
        """Go as a killed process does: nothing is given back, the session stays for a while."""
        self.reaches = False
        tasks = [each._running for each in self.members._members]
        tasks += [self.members._presence.watch._watching, self.members._sharing]
        for task in tasks:
            assert task is not None
            task.cancel()
        for member in self.members._members:
            if member._holding is not None:
                member._holding._is_over = True
                member._holding._is_due.set()
        self.servers.all.remove(self)

    async def stop(self) -> None:
        await self.members.close()
        await self.session.close()


@pytest.fixture
async def servers(anyio_backend: str) -> AsyncIterator[Servers]:
    servers = Servers()
    yield servers
    await servers.close()


async def settled(servers: Servers, *among: Server) -> None:
    await until(lambda: servers.is_even(*among))


async def test_servers_started_together_share_and_nothing_moves(servers: Servers) -> None:
    first, second = await servers.start(), await servers.start()
    await settled(servers, first, second)
    await asyncio.sleep(2 * MOVE_DELAY_S)
    assert len(servers.turns) == SHARDS
    for server in (first, second):
        state = await server.members.state()
        assert state.role is Role.LEADER
        assert {each.shard: each.leader for each in state.shards} == servers.leaders
        assert {each.state for each in state.shards} == {ShardStanding.SERVING}
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

    await first.stop()
    servers.all.remove(first)
    await settled(servers, second)


async def test_the_shards_of_one_that_dies_are_shared_by_the_others(servers: Servers) -> None:
    first, second, third = [await servers.start() for _ in range(3)]
    await settled(servers, first, second, third)
    turns = len(servers.turns)
    lost = len(first.led)
    await first.die()
    await settled(servers, second, third)
    assert len(servers.turns) == turns + lost
    await asyncio.sleep(2 * MOVE_DELAY_S)
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
    assert await first.members.wish({shard: None}) == {}
    with pytest.raises(InvalidRequest) as refused:
        await first.members.wish({shard: 77})
    assert refused.value.problem.code == "invalid_wish"


async def test_a_wish_for_who_cannot_open_the_shard_is_tried_once(servers: Servers) -> None:
    first, second = await servers.start(), await servers.start()
    await settled(servers, first, second)
    shard = next(iter(first.led))
    second.damaged.add(shard)
    await second.members.wish({shard: second.id})
    await until(lambda: shard not in first.led)
    await until(lambda: shard in first.led)
    turns = [each for each in servers.turns if each[0] == shard]
    await asyncio.sleep(4 * LEASE_S)
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
