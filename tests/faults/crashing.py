"""A server that crashes under load."""

import asyncio
import random

from tests.faults.ledger import Ledger
from tests.faults.load import Load
from tests.faults.rebirths import Rebirths
from tests.servers.server_process import ServerProcess

TOPIC = "log"


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
