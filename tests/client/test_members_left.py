"""The messages of a member whose task is cancelled, or whose client is closed."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

import tms
import tms.aio
from tests.client.taking import group, taken
from tests.servers.server_process import ServerProcess
from tests.waiting import WAIT_S_MAX

__all__ = ["group"]

AVAILABLE = [("available", 0)] * 5


async def standing(url: str, namespace: str) -> list[tuple[str, int]]:
    async with await tms.aio.connect(url, namespace) as client:
        group = client.topic("orders").group("billing")
        return [(each.state, each.attempts) for each in await group.open()]


@asynccontextmanager
async def holding(
    url: str, namespace: str, *, in_block: bool
) -> AsyncIterator["asyncio.Task[None]"]:
    """Yield a task that has taken five messages and works on one, in a `with` of it or without."""
    begun = asyncio.Event()
    client = await tms.aio.connect(url, namespace)
    topic = client.topic("orders")
    await topic.create()
    group = topic.group("billing")
    await group.create()
    await topic.publish([b"%d" % number for number in range(5)])

    async def work() -> None:
        async for message in group.take(prefetch=5):
            if in_block:
                async with message:
                    begun.set()
                    await asyncio.Event().wait()
            begun.set()
            await asyncio.Event().wait()

    task = asyncio.create_task(work())
    await begun.wait()
    yield task
    await client.close()
    del task


@pytest.mark.parametrize("in_block", [True, False])
def test_a_task_that_is_cancelled_gives_back_before_its_client_is_closed(
    server: ServerProcess, namespace: str, *, in_block: bool
) -> None:
    async def main() -> list[tuple[str, int]]:
        async with holding(server.url, namespace, in_block=in_block) as task:
            task.cancel()
            await asyncio.wait([task], timeout=WAIT_S_MAX)
        return await standing(server.url, namespace)

    assert asyncio.run(main()) == AVAILABLE


def test_a_client_that_is_closed_gives_back_what_its_tasks_have(
    server: ServerProcess, namespace: str
) -> None:
    async def main() -> list[tuple[str, int]]:
        async with holding(server.url, namespace, in_block=False):
            pass
        return await standing(server.url, namespace)

    assert asyncio.run(main()) == AVAILABLE


@pytest.mark.parametrize("store_kind", ["server"])
def test_what_was_given_and_not_settled_is_given_back_with_the_client(
    url: str, namespace: str, topic: tms.Topic, group: tms.TopicGroup
) -> None:
    topic.publish(b"one")
    with tms.connect(url, namespace) as other:
        [message] = taken(other.topic("orders").group("billing"), 1)
        assert [each.state for each in group.open()] == ["leased"]
    assert [(each.state, each.attempts) for each in group.open()] == [("available", 0)]
    with pytest.raises(RuntimeError):
        message.ack()
