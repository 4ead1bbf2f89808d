"""Servers whose session breaks while they start wait for the metadata store."""

import asyncio

import pytest

from tests.cluster.shards_world import Server as SharingServer
from tests.cluster.shards_world import Servers
from tests.cluster.world import FENCE_S, LEASE_S, Server, WallOfItsOwn, World
from tests.waiting import passes, until

pytestmark = pytest.mark.anyio


async def test_a_server_whose_session_breaks_while_it_starts_waits(world: World) -> None:
    session = world.host.open_session()
    wall = WallOfItsOwn(world.clock, 0)
    server = Server(world, session, await world.next_id(), "s", FENCE_S, wall)
    world.servers.append(server)
    world.host.disconnect(session)
    opening = asyncio.create_task(server.member.open(server.lead, server.hear))
    await passes(3 * LEASE_S)
    assert not opening.done()
    world.host.reconnect(session)
    await opening
    await until(lambda: server.is_open)


async def test_one_that_shares_shards_waits_too(anyio_backend: object) -> None:
    servers = Servers()
    server = SharingServer(servers, 1)
    servers.all.append(server)
    await servers.host.expire(server.session)
    opening = asyncio.create_task(server.members.open(server.lead, server.hear))
    await passes(3 * LEASE_S)
    assert not opening.done()
    servers.host.reconnect(server.session)
    await opening
    await until(lambda: servers.is_even(server))
    await servers.close()
