"""The server is killed with -9 at random moments, many times; everything acknowledged is there."""

import asyncio
import random
import re
from pathlib import Path

import httpx
import pytest

import tms.aio
from tests.faults.crashing import TOPIC, crash_under_load
from tests.faults.ledger import Ledger
from tests.faults.load import check_log
from tests.faults.rebirths import Rebirths
from tests.faults.serving import serve
from tests.scale import scaled
from tests.servers.server_process import ServerProcess
from tms.client.topics.async_topic import AsyncTopic
from tms.core.errors import OutcomeUnknown, Unavailable

ROUNDS = scaled(20)
TRIES_MAX = 10_000
"""The maximum number of publishes until the event loop writes one."""


def kill_while_opening(folder: Path, chance: random.Random) -> None:
    """Kill a server at some moment before it serves, maybe while it recovers."""
    with serve(folder) as server:
        server.wait_until_told(chance.uniform(0.2, 1.0))


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


INLINE_FLUSHES = re.compile(r"^tms_inline_flushes_total (\S+)$", re.MULTILINE)


async def publish_alone(server: ServerProcess, told: list[bytes], chance: random.Random) -> None:
    """Publish one message after another, while the event loop writes them, until it is killed."""
    async with (
        httpx.AsyncClient(base_url=server.url) as http,
        await tms.aio.connect(server.url, retry_for_s=0) as client,
    ):
        topic = client.topic(TOPIC)
        if not told:
            await topic.create()
        for _ in range(TRIES_MAX):
            [flushes] = INLINE_FLUSHES.findall((await http.get("/metrics")).text)
            if float(flushes):
                break
            await publish_one(topic, told)
        else:
            raise AssertionError("it is always the write thread that writes")
        asyncio.get_running_loop().call_later(chance.uniform(0, 0.02), server.kill)
        with pytest.raises((Unavailable, OutcomeUnknown)):
            await publish_on(topic, told)


async def publish_on(topic: AsyncTopic, told: list[bytes]) -> None:
    while True:
        await publish_one(topic, told)


async def publish_one(topic: AsyncTopic, told: list[bytes]) -> None:
    payload = b"%d" % len(told)
    await topic.publish(payload)
    told.append(payload)


async def payloads_at(url: str) -> list[bytes]:
    async with await tms.aio.connect(url) as client:
        return [message.payload async for message in client.topic(TOPIC).poll()]


@pytest.mark.slow
def test_what_a_publisher_alone_was_answered_survives_kill_9(
    tmp_path: Path, chance: random.Random
) -> None:
    told: list[bytes] = []
    for _ in range(ROUNDS // 4):
        # No fsync: with a slow disk the write thread would be used. A kill keeps written data.
        with serve(tmp_path, "--no-sync") as server:
            asyncio.run(publish_alone(server, told, chance))
    with serve(tmp_path) as server:
        found = asyncio.run(payloads_at(server.url))
        assert server.stop() == 0

    # A message may be there without having been acknowledged: then its number is used again.
    assert list(dict.fromkeys(found)) in (told, [*told, b"%d" % len(told)])
    assert len(found) <= len(told) + ROUNDS // 4
