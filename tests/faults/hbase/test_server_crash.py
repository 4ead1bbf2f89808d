"""Our server is killed with -9 in the middle of flushes to HBase, and started again.

Every acknowledged message is there, once, in order; a transaction is visible in all of its topics
or in none; and a position that moves with a commit has moved where the commit is visible, and
nowhere else.
"""

import asyncio
import random

import pytest

import tms.aio
from tests.faults import test_transaction_crash
from tests.faults.crashing import TOPIC, crash_under_load
from tests.faults.hbase.conftest import ROUNDS, Serve
from tests.faults.hbase.pump import Pump
from tests.faults.ledger import Ledger
from tests.faults.load import check_log
from tests.faults.rebirths import Rebirths
from tests.faults.transaction_work import Work
from tests.servers.server_process import ServerProcess
from tests.waiting import until

pytestmark = pytest.mark.slow

CRASHES = 2 * ROUNDS


def test_what_was_acknowledged_survives(serve: Serve, chance: random.Random) -> None:
    ledger, rebirths = Ledger(), Rebirths()

    async def one_round(server: ServerProcess, *, is_first: bool) -> None:
        if is_first:
            async with await tms.aio.connect(server.url) as client:
                await client.topic(TOPIC).create()
        await check_log(server.url, TOPIC, ledger, settled=True)
        await rebirths.check(server.url)
        await crash_under_load(server, ledger, rebirths, chance)

    for number in range(CRASHES):
        with serve() as server:
            asyncio.run(one_round(server, is_first=number == 0))
    with serve() as server:
        asyncio.run(check_log(server.url, TOPIC, ledger, settled=True))
        asyncio.run(rebirths.check(server.url))
        assert server.stop() == 0
    assert ledger.acknowledged >= CRASHES


def test_every_commit_is_whole(serve: Serve, chance: random.Random) -> None:
    async def rounds() -> None:
        work = Work()
        for number in range(CRASHES):
            with serve("own") as server:
                if number == 0:
                    await test_transaction_crash.create(server)
                await test_transaction_crash.check(server, work)
                await test_transaction_crash.crash(server, work, chance, str(number))
        with serve("own") as server:
            await test_transaction_crash.check(server, work)
        assert len(work.committed) >= CRASHES

    asyncio.run(rounds())


def test_a_position_moves_with_its_commit_or_not_at_all(
    serve: Serve, chance: random.Random
) -> None:
    pump = Pump()

    async def crash(server: ServerProcess, *, is_first: bool) -> None:
        async with await tms.aio.connect(server.url, retry_for_s=0) as client:
            if is_first:
                await pump.prepare(client)
            await pump.check(client)
            wanted = pump.committed + chance.choice((5, 40))
            running = asyncio.create_task(pump.run(client))
            await until(lambda: pump.committed >= wanted)
            asyncio.get_running_loop().call_later(chance.uniform(0, 0.03), server.kill)
            await running

    async def check(server: ServerProcess) -> None:
        async with await tms.aio.connect(server.url) as client:
            await pump.check(client)

    for number in range(CRASHES):
        with serve("own") as server:
            asyncio.run(crash(server, is_first=number == 0))
    with serve("own") as server:
        asyncio.run(check(server))
