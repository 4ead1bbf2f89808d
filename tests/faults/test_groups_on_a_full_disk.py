"""The disk fills up while members of a group work: no ack is lost, and they resume on their own."""

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

import tms.aio
from tests.faults.shortage import FileLimit, Shortage, small_disk
from tests.servers.server_process import ServerProcess
from tests.waiting import in_time, turns, until
from tms.client.async_client import AsyncClient
from tms.core.errors import LeaseLost, OutcomeUnknown, Unavailable

BACKLOG = 100
"""The number of waiting orders, so that each member always has some."""
LARGE = bytes(500_000)


@pytest.fixture
def place(tmp_path: Path) -> Iterator[tuple[Path, Shortage]]:
    """A folder for a server, and a shortage for its disk: a full disk, if mounting is permitted."""
    with small_disk(tmp_path / "disk", 64) as disk:
        if disk is None:
            yield tmp_path / "data", FileLimit(0)
        else:
            yield disk.data, disk


class Shop:
    """Incoming orders, and members of a group that acknowledge them, alone or with a bill."""

    def __init__(self, client: AsyncClient) -> None:
        self._client = client
        self._orders, self._bills = client.topic("orders"), client.topic("bills")
        self._group = self._orders.group("billing")
        self.published: list[bytes] = []
        self.acknowledged: list[bytes] = []
        self.billed: list[bytes] = []
        self.failures: dict[str, list[Exception]] = {}
        self.changed = asyncio.Event()
        self.is_closed = False

    async def create(self) -> None:
        for name in ("orders", "bills", "large"):
            await self._client.topic(name).create()
        await self._group.create(lease_s=1, retry_s=0)

    async def publish(self) -> None:
        number = 0
        while not self.is_closed:
            number += 1
            payloads = [b"%d/%d" % (number, index) for index in range(10)]
            async with self._tried("publish"):
                await self._orders.publish(payloads)
                self.published += payloads
            await self.until(lambda: self.is_closed or self._backlog() <= BACKLOG)

    def _backlog(self) -> int:
        return len(self.published) - len(self.acknowledged) - len(self.billed)

    def close(self) -> None:
        """Stop publishing."""
        self.is_closed = True
        self.changed.set()

    async def acknowledge(self) -> None:
        async for message in self._group.take(prefetch=4):
            async with self._tried("ack"):
                async with message:
                    pass
                self.acknowledged.append(message.payload)

    async def bill(self) -> None:
        async for message in self._group.take(prefetch=4):
            async with self._tried("commit"):
                async with self._client.transaction(timeout_s=2) as tx:
                    await self._bills.publish(message.payload, tx)
                    await message.ack(tx)
                self.billed.append(message.payload)
            if message.settling.name == "HELD":  # no transaction could be started
                async with self._tried("nack"):
                    await message.nack()

    async def bill_at_once(self) -> None:
        async for message in self._group.take(prefetch=4):
            async with self._tried("publish_all"), message:
                await self._client.publish_all({"bills": message.payload}, acks=[message])
                self.billed.append(message.payload)

    @asynccontextmanager
    async def _tried(self, what: str) -> AsyncIterator[None]:
        try:
            yield
        except (Unavailable, OutcomeUnknown, LeaseLost) as error:
            self.failures.setdefault(what, []).append(error)
            await turns()
        self.changed.set()

    async def until(self, holds: Callable[[], bool]) -> None:
        async with in_time():
            while not holds():
                self.changed.clear()
                await self.changed.wait()

    def has_failed(self) -> bool:
        return {"ack", "commit", "publish_all"} <= set(self.failures)

    async def until_drained(self) -> None:
        await until(self._is_drained)
        # Readers stop at transactions in progress.
        await until(self._has_no_transaction)

    async def _is_drained(self) -> bool:
        state = (await self._group.show()).state
        return state.open == state.unread == 0

    async def _has_no_transaction(self) -> bool:
        return not await self._client.transactions.in_progress()

    async def check(self) -> None:
        """Check that each order was acknowledged once, with a bill or without."""
        bills = [bill.payload async for bill in self._bills.poll(committed=True, limit=10_000)]
        orders = [each.payload async for each in self._orders.poll(committed=True, limit=10_000)]
        assert set(self.published) <= set(orders)
        assert len(set(bills)) == len(bills)
        assert set(self.billed) <= set(bills)
        assert not set(bills) & set(self.acknowledged)
        assert len(self.acknowledged) == len(set(self.acknowledged))
        state = (await self._group.show()).state
        assert (state.open, state.unread) == (0, 0)


async def take_what_room_is_left(client: AsyncClient) -> None:
    with pytest.raises((Unavailable, OutcomeUnknown)):  # noqa: PT012
        while True:
            await client.topic("large").publish(LARGE)


async def work(server: ServerProcess, shortage: Shortage) -> Shop:
    async with await tms.aio.connect(server.url, retry_for_s=0) as client:
        shop = Shop(client)
        await shop.create()
        working = (shop.acknowledge, shop.bill, shop.bill_at_once)
        async with asyncio.TaskGroup() as tasks:
            publishing = tasks.create_task(shop.publish())
            workers = [tasks.create_task(each()) for each in working]
            await shop.until(lambda: min(len(shop.acknowledged), len(shop.billed)) >= 20)
            shortage.begin(server)
            await take_what_room_is_left(client)
            await shop.until(shop.has_failed)
            shortage.end(server)
            done = len(shop.acknowledged), len(shop.billed)
            await shop.until(
                lambda: len(shop.acknowledged) >= done[0] + 20 and len(shop.billed) >= done[1] + 20
            )
            shop.close()
            await publishing
            await shop.until_drained()
            for task in workers:
                task.cancel()
        await shop.check()
        return shop


@pytest.mark.slow
def test_what_is_acknowledged_stays_so_and_the_rest_is_given_again(
    place: tuple[Path, Shortage],
) -> None:
    folder, shortage = place

    async def check_again(server: ServerProcess, shop: Shop) -> None:
        async with await tms.aio.connect(server.url) as client:
            again = Shop(client)
            again.published, again.billed = shop.published, shop.billed
            again.acknowledged = shop.acknowledged
            await again.check()

    with ServerProcess(f"leveldb:{folder}") as server:
        shop = asyncio.run(work(server, shortage))
        assert "Traceback" not in server.log
        server.kill()
    with ServerProcess(f"leveldb:{folder}") as server:
        asyncio.run(check_again(server, shop))
