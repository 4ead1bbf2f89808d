"""The server is killed with -9 under clients that run transactions, and each commit is whole.

A commit that was answered is visible in both of its topics. One that was not is visible in both or
in none, which is what the client is told that asks. Readers are held up no longer than the timeout.

TMS_CRASH_ROUNDS is how often: 20 unless it is set.
"""

import asyncio
import os
import random
from collections import Counter
from pathlib import Path
from time import monotonic

import pytest

import tms.aio
from tests.servers.server_process import ServerProcess
from tms.client.async_client import AsyncClient
from tms.core.errors import OutcomeUnknown, RequestError, Unavailable
from tms.core.topic import TopicId

ROUNDS = int(os.environ.get("TMS_CRASH_ROUNDS", "20"))
TOPICS = ("left", "right")
CLIENTS = 8
UNREACHABLE = b"unreachable "
TIMEOUT_S = 2
SLACK_S = 5.0
"""For the timer, and a slow machine."""


class Undecided(Exception):
    """Raised in a transaction that is to be rolled back."""


class Work:
    """What the clients were told of their transactions, by payload."""

    def __init__(self) -> None:
        self.committed: set[bytes] = set()
        self.undone: set[bytes] = set()
        self.unknown: set[bytes] = set()
        self._changed = asyncio.Event()

    async def run(self, client: AsyncClient, name: str, chance: random.Random) -> None:
        """Run transactions, one after another, until the server is gone."""
        number = 0
        while True:
            number += 1
            payload = f"{name}.{number}".encode()
            self.unknown.add(payload)
            try:
                await self._one(client, payload, chance)
            except (Unavailable, OutcomeUnknown, RequestError):
                return
            finally:
                self._changed.set()

    async def _one(self, client: AsyncClient, payload: bytes, chance: random.Random) -> None:
        form = chance.choice(("commit", "commit", "roll back", "at once", "buffer", "stored"))
        if form == "at once":
            await client.publish_all({topic: [payload] for topic in TOPICS})
        elif form == "stored":
            await self._stored(client, payload)
        else:
            try:
                async with client.transaction(timeout_s=TIMEOUT_S) as tx:
                    for topic in TOPICS:
                        await client.topic(topic).publish(payload, tx, buffer=form == "buffer")
                    if form == "roll back":
                        raise Undecided  # noqa: TRY301  it is what rolls back
            except Undecided:
                self.undone.add(payload)
                self.unknown.discard(payload)
                return
        self.committed.add(payload)
        self.unknown.discard(payload)

    async def _stored(self, client: AsyncClient, payload: bytes) -> None:
        """Have the commit publish what one of two tasks stored."""
        transactions = client.transactions
        started = await transactions.start(tms.StartRequest(timeout_s=TIMEOUT_S))
        transaction = started.transaction_id
        kept = (await transactions.checkpoint(transaction)).write_pointer
        lost = (await transactions.checkpoint(transaction)).write_pointer
        stored = []
        for name in TOPICS:
            topic = client.topic(name)
            await topic.store(payload, kept)
            await topic.store(UNREACHABLE + payload, lost)
            stored.append(tms.Stored(TopicId(topic.namespace, name), kept))
        await transactions.commit(transaction, (), stored)

    async def until_committed(self, count: int) -> None:
        """Return when `count` more transactions were committed."""
        wanted = len(self.committed) + count
        async with asyncio.timeout(60):
            while len(self.committed) < wanted:
                self._changed.clear()
                await self._changed.wait()

    def check(self, shown: dict[str, list[bytes]]) -> None:
        """Check what readers of both topics are given."""
        for payloads in shown.values():
            assert max(Counter(payloads).values(), default=1) == 1
        left, right = (set(shown[topic]) for topic in TOPICS)
        assert left == right
        assert self.committed <= left
        assert not any(payload.startswith(UNREACHABLE) for payload in left)
        assert not self.undone & left


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
        await asyncio.sleep(chance.uniform(0, 0.02))
        server.kill()
        await asyncio.gather(*running)


async def check(server: ServerProcess, work: Work, slack_s: float = SLACK_S) -> None:
    """Check that readers come to the end of both topics in time, and what they find."""
    url = server.url  # which waits until it serves: a start takes long on a busy machine
    started = monotonic()
    async with await tms.aio.connect(url) as client:
        marker = f"marker {started}".encode()
        await client.publish_all({topic: [marker] for topic in TOPICS})
        while not all(marker in payloads for payloads in (await committed(client)).values()):
            assert monotonic() - started < TIMEOUT_S + slack_s
            await asyncio.sleep(0.05)
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
