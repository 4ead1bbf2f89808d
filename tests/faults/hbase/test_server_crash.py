"""Our server is killed with -9 in the middle of flushes to HBase, and started again.

What was acknowledged is there, once, in order; a transaction is visible in all of its topics or in
none; and a position that moves with a commit has moved where the commit is visible, and nowhere
else.
"""

import asyncio
import random

import pytest

import tms.aio
from tests.faults import test_transaction_crash
from tests.faults.hbase.conftest import ROUNDS, Serve
from tests.faults.ledger import Ledger
from tests.faults.load import check_log
from tests.faults.rebirths import Rebirths
from tests.faults.server_process import ServerProcess
from tests.faults.test_crash import TOPIC, crash_under_load
from tests.faults.test_transaction_crash import Work
from tms.client.async_client import AsyncClient
from tms.core.errors import OutcomeUnknown, RequestError, Unavailable

pytestmark = pytest.mark.slow

CRASHES = 2 * ROUNDS
SLACK_S = 60.0
"""For HBase and what else the machine does."""


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
                await test_transaction_crash.check(server, work, SLACK_S)
                await test_transaction_crash.crash(server, work, chance, str(number))
        with serve("own") as server:
            await test_transaction_crash.check(server, work, SLACK_S)
        assert len(work.committed) >= CRASHES

    asyncio.run(rounds())


class Pump:
    """Takes messages from one topic to another, one a transaction, which moves its position."""

    COUNT = 3_000

    def __init__(self) -> None:
        self.committed = 0
        """How many transactions were answered with a commit."""

    async def prepare(self, client: AsyncClient) -> None:
        """Create the topics, with what there is to take."""
        for topic in ("in", "out"):
            await client.topic(topic).create()
        await client.topic("in").publish([b"%d" % number for number in range(self.COUNT)])
        await client.topic("in").subscription("pump").create()

    async def run(self, client: AsyncClient) -> None:
        """Go on until the server is gone."""
        source, target = client.topic("in").subscription("pump"), client.topic("out")
        try:
            while True:
                async with client.transaction(timeout_s=5) as tx:
                    [message] = [message async for message in source.poll(1, tx=tx)]
                    await target.publish(message.payload, tx)
                    await source.advance(message, tx)
                self.committed += 1
        except (Unavailable, OutcomeUnknown, RequestError):
            return

    async def check(self, client: AsyncClient) -> None:
        """Check that what was committed, and nothing else, has moved the position."""
        position = await client.topic("in").subscription("pump").position()
        taken = [message.id async for message in client.topic("in").poll()][: position.version]
        given = [message.payload async for message in client.topic("out").poll(committed=True)]
        assert given == [b"%d" % number for number in range(position.version)]
        assert position.after == (taken[-1] if taken else None)
        assert position.version >= self.committed
        self.committed = position.version


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
            async with asyncio.timeout(60):
                while pump.committed < wanted:
                    await asyncio.sleep(0.01)
            await asyncio.sleep(chance.uniform(0, 0.03))
            server.kill()
            await running

    async def check(server: ServerProcess) -> None:
        async with await tms.aio.connect(server.url) as client:
            await pump.check(client)

    for number in range(CRASHES):
        with serve("own") as server:
            asyncio.run(crash(server, is_first=number == 0))
    with serve("own") as server:
        asyncio.run(check(server))
