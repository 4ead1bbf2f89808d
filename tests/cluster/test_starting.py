"""A server whose session breaks while it starts waits for the metadata store."""

import asyncio
from contextlib import AsyncExitStack

import pytest

from tests.api.security.secured import rule_of
from tests.cluster.shards_world import Server as SharingServer
from tests.cluster.shards_world import Servers
from tests.cluster.world import FENCE_S, LEASE_S, Server, WallOfItsOwn, World, clock_of_loop
from tests.waiting import passes, turns, until
from tms.metadata.host import MetadataHost
from tms.security.resources import Action
from tms.server.security_part import read_security
from tms.settings import Settings

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


async def test_what_security_asks_waits_too(anyio_backend: object) -> None:
    host = MetadataHost(clock=clock_of_loop())
    clock = host.clock
    for steps in range(12):
        session = host.open_session()
        files = read_security(Settings(auth="required", superusers="root"), clock)
        assert files is not None
        async with AsyncExitStack() as stack:
            opening = asyncio.create_task(files.open(stack, session, 1))
            await turns(steps)
            host.disconnect(session)
            await passes(3 * LEASE_S)
            host.reconnect(session)
            security = await opening
            assert security.sealer is not None
            assert security.sealer.seal(None, "GET", "/", b"", target="", body=b"", boot="")
            rule = await security.access.grants.add_rule(rule_of("a", Action.PUBLISH))
            assert rule in security.access.grants.rules
        await session.close()
