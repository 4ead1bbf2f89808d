"""Servers stop and start, lose connections and sessions, at random.

Some do not reach the store for a while. At every moment at most one server holds the lease with its
services open, and tokens only grow; in the end the only server that reaches the store leads. A
failure names the seed.
"""

import asyncio
import random

import pytest

from tests.cluster.world import LEASE_S, Server, World
from tests.scale import scaled, seed
from tests.waiting import passes, until
from tms.core.errors import NoLeader

pytestmark = pytest.mark.anyio

SERVERS = 3
STEPS = 25


def could_write(world: World) -> list[Server]:
    return [server for server in world.open if server.lease is not None and server.lease.left_s > 0]


async def watch(world: World) -> None:
    """Keep writing with every server that can."""
    while True:
        assert len(could_write(world)) <= 1
        for server in list(world.open):
            try:
                server.write()
            except NoLeader:
                continue
        await passes(0.002)


async def do_something(world: World, dice: random.Random, running: list[Server]) -> None:
    server = dice.choice(running)
    host, session = world.host, server.session
    match dice.choice(("cut", "expire", "mend", "stop", "start", "wait", "blind", "blind", "see")):
        case "cut" if session.is_connected:
            host.disconnect(session)
        case "expire" if session.number in host._sessions:
            await host.expire(session)
        case "mend" if not session.is_connected:
            host.reconnect(session)
        case "stop" if len(running) > 1 and session.is_connected:
            running.remove(server)
            await server.stop()
        case "blind":
            server.reaches = False
        case "see":
            server.reaches = True
        case "start" if len(running) < SERVERS:
            running.append(await world.server())
    await passes(dice.uniform(0, 2 * LEASE_S))


@pytest.mark.parametrize("number", range(scaled(15)))
async def test_one_at_most_can_write_whatever_happens(world: World, number: int) -> None:
    dice = random.Random(seed() + number)
    running = [await world.server() for _ in range(SERVERS)]
    await until(lambda: world.open)
    watching = asyncio.create_task(watch(world))
    for _ in range(STEPS):
        await do_something(world, dice, running)
        assert not watching.done(), watching.exception()
    for server in running:
        if not server.session.is_connected:
            world.host.reconnect(server.session)
    if len(running) == 1:
        running.append(await world.server())
    only = dice.choice([server for server in running if not server.is_open] or running)
    for server in running:
        server.reaches = server is only
    await until(lambda: could_write(world) == [only] == world.open)
    only.write()
    assert not watching.done(), watching.exception()
    watching.cancel()
    assert world.writers == sorted(world.writers)
    assert len(set(world.writers)) > 1
