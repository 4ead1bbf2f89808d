"""The server is killed with -9 many times while it cleans up: only dead messages are gone.

Passes follow each other without a pause, twenty rows at a time, so that most kills are in the
middle of one.
"""

import asyncio
import random
from pathlib import Path

import httpx
import pytest

import tms.aio
from tests.cli.conftest import run_command
from tests.faults.ledger import Ledger
from tests.faults.load import Load, check_log
from tests.faults.rebirths import Rebirths
from tests.faults.serving import serve
from tests.scale import scaled
from tests.servers.server_process import ServerProcess
from tests.waiting import until
from tms.client.async_client import AsyncClient
from tms.core.errors import OutcomeUnknown, Unavailable

ROUNDS = scaled(6)
LASTING, BRIEF = "lasting", "brief"
CLEANS = ("--cleanup-period-s", "0.01")
SLICES = {"cleanup_slice_rows": 20, "cleanup_pause_ms": 1}


async def expire(client: AsyncClient) -> None:
    """Publish messages that expire after a second, until the server is gone."""
    topic = client.topic(BRIEF)
    try:
        while True:
            await topic.publish([b"brief"] * 50)
    except (Unavailable, OutcomeUnknown):
        pass


async def killed_in_a_pass(
    server: ServerProcess, ledger: Ledger, rebirths: Rebirths, chance: random.Random
) -> None:
    loop = asyncio.get_running_loop()
    async with (
        Load(server.url, LASTING, ledger, chance, publishers=3) as load,
        rebirths.under_way(server.url),
        await tms.aio.connect(server.url, retry_for_s=0) as client,
        asyncio.TaskGroup() as tasks,
    ):
        tasks.create_task(expire(client))
        await load.until_acknowledged(20)
        await until_rows_are_deleted(server)
        killed = asyncio.Event()

        def kill() -> None:
            server.kill()
            killed.set()

        loop.call_later(chance.uniform(0, 0.6), kill)
        await killed.wait()


async def until_rows_are_deleted(server: ServerProcess) -> None:
    """Return once this server's passes have deleted something."""
    async with httpx.AsyncClient(base_url=server.url) as http:

        async def some_are() -> bool:
            return bool((await http.get("/v1/cleanup")).json()["dropped_rows"])

        await until(some_are)


async def until_expired(server: ServerProcess) -> None:
    """Return once the last short-lived messages have expired."""
    async with await tms.aio.connect(server.url) as client:

        async def is_empty() -> bool:
            return not [each async for each in client.topic(BRIEF).poll()]

        await until(is_empty)


def rows_of(folder: Path, table: str) -> int:
    """Return how many rows a table has in a folder that no server has open."""
    code, out, err = run_command(
        "debug", "export", "--store", f"leveldb:{folder}", "--table", table
    )
    assert (code, err) == (0, "")
    return len(out.splitlines())


@pytest.mark.slow
def test_a_pass_that_is_killed_takes_nothing_that_lives(
    tmp_path: Path, chance: random.Random
) -> None:
    ledger, rebirths = Ledger(), Rebirths()

    async def one_round(number: int) -> None:
        with serve(tmp_path, *CLEANS, limits=SLICES) as server:
            if number == 0:
                async with await tms.aio.connect(server.url) as client:
                    await client.topic(LASTING).create()
                    await client.topic(BRIEF).create(ttl=1)
            await check_log(server.url, LASTING, ledger, settled=True)
            await rebirths.check(server.url)
            await killed_in_a_pass(server, ledger, rebirths, chance)

    for number in range(ROUNDS):
        asyncio.run(one_round(number))
        told = run_command("debug", "verify", "--store", f"leveldb:{tmp_path}")
        assert told[:2] == (0, "All tables are consistent.\n")
    with serve(tmp_path, *CLEANS, limits=SLICES) as server:
        asyncio.run(check_log(server.url, LASTING, ledger, settled=True))
        asyncio.run(rebirths.check(server.url))
        asyncio.run(until_expired(server))
        assert run_command("cleanup", "run", "--url", server.url)[0] == 0
        assert server.stop() == 0
    messages = sum(len(request.payloads) for request in ledger.requests)
    assert rows_of(tmp_path, "message") <= messages + 100
