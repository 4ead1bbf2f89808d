"""The server is killed with -9 at random moments, many times; what it acknowledged is there.

TMS_CRASH_ROUNDS is how often: 20 unless it is set.
"""

import asyncio
import os
import random
from pathlib import Path

import pytest

import tms.aio
from tests.faults.ledger import Ledger
from tests.faults.load import Load, check_log
from tests.faults.rebirths import Rebirths
from tests.faults.serving import serve
from tests.servers.server_process import ServerProcess

ROUNDS = int(os.environ.get("TMS_CRASH_ROUNDS", "20"))
TOPIC = "log"


def kill_while_opening(folder: Path, chance: random.Random) -> None:
    """Kill a server at some moment before it serves, maybe while it recovers."""
    with serve(folder) as server:
        server.wait_until_told(chance.uniform(0.2, 1.0))


async def crash_under_load(
    server: ServerProcess, ledger: Ledger, rebirths: Rebirths, chance: random.Random
) -> None:
    loop = asyncio.get_running_loop()
    async with Load(server.url, TOPIC, ledger, chance) as load, rebirths.under_way(server.url):
        await load.until_acknowledged(chance.choice((1, 30, 400)))
        killed = asyncio.Event()

        def kill() -> None:
            server.kill()
            killed.set()

        loop.call_later(chance.uniform(0, 0.02), kill)
        await killed.wait()


@pytest.mark.slow
def test_what_was_acknowledged_survives_kill_9(tmp_path: Path, chance: random.Random) -> None:
    ledger, rebirths = Ledger(), Rebirths()

    async def one_round(number: int) -> None:
        flags = ("--leveldb-write-buffer-bytes", str(chance.choice((2**16, 2**20, 2**24))))
        with serve(tmp_path, *flags) as server:
            if number == 0:
                async with await tms.aio.connect(server.url) as client:
                    await client.topic(TOPIC).create()
            await check_log(server.url, TOPIC, ledger, settled=True)
            await rebirths.check(server.url)
            await crash_under_load(server, ledger, rebirths, chance)
        if chance.random() < 0.25:
            kill_while_opening(tmp_path, chance)

    for number in range(ROUNDS):
        asyncio.run(one_round(number))
    with serve(tmp_path) as server:
        asyncio.run(check_log(server.url, TOPIC, ledger, settled=True))
        asyncio.run(rebirths.check(server.url))
        assert server.stop() == 0
    assert ledger.acknowledged >= ROUNDS
