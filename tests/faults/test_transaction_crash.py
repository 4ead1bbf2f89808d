"""The server is killed with -9 under clients that run transactions, and each commit is whole.

An acknowledged commit is visible in both of its topics. Any other commit is visible in both or in
neither, and a client that asks for its status gets the same answer. Readers that stop at a
transaction whose client is dead continue after its timeout.
"""

import asyncio
import random
from pathlib import Path
from uuid import uuid4

import pytest

import tms.aio
from tests.faults.transaction_work import TOPICS, Work
from tests.scale import scaled
from tests.servers.server_process import ServerProcess
from tests.waiting import until
from tms.client.async_client import AsyncClient

ROUNDS = scaled(20)
CLIENTS = 8


async def committed(client: AsyncClient) -> dict[str, list[bytes]]:
    return {
        topic: [m.payload async for m in client.topic(topic).poll(committed=True)]
        for topic in TOPICS
    }


async def crash(server: ServerProcess, work: Work, chance: random.Random, name: str) -> None:
    async with await tms.aio.connect(server.url, retry_for_s=0) as client:
        running = [
            asyncio.create_task(work.run(client, f"{name}.{n}", random.Random(chance.random())))
            for n in range(CLIENTS)
        ]
        await work.until_committed(chance.choice((1, 10, 60)))
        asyncio.get_running_loop().call_later(chance.uniform(0, 0.02), server.kill)
        await asyncio.gather(*running)


async def check(server: ServerProcess, work: Work) -> None:
    """Check that readers reach the end of both topics, and check the messages found."""
    async with await tms.aio.connect(server.url) as client:
        marker = uuid4().bytes
        await client.publish_all({topic: [marker] for topic in TOPICS})

        async def is_at_the_end() -> bool:
            return all(marker in payloads for payloads in (await committed(client)).values())

        await until(is_at_the_end)
        work.committed.add(marker)
        work.check(await committed(client))


async def create(server: ServerProcess) -> None:
    async with await tms.aio.connect(server.url) as client:
        for topic in TOPICS:
            await client.topic(topic).create()


@pytest.mark.slow
def test_every_commit_is_whole_after_kill_9(tmp_path: Path, chance: random.Random) -> None:
    async def rounds() -> None:
        work = Work()
        for number in range(ROUNDS):
            with ServerProcess(f"leveldb:{tmp_path}") as server:
                if number == 0:
                    await create(server)
                await check(server, work)
                await crash(server, work, chance, str(number))
        with ServerProcess(f"leveldb:{tmp_path}") as server:
            await check(server, work)
        assert len(work.committed) >= ROUNDS

    asyncio.run(rounds())
