"""The server is killed with -9 while messages are scheduled, cancelled and published.

A message that was certainly scheduled is published once, waits, or was cancelled. One that was
certainly cancelled is never published.
"""

import asyncio
import random
from collections import Counter
from pathlib import Path

import tms.aio
from tests.scale import scaled
from tests.servers.server_process import ServerProcess
from tests.waiting import until
from tms.client.async_client import AsyncClient
from tms.core.errors import OutcomeUnknown, ScheduledNotFound, Unavailable

ROUNDS = scaled(20)
TOPIC = "reminders"
LATER_S = 3_600
TASKS = 4


class Reminders:
    """The record of each message, by its payload."""

    def __init__(self) -> None:
        self.count = 0
        self.soon: set[bytes] = set()
        """Scheduled for certain, and due within a second."""
        self.near: dict[bytes, str] = {}
        """Those of them that can be cancelled, by payload with their ids."""
        self.later: dict[bytes, str] = {}
        """Scheduled for certain, and due after the test, by payload with their ids."""
        self.is_later: set[bytes] = set()
        self.cancelled: set[bytes] = set()
        self.in_doubt: set[bytes] = set()
        """Messages of a call without an answer."""

    async def work(self, client: AsyncClient, chance: random.Random) -> None:
        """Schedule and cancel until the server is gone."""
        try:
            while True:
                if self.later and chance.random() < 0.3:
                    await self._cancel(client, chance.choice(list(self.later)))
                elif self.near and chance.random() < 0.3:
                    await self._cancel_near(client, next(iter(self.near)))
                else:
                    await self._schedule(client, chance)
        except (Unavailable, OutcomeUnknown):
            return

    async def _schedule(self, client: AsyncClient, chance: random.Random) -> None:
        topic, payloads = client.topic(TOPIC), [b"%d" % (self.count + each) for each in range(3)]
        self.count += len(payloads)
        after = chance.choice((0, 0.02, 0.3, LATER_S))
        if after == LATER_S:
            self.is_later.update(payloads)
        self.in_doubt.update(payloads)
        if after < LATER_S and chance.random() < 0.5:
            async with client.transaction() as tx:
                await topic.schedule(payloads, tx, after=after)
                if chance.random() < 0.2:
                    await tx.abort()
                    self.in_doubt.difference_update(payloads)
                    self.cancelled.update(payloads)
                    return
        else:
            ids = await topic.schedule(payloads, after=after)
            if after == LATER_S:
                self.later.update(zip(payloads, ids, strict=True))
            elif after:
                self.near.update(zip(payloads, ids, strict=True))
        self.in_doubt.difference_update(payloads)
        if after < LATER_S:
            self.soon.update(payloads)

    async def _cancel(self, client: AsyncClient, payload: bytes) -> None:
        scheduled_id = self.later.pop(payload)
        self.in_doubt.add(payload)
        try:
            await client.topic(TOPIC).cancel_scheduled(scheduled_id)
        except ScheduledNotFound as error:
            raise AssertionError(f"{payload!r} was neither published nor cancelled") from error
        self.in_doubt.remove(payload)
        self.cancelled.add(payload)

    async def _cancel_near(self, client: AsyncClient, payload: bytes) -> None:
        """Cancel a message at about the time when it is due: it is cancelled or published."""
        scheduled_id = self.near.pop(payload)
        self.in_doubt.add(payload)
        self.soon.remove(payload)
        try:
            await client.topic(TOPIC).cancel_scheduled(scheduled_id)
        except ScheduledNotFound:
            self.soon.add(payload)
        else:
            self.cancelled.add(payload)
        self.in_doubt.remove(payload)

    async def check(self, client: AsyncClient) -> None:
        """Wait until due messages are published, and compare everything."""
        topic = client.topic(TOPIC)

        async def are_published() -> bool:
            counts.clear()
            counts.update([message.payload async for message in topic.poll()])
            return self.soon <= counts.keys()

        async def nothing_is_due() -> bool:
            first = await topic.scheduled(limit=1)
            return not first or first[0].message.payload in self.is_later

        counts = Counter[bytes]()
        await until(are_published)
        await until(nothing_is_due)
        assert await are_published()
        waiting = Counter[bytes]()
        after = None
        while page := await topic.scheduled(after=after, limit=1_000):
            waiting.update(each.message.payload for each in page)
            after = page[-1].id
        assert max(counts.values(), default=1) == 1, "each is published once"
        assert max(waiting.values(), default=1) == 1
        assert not self.cancelled & (counts.keys() | waiting.keys())
        assert not self.is_later & counts.keys()
        assert self.later.keys() <= waiting.keys()
        assert waiting.keys() <= self.later.keys() | self.in_doubt


async def crash(server: ServerProcess, reminders: Reminders, chance: random.Random) -> None:
    """Check the current state, then kill the server while it works."""
    async with await tms.aio.connect(server.url, retry_for_s=0) as client:
        await client.topic(TOPIC).create(exist_ok=True)
        await reminders.check(client)
        known = len(reminders.soon) + chance.choice((1, 30, 100))
        tasks = [asyncio.create_task(reminders.work(client, chance)) for _ in range(TASKS)]
        await until(lambda: len(reminders.soon) >= known or all(each.done() for each in tasks))
        killed = asyncio.Event()
        asyncio.get_running_loop().call_later(chance.uniform(0, 0.02), killed.set)
        await killed.wait()
        server.kill()
        await asyncio.gather(*tasks)


def test_scheduled_messages_survive_kill_9(tmp_path: Path, chance: random.Random) -> None:
    reminders = Reminders()

    async def check() -> None:
        async with await tms.aio.connect(server.url) as client:
            await reminders.check(client)

    for _ in range(ROUNDS):
        with ServerProcess(f"leveldb:{tmp_path}") as server:
            asyncio.run(crash(server, reminders, chance))
    with ServerProcess(f"leveldb:{tmp_path}") as server:
        asyncio.run(check())
        assert server.stop() == 0
    assert reminders.soon
    assert reminders.cancelled
