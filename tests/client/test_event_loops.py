"""A client for asyncio belongs to one event loop, and a client for threads to none."""

import asyncio
from collections.abc import Awaitable
from functools import partial
from pathlib import Path

import pytest

import tms
import tms.aio


@pytest.mark.parametrize("used_before", [True, False])
def test_another_loop_is_explained(url: str, namespace: str, *, used_before: bool) -> None:
    async def connect() -> tms.aio.AsyncClient:
        client = await tms.aio.connect(url, namespace)
        if used_before:
            await client.topic("orders").create()
        return client

    async def use(client: tms.aio.AsyncClient) -> None:
        def ask_what_is_in_progress() -> Awaitable[object]:
            return client.transactions.in_progress()

        topic = client.topic("orders")
        calls = (client.topics, topic.properties, partial(topic.publish, b"x"))
        for call in (*calls, ask_what_is_in_progress):
            with pytest.raises(RuntimeError, match="belongs to another event loop"):
                await call()

    first, second = asyncio.Runner(), asyncio.Runner()
    client = first.run(connect())
    if used_before:
        second.run(use(client))
    elif url.startswith("http"):
        assert second.run(client.topics()) == [], "it was not used in the first one"
        first, second = second, first
    first.run(client.close())
    first.close()
    second.close()


def test_threads_may_run_loops_of_their_own(tmp_path: Path) -> None:
    """A client for threads works within a coroutine of one loop, and then of another loop."""
    with tms.connect(f"leveldb:{tmp_path / 'data'}") as client:

        async def use() -> None:
            client.topic("orders").create(exist_ok=True)
            assert list(client.transactions.in_progress()) == []
            assert list(client.namespaces.namespaces()) == []
            client.topic("orders").publish(b"x")

        asyncio.run(use())
        asyncio.run(use())
        assert len(list(client.topic("orders").poll())) == 2
