"""HBase's own processes are killed with -9 under load, and its regions split and moved.

What was acknowledged is there, once, in order; no reader is given a gap that fills later. How long
nobody was acknowledged anything is logged at the end of each test (`-rP` shows it).
"""

import asyncio
import logging
import random
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial

import pytest

import tms.aio
from dev.hbase.regions import change
from dev.hbase.servers import HBaseServers
from tables.hbase.layout import Place, Salt
from tables.store import MESSAGE
from tests.faults.hbase.conftest import ROUNDS, Serve, TimedLedger, check_settled, running
from tests.faults.load import Load
from tests.faults.server_process import ServerProcess

pytestmark = pytest.mark.slow

TOPIC = "log"
_log = logging.getLogger(__name__)

PUBLISHERS = 4
BEFORE, AFTER = 40, 60
"""Requests acknowledged before a fault, and once it has passed."""


@asynccontextmanager
async def under_load(
    server: ServerProcess, ledger: TimedLedger, chance: random.Random
) -> AsyncIterator[Load]:
    """Have clients at work; at the end, check all they were told."""
    async with Load(server.url, TOPIC, ledger, chance, publishers=PUBLISHERS) as load:
        await load.until_acknowledged(BEFORE)
        ledger.watch()
        yield load
    await check_settled(server, TOPIC, ledger)


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
    cluster: HBaseServers, serve: Serve, chance: random.Random, names: tuple[str, ...]
) -> None:
    async def one_round(server: ServerProcess, ledger: TimedLedger) -> None:
        async with under_load(server, ledger, chance) as load:
            for name in names:
                cluster.kill(name)
            # Where HBase goes on without it, so do its clients; else they are told.
            if not {"gateway", "zookeeper"}.isdisjoint(names):
                await asyncio.sleep(2)
            await asyncio.to_thread(running, cluster)
            await load.until_acknowledged(AFTER)
        _log.warning("%s: nobody was acknowledged for %.1f s", "+".join(names), ledger.stall_s)

    ledger = TimedLedger()
    with serve() as server:
        asyncio.run(create(server))
        for _ in range(ROUNDS):
            asyncio.run(one_round(server, ledger))
        assert server.stop() == 0


def test_nothing_is_lost_while_a_region_is_split_and_moved(
    cluster: HBaseServers, place: Place, serve: Serve, chance: random.Random
) -> None:
    table = place.name_of(MESSAGE)

    async def changed(server: ServerProcess, ledger: TimedLedger) -> None:
        async with under_load(server, ledger, chance) as load:
            middle = ledger.followed[len(ledger.followed) // 2].id[:10]
            key = f"default:{TOPIC}:".encode() + (1).to_bytes(4) + middle
            row = Salt(MESSAGE, 2).of(key) + key
            for verb in ("split", "move"):
                # The newest rows are in the region that begins at `row`, once that is split.
                await asyncio.to_thread(partial(change, cluster, verb, table, row))
                await load.until_acknowledged(AFTER)
        _log.warning("split and move: nobody was acknowledged for %.1f s", ledger.stall_s)

    ledger = TimedLedger()
    with serve() as server:
        asyncio.run(create(server))
        for _ in range(ROUNDS):
            asyncio.run(changed(server, ledger))
        assert server.stop() == 0
