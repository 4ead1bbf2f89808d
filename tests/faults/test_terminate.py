"""SIGTERM under load: acknowledged messages are there, and the end is orderly and in time."""

import asyncio
import random
from pathlib import Path

import tms.aio
from tests.faults.ledger import Ledger
from tests.faults.load import Load, check_log
from tests.faults.serving import serve
from tests.scale import scaled
from tests.servers.server_process import ServerProcess
from tms.core.errors import AnswerLost, OutcomeUnknown, ServerUnreachable, Stopping

TOPIC = "log"
GRACE_S = 3600
"""Far longer than the test waits for the server's end, so the grace must not be used up."""


async def stop_under_load(server: ServerProcess, ledger: Ledger, chance: random.Random) -> int:
    """Stop the server with publishers and pollers at work; return its exit code."""
    async with (
        await tms.aio.connect(server.url, retry_for_s=0) as client,
        Load(server.url, TOPIC, ledger, chance) as load,
    ):
        await client.topic("idle").create()
        waiting = asyncio.create_task(_count_waiting(client))
        # After this number of later answers, the server must have received the waiting poll.
        await load.until_acknowledged(chance.choice((100, 300)))
        server.terminate()
        exit_code = await asyncio.to_thread(server.wait)
        assert await waiting == 0
        await load.until_failed(1)
    told = {type(error) for error in load.failures}
    assert told <= {Stopping, OutcomeUnknown, ServerUnreachable}, told
    told = {type(error) for error in load.poll_failures}
    assert told <= {Stopping, AnswerLost, ServerUnreachable}, told
    return exit_code


async def _count_waiting(client: tms.aio.AsyncClient) -> int:
    """Poll an empty topic with a wait as long as the grace; the stop must answer it."""
    return len([m async for m in client.topic("idle").poll(wait_s=GRACE_S)])


def test_sigterm_under_load_loses_nothing(tmp_path: Path, chance: random.Random) -> None:
    long = ("--stop-grace-s", str(GRACE_S), "--poll-wait-s-max", str(GRACE_S))
    for number in range(scaled(5)):
        with serve(tmp_path / str(number), *long) as server:
            ledger = Ledger()
            asyncio.run(_create(server))
            assert asyncio.run(stop_under_load(server, ledger, chance)) == 0
            assert "Traceback" not in server.log
        with serve(tmp_path / str(number)) as server:
            asyncio.run(check_log(server.url, TOPIC, ledger, settled=True))


async def _create(server: ServerProcess) -> None:
    async with await tms.aio.connect(server.url) as client:
        await client.topic(TOPIC).create()
