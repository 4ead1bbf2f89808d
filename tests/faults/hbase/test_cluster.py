"""HBase's own processes are killed with -9 under load, and its regions split and moved.

Every acknowledged message is there, once, in order; no reader gets a gap that fills later. The
longest time without an acknowledgement is logged at the end of each test (`-rP` shows it).
"""

import asyncio
import logging
import random
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from functools import partial

import httpx
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
    check_unanswered,
    new_place,
    running,
    serve_on,
)
from tests.faults.hbase.long_rounds import lasts
from tests.faults.load import Load
from tests.servers.server_process import ServerProcess
from tests.waiting import WAIT_S_MAX, until
from tms.client.async_client import AsyncClient
from tms.core.errors import OutcomeUnknown, Unavailable

pytestmark = pytest.mark.slow

TOPIC, BRIEF = "log", "brief"
_log = logging.getLogger(__name__)

AWAY_S = 2
PUBLISHERS = 4
BEFORE, AFTER = 40, 60
"""How many requests are acknowledged before a fault, and after it."""


@dataclass
class World:
    """One server and one topic, used through all faults of its HBase."""

    cluster: HBaseServers
    place: Place
    server: ServerProcess
    ledger: TimedLedger

    @asynccontextmanager
    async def under_load(self, chance: random.Random, what: str) -> AsyncIterator[Load]:
        """Start clients; at the end, check all their answers."""
        server, ledger = self.server, self.ledger
        async with Load(server.url, TOPIC, ledger, chance, publishers=PUBLISHERS) as load:
            await load.until_acknowledged(BEFORE)
            ledger.watch()
            yield load
        await check_unanswered(server, TOPIC, ledger)
        _log.warning("%s: nobody was acknowledged for %.1f s", what, ledger.stall_s)


@pytest.fixture(scope="module")
def world(cluster: HBaseServers) -> Iterator[World]:
    place = new_place(cluster)
    with serve_on(place, flags=("--cleanup-period-s", "1")) as server:
        asyncio.run(create(server))
        yield World(cluster, place, server, TimedLedger())
        assert server.stop() == 0


async def create(server: ServerProcess) -> None:
    async with await tms.aio.connect(server.url) as client:
        await client.topic(TOPIC).create()
        await client.topic(BRIEF).create(ttl=1)


@asynccontextmanager
async def expiring(client: AsyncClient) -> AsyncIterator[None]:
    """Publish messages that live for a second."""

    async def publish() -> None:
        while True:
            with suppress(Unavailable, OutcomeUnknown):
                await client.topic(BRIEF).publish([b"brief"] * 20)

    task = asyncio.create_task(publish())
    try:
        yield
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


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
            # If HBase continues without the process, so do clients; otherwise they get errors.
            if not {"gateway", "zookeeper"}.isdisjoint(names):
                await asyncio.to_thread(lasts, AWAY_S)
            await asyncio.to_thread(running, world.cluster)
            await load.until_acknowledged(AFTER)

    for _ in range(ROUNDS):
        asyncio.run(one_round())


async def dropped_rows(server: ServerProcess) -> int:
    """Return how many rows cleanup has deleted since the server started."""
    async with httpx.AsyncClient() as http:
        answer = await http.get(f"{server.url}/v1/cleanup", timeout=WAIT_S_MAX)
    return int(answer.json()["dropped_rows"])


def test_nothing_is_lost_while_a_region_is_split_and_moved(
    world: World, chance: random.Random
) -> None:
    """Clients publish and poll, and cleanup deletes expired messages elsewhere."""
    table = world.place.name_of(MESSAGE)

    async def one_round() -> None:
        before = await dropped_rows(world.server)
        async with (
            await tms.aio.connect(world.server.url, retry_for_s=60) as client,
            world.under_load(chance, "split and move") as load,
            expiring(client),
        ):
            followed = world.ledger.followed
            key = f"default:{TOPIC}:".encode() + (1).to_bytes(4) + followed[-1].id[:10]
            row = Salt(MESSAGE, BUCKETS).of(key) + key
            for verb in ("split", "move"):
                # After the split, the newest rows are in the region that begins at `row`.
                await asyncio.to_thread(partial(change, world.cluster, verb, table, row))
                await load.until_acknowledged(AFTER)

            async def is_cleaned() -> bool:
                return await dropped_rows(world.server) > before

            await until(is_cleaned)

    for _ in range(ROUNDS):
        asyncio.run(one_round())
