"""taskiq's own receiver runs tasks over our broker."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
from taskiq import InMemoryBroker, TaskiqResult
from taskiq.receiver import Receiver

import tms.aio
from tests.waiting import WAIT_S_MAX, until
from tms.contrib.taskiq import TmsBroker

pytestmark = pytest.mark.anyio


@asynccontextmanager
async def working(broker: TmsBroker) -> AsyncIterator[None]:
    """Run a worker of a broker that has been started."""
    finish = asyncio.Event()
    receiver = Receiver(broker, max_async_tasks=4)
    listening = asyncio.create_task(receiver.listen(finish))
    try:
        yield
    finally:
        finish.set()
        async with asyncio.timeout(WAIT_S_MAX):
            await listening


def broker_on(url: str, topic: str, **options: int) -> TmsBroker:
    broker = TmsBroker(url, topic=topic, **options)  # type: ignore[arg-type]
    return broker.with_result_backend(InMemoryBroker().result_backend)


async def test_tasks_run_and_are_acknowledged(url: str) -> None:
    broker = broker_on(url, "sums")

    @broker.task
    async def add(one: int, other: int) -> int:
        return one + other

    await broker.startup()
    try:
        tasks = [await add.kiq(number, 1) for number in range(20)]
        later = await add.kicker().with_labels(delay=0.05).kiq(100, 1)
        async with working(broker):
            for number, task in enumerate(tasks):
                result: TaskiqResult[int] = await task.wait_result(timeout=WAIT_S_MAX)
                assert result.return_value == number + 1
            assert (await later.wait_result(timeout=WAIT_S_MAX)).return_value == 101
        async with await tms.aio.connect(url) as client:
            state = (await client.topic("sums").group("workers").show()).state
            assert (state.unread, state.open) == (0, 0)
    finally:
        await broker.shutdown()


async def test_a_task_whose_worker_ends_runs_on_another(url: str) -> None:
    first, second = (broker_on(url, "moved") for _ in range(2))
    began, ran = asyncio.Event(), []

    @first.task(task_name="work", ack_type="manual")
    async def stop_within() -> None:
        began.set()

    @second.task(task_name="work")
    async def work() -> None:
        ran.append(1)

    await first.startup()
    await second.startup()
    try:
        await stop_within.kiq()
        async with working(first):
            async with asyncio.timeout(WAIT_S_MAX):
                await began.wait()
        await first.shutdown()  # it never acknowledged the task
        async with working(second):
            await until(lambda: ran == [1])
    finally:
        await second.shutdown()
