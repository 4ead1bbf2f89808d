"""A store with a single shard: servers take turns under the lease of the store, as before shards.

Servers of earlier versions have nothing but a `Member` of that lease.
"""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from tests.cluster.shards_world import LEASE_S, MOVE_DELAY_S, Servers
from tests.waiting import passes, until
from tms.cluster.holding import LEASE
from tms.cluster.instances import next_instance_id
from tms.cluster.lease import RENEWALS, Lease
from tms.cluster.member import Member
from tms.cluster.presence import Presence
from tms.cluster.shard_members import MoveCause
from tms.core.errors import StoreCorrupt
from tms.core.services.cluster import Instance, Role, ShardStanding

pytestmark = pytest.mark.anyio


@pytest.fixture
async def servers(anyio_backend: object) -> AsyncIterator[Servers]:
    servers = Servers(rest_s=600.0, shards=1)
    yield servers
    await servers.close()


class Earlier:
    """A server of an earlier version."""

    def __init__(self, servers: Servers, number: int) -> None:
        self.id = number
        instance = Instance(id=number, address=f"http://{number}", version="0", since_ms=1)
        presence = Presence(
            servers.host.open_session(),
            instance,
            lease_s=LEASE_S,
            look=lambda: None,
            time=servers.clock,
        )
        self.member = Member(presence, of_store="s")
        self.leads = False

    @asynccontextmanager
    async def lead(self, _: Lease) -> AsyncIterator[None]:
        self.leads = True
        yield
        self.leads = False

    async def open(self) -> None:
        await self.member.open(self.lead, lambda *_: None)


async def test_one_leads_at_once_and_another_when_it_stops(servers: Servers) -> None:
    began_ms = servers.clock.now_ms()
    first = await servers.start()
    await until(lambda: servers.leaders == {0: first.id})
    assert servers.clock.now_ms() - began_ms < LEASE_S * 1000 / RENEWALS, "it waits for nothing"
    assert await first.session.get(LEASE) is not None
    assert await first.session.get("/cluster/shards/0/lease") is None
    second = await servers.start()
    await passes(2 * MOVE_DELAY_S)
    for server, role in ((first, Role.LEADER), (second, Role.STANDBY)):
        state = await server.members.state()
        assert (state.id, state.role) == (server.id, role)
        assert (state.leader, state.token, state.by, state.shards) == (first.id, 1, None, ())
        assert server.members.count(ShardStanding.SERVING) == 1

    await first.stop()
    servers.all.remove(first)
    await until(lambda: servers.leaders == {0: second.id})
    assert (await second.members.state()).token == 2
    assert servers.moves == {MoveCause.STOPPED: 1}


async def test_the_lead_passes_to_an_earlier_version_and_back(servers: Servers) -> None:
    new = await servers.start()
    await until(lambda: servers.leaders == {0: new.id})
    old = Earlier(servers, await next_instance_id(new.session))
    await old.open()
    await new.stop()
    servers.all.remove(new)
    await until(lambda: old.leads)

    later = await servers.start()
    state = await later.members.state()
    assert (state.leader, state.token) == (old.id, 2)
    await until(lambda: later.heard == {0: f"http://{old.id}"})
    await old.member.close()
    await until(lambda: servers.leaders == {0: later.id})
    assert (await later.members.state()).token == 3


async def test_one_that_dies_is_followed_when_its_lease_has_run_out(servers: Servers) -> None:
    first, second = await servers.start(), await servers.start()
    await until(lambda: len(servers.leaders) == 1)
    leader, other = (first, second) if first.led else (second, first)
    await leader.die()
    await until(lambda: servers.leaders == {0: other.id})
    assert servers.moves == {MoveCause.RAN_OUT: 1}


async def test_one_that_others_do_not_reach_gives_the_lead_back(servers: Servers) -> None:
    first = await servers.start()
    await until(lambda: servers.leaders == {0: first.id})
    second, _ = await servers.start(), await servers.start()
    servers.hidden.add(first.id)
    await until(lambda: servers.leaders.get(0, first.id) != first.id)
    servers.hidden.clear()
    assert second.members.count(ShardStanding.SERVING) == 1


async def test_a_damaged_store_is_tried_again(servers: Servers) -> None:
    servers.sick[0] = StoreCorrupt(reason="a test")
    first = await servers.start()
    await until(lambda: first.members._members[0].failure is not None)
    servers.sick.clear()
    await until(lambda: servers.leaders == {0: first.id})
