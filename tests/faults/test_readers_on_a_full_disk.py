"""The disk fills up while clients run transactions: readers of all kinds continue.

They get everything that was durable before, and nothing that is in doubt.
"""

import asyncio
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import tms.aio
from tests.faults.shortage import FileLimit, FullDisk, Shortage, small_disk
from tests.servers.server_process import ServerProcess
from tests.waiting import in_time, turns
from tms.client.async_client import AsyncClient
from tms.core.errors import OutcomeUnknown, TmsError, Unavailable
from tms.core.values.subscriptions import Advance
from tms.core.values.topic import TopicId

FAILURES = 20
ROUNDS = 10
LARGE = bytes(500_000)
ORDERS = TopicId("default", "orders")


@pytest.fixture(params=["files may not grow", "disk is full"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[tuple[Path, Shortage]]:
    """A folder for a server, and a shortage for its disk."""
    if request.param == "files may not grow":
        yield tmp_path, FileLimit(0)
        return
    with small_disk(tmp_path / "disk", 64) as disk:
        if disk is None:
            pytest.skip("mounting a file system takes root")
        assert isinstance(disk, FullDisk)
        yield disk.data, disk


class Consumer:
    """Commits one message after another, each with a move of its position."""

    def __init__(self, client: AsyncClient) -> None:
        self._client = client
        self._topic = client.topic("orders")
        self.committed: list[bytes] = []
        self.in_doubt: list[bytes] = []
        self.failures: list[TmsError] = []
        self.changed = asyncio.Event()
        self._number = 0

    async def once(self) -> None:
        """Commit one; raise the server's error."""
        self._number += 1
        payload = b"%d" % self._number
        transactions = self._client.transactions
        tx = await transactions.start(tms.StartRequest(timeout_s=600))
        [published] = await self._topic.publish(payload, tx.transaction_id)
        position = await self._topic.subscription("s").position()
        move = Advance(ORDERS, "s", published, position.version)
        self.in_doubt.append(payload)
        await transactions.commit(tx.transaction_id, tms.CommitRequest([move]))
        self.in_doubt.remove(payload)
        self.committed.append(payload)

    async def run(self) -> None:
        """Continue after any failure."""
        while True:
            try:
                await self.once()
            except (Unavailable, OutcomeUnknown) as error:
                self.failures.append(error)
                await turns()
            self.changed.set()

    async def until(self, holds: Callable[[], bool]) -> None:
        async with in_time():
            while not holds():
                self.changed.clear()
                await self.changed.wait()


async def payloads(client: AsyncClient, topic: str, **options: Any) -> list[bytes]:
    return [message.payload async for message in client.topic(topic).poll(**options)]


async def take_what_room_is_left(client: AsyncClient) -> None:
    """Fill the disk by transactional publishes, so that the first failed write is one of them."""
    with pytest.raises((Unavailable, OutcomeUnknown)):  # noqa: PT012
        while True:
            await client.publish_all({"large": LARGE})


async def read_all_ways(
    client: AsyncClient, consumer: Consumer, own: int, moved: tms.SubscriptionPosition
) -> None:
    """Read as a committed reader, in a transaction, and read positions and ends."""
    committed = [b"committed", *consumer.committed]
    assert await payloads(client, "orders", committed=True, limit=10_000) == committed
    assert await payloads(client, "orders", tx=own) == [b"committed"]
    assert await payloads(client, "own", tx=own) == [b"own"]
    assert await payloads(client, "own", committed=True) == []
    assert await client.topic("orders").subscription("s").position() == moved
    told = await client.topic("orders").subscriptions()
    assert told == [moved]
    found = await client.ranges(["orders"])
    assert found["orders"] is not None


@pytest.mark.slow
def test_they_are_given_what_is_durable(place: tuple[Path, Shortage]) -> None:
    folder, shortage = place

    async def run(server: ServerProcess) -> None:
        async with (
            await tms.aio.connect(server.url, retry_for_s=0) as client,
            asyncio.TaskGroup() as tasks,
        ):
            topic, transactions = client.topic("orders"), client.transactions
            await topic.create()
            await client.topic("own").create()
            await client.topic("large").create()
            await topic.subscription("s").create()
            await topic.publish(b"committed")
            own = (await transactions.start(tms.StartRequest(timeout_s=600))).transaction_id
            await client.topic("own").publish(b"own", own)
            await transactions.invalidate(
                (await transactions.start(tms.StartRequest())).transaction_id
            )
            consumer = Consumer(client)
            running = tasks.create_task(consumer.run())
            await consumer.until(lambda: len(consumer.committed) >= 20)
            shortage.begin(server)
            await take_what_room_is_left(client)
            await consumer.until(lambda: len(consumer.failures) >= FAILURES)

            moved = await topic.subscription("s").position()
            waiting = tasks.create_task(payloads(client, "orders", committed=True, wait_s=30))
            for _ in range(ROUNDS):
                await read_all_ways(client, consumer, own, moved)
            assert waiting.done()

            shortage.end(server)
            done = len(consumer.committed)
            await consumer.until(lambda: len(consumer.committed) >= done + 20)
            running.cancel()
            await asyncio.wait([running])
            for (
                left
            ) in await transactions.in_progress():  # requests that failed before their commit
                await transactions.invalidate(left.transaction_id)
            shown = await payloads(client, "orders", committed=True, limit=10_000)
            assert shown[0] == b"committed"
            assert set(consumer.committed) <= set(shown[1:])
            assert set(shown[1:]) <= {*consumer.committed, *consumer.in_doubt}

    with ServerProcess(f"leveldb:{folder}") as server:
        asyncio.run(run(server))
