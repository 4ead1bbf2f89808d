"""HBase's own processes are killed with -9 under load, and its regions split and moved.

What was acknowledged is there, once, in order; no reader is given a gap that fills later. How long
nobody was acknowledged anything is logged at the end of each test (`-rP` shows it).
"""

import asyncio
import logging
import random
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from functools import partial

import pytest

import tms.aio
from dev.hbase.regions import change
from dev.hbase.servers import HBaseServers
from tables.hbase.layout import Place, Salt
from tables.store import MESSAGE
from tests.faults.hbase.conftest import (
    BUCKETS,
    ROUNDS,
    TimedLedger,
    check_settled,
    new_place,
    running,
    serve_on,
)
from tests.faults.load import Load
from tests.faults.server_process import ServerProcess

pytestmark = pytest.mark.slow

TOPIC = "log"
_log = logging.getLogger(__name__)

PUBLISHERS = 4
BEFORE, AFTER = 40, 60
"""Requests acknowledged before a fault, and once it has passed."""
AWAY_S = 2


@dataclass
class World:
    """One server and one topic for all that its HBase goes through."""

    cluster: HBaseServers
    place: Place
    server: ServerProcess
    ledger: TimedLedger

    @asynccontextmanager
    async def under_load(self, chance: random.Random, what: str) -> AsyncIterator[Load]:
        """Have clients at work; at the end, check all that they were told."""
        server, ledger = self.server, self.ledger
        async with Load(server.url, TOPIC, ledger, chance, publishers=PUBLISHERS) as load:
            await load.until_acknowledged(BEFORE)
            ledger.watch()
            yield load
        await check_settled(server, TOPIC, ledger)
        _log.warning("%s: nobody was acknowledged for %.1f s", what, ledger.stall_s)


@pytest.fixture(scope="module")
def world(cluster: HBaseServers) -> Iterator[World]:
    place = new_place(cluster)
    with serve_on(place) as server:
        asyncio.run(create(server))
        yield World(cluster, place, server, TimedLedger())
        assert server.stop() == 0


async def create(server: ServerProcess) -> None:
    async with await tms.aio.connect(server.url) as client:
        await client.topic(TOPIC).create()


@pytest.mark.parametrize(
    "names",
    [
        ("region-1",),
        ("region-2",),
        ("master",),
        ("gateway",),
        ("zookeeper",),
        ("gateway", "region-1", "region-2", "master", "zookeeper"),
    ],
    ids=["region-1", "region-2", "master", "gateway", "zookeeper", "all"],
)
def test_what_was_acknowledged_survives_the_death_of(
    world: World, chance: random.Random, names: tuple[str, ...]
) -> None:
    async def one_round() -> None:
        async with world.under_load(chance, "+".join(names)) as load:
            for name in names:
                world.cluster.kill(name)
            # Where HBase goes on without it, so do its clients; else they are told.
            if not {"gateway", "zookeeper"}.isdisjoint(names):
                await asyncio.sleep(AWAY_S)
            await asyncio.to_thread(running, world.cluster)
            await load.until_acknowledged(AFTER)

    for _ in range(ROUNDS):
        asyncio.run(one_round())


def test_nothing_is_lost_while_a_region_is_split_and_moved(
    world: World, chance: random.Random
) -> None:
    table = world.place.name_of(MESSAGE)

    async def one_round() -> None:
        async with world.under_load(chance, "split and move") as load:
            followed = world.ledger.followed
            key = f"default:{TOPIC}:".encode() + (1).to_bytes(4) + followed[-1].id[:10]
            row = Salt(MESSAGE, BUCKETS).of(key) + key
            for verb in ("split", "move"):
                # The newest rows are in the region that begins at `row`, once that is split.
                await asyncio.to_thread(partial(change, world.cluster, verb, table, row))
                await load.until_acknowledged(AFTER)

    for _ in range(ROUNDS):
        asyncio.run(one_round())
