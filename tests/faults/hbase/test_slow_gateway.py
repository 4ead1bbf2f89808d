"""A gateway that is slow, silent or cut off causes latency, then 503, never a wrong answer.

The server recovers by itself, and in the meantime uses no more memory than its limits allow.
"""

import asyncio
import random
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import httpx
import pytest

import tms.aio
from tables.hbase.layout import Place
from tests.faults.hbase.conftest import (
    RETRY_S,
    TIMEOUT_S,
    Serve,
    TimedLedger,
    check_unanswered,
)
from tests.faults.hbase.pump import Pump
from tests.faults.load import Load
from tests.servers.proxy import Proxy
from tests.servers.server_process import ServerProcess
from tests.waiting import WAIT_S_MAX, until
from tms.client.async_client import AsyncClient

pytestmark = pytest.mark.slow

TOPIC = "log"
MEBIBYTE = 1024 * 1024
QUEUE_MIB, REQUESTS = 16, 60
CUTS = 4
ROOM_MIB = 200
"""How much more memory than a fresh server a busy one may use, in addition to its queue."""


@pytest.fixture
def gateway(place: Place) -> Iterator[Proxy]:
    with Proxy(place.port) as gateway:
        yield gateway


def memory_mib(server: ServerProcess) -> int:
    status = Path(f"/proc/{server.pid}/status").read_text(encoding="utf-8")
    [line] = [line for line in status.splitlines() if line.startswith("VmRSS")]
    return int(line.split()[1]) // 1024


async def create(server: ServerProcess) -> None:
    async with await tms.aio.connect(server.url) as client:
        await client.topic(TOPIC).create()
        await client.topic("other").create()


async def checked(server: ServerProcess, ledger: TimedLedger) -> None:
    await check_unanswered(server, TOPIC, ledger)
    assert ledger.acknowledged


async def publish_much(server: ServerProcess) -> list[httpx.Response]:
    """Send many concurrent requests that publish a mebibyte each."""
    url = f"{server.url}/v1/namespaces/default/topics/other/publish"
    body = {"messages": ["x" * MEBIBYTE]}
    limits = httpx.Limits(max_connections=REQUESTS)
    async with httpx.AsyncClient(timeout=WAIT_S_MAX, limits=limits) as client:
        return await asyncio.gather(*(client.post(url, json=body) for _ in range(REQUESTS)))


def test_what_is_delayed_is_answered_late(
    serve: Serve, gateway: Proxy, chance: random.Random
) -> None:
    async def scenario(server: ServerProcess) -> None:
        await create(server)
        ledger = TimedLedger()
        gateway.delay_s = 0.1
        async with Load(server.url, TOPIC, ledger, chance, publishers=4) as load:
            await load.until_acknowledged(30)
        assert not load.failures
        gateway.delay_s = 0.0
        await checked(server, ledger)

    with serve(port=gateway.port) as server:
        asyncio.run(scenario(server))
        assert server.stop() == 0


def test_a_silent_gateway_is_503_until_it_answers_again(
    serve: Serve, gateway: Proxy, chance: random.Random
) -> None:
    ledger = TimedLedger()

    async def scenario(server: ServerProcess) -> None:
        await create(server)
        async with Load(server.url, TOPIC, ledger, chance, publishers=4) as load:
            await load.until_acknowledged(30)
            before = memory_mib(server)
            gateway.hold()
            answers = await publish_much(server)
            refused = [answer for answer in answers if answer.status_code == 503]
            assert refused
            assert all(int(answer.headers["Retry-After"]) >= 1 for answer in refused)
            codes = {answer.json()["error"]["code"] for answer in refused}
            assert codes <= {"store_unavailable", "queue_full"}
            codes = {answer.json()["error"]["code"] for answer in answers if answer not in refused}
            assert codes <= {"outcome_unknown"}
            assert memory_mib(server) < before + QUEUE_MIB + ROOM_MIB
            assert load.failures
            gateway.release()
            await load.until_acknowledged(30)
        await checked(server, ledger)

    flags = ("--queue-bytes-max", str(QUEUE_MIB * MEBIBYTE))
    with serve(port=gateway.port, flags=flags) as server:
        asyncio.run(scenario(server))
        assert server.stop() == 0


def test_connections_that_break_again_and_again_lose_nothing(
    serve: Serve, gateway: Proxy, chance: random.Random
) -> None:
    ledger = TimedLedger()

    async def scenario(server: ServerProcess) -> None:
        await create(server)
        async with Load(server.url, TOPIC, ledger, chance, publishers=4) as load:
            for _ in range(10):
                await load.until_acknowledged(5)
                gateway.cut()
        await checked(server, ledger)

    with serve(port=gateway.port) as server:
        asyncio.run(scenario(server))
        # The server stops although its last calls were lost and may still arrive late.
        assert server.stop() == 0


def test_positions_move_with_their_commits_while_connections_break(
    serve: Serve, gateway: Proxy
) -> None:
    """This holds even if a move follows an unanswered one that may still arrive."""
    pump = Pump()

    async def scenario(server: ServerProcess) -> None:
        async with await tms.aio.connect(server.url) as client:
            await pump.prepare(client)
            running = asyncio.create_task(pump.run_on(client))
            for _ in range(CUTS):
                await until(partial(pump.has_committed, pump.committed + 3))
                gateway.cut()
            running.cancel()
            await asyncio.gather(running, return_exceptions=True)
            # Transactions left in progress hold readers back until they time out.
            await until(partial(is_quiet, client))
            await pump.check(client)

    with serve("own", port=gateway.port) as server:
        asyncio.run(scenario(server))
        assert server.stop() == 0


async def is_quiet(client: AsyncClient) -> bool:
    return not await client.transactions.in_progress()


def test_the_times_leave_room_for_an_answer() -> None:
    """Otherwise clients would give up before they are asked to retry."""
    assert TIMEOUT_S + RETRY_S < 20
