"""Clients of servers that share shards send each request straight to its topic's leader."""

import asyncio
import os
from collections.abc import AsyncIterator, Sequence

import pytest

import tms
import tms.aio
from tests.api.cluster.sharing import NAMESPACES, SharingServer, shared
from tests.waiting import until
from tms.core.values.shards import ShardBy

pytestmark = pytest.mark.anyio


@pytest.fixture
async def servers(anyio_backend: str) -> AsyncIterator[Sequence[SharingServer]]:
    async with shared() as servers:
        yield servers


async def forwarded(servers: Sequence[SharingServer]) -> int:
    """Return how many requests all servers have forwarded."""
    total = 0.0
    for server in servers:
        for line in (await server.http.get("/metrics")).text.splitlines():
            if line.startswith('tms_forwarded_total{outcome="answered"} '):
                total += float(line.rsplit(" ", 1)[1])
    return int(total)


async def work(url: str, namespace: str, *, direct: bool, name: str = "t") -> None:
    """Publish, read, and commit in one namespace."""
    async with await tms.aio.connect(url, namespace, direct=direct, retry_for_s=0) as client:
        await use(client, name)


async def use(client: tms.aio.AsyncClient, name: str) -> None:
    topic = client.topic(name)
    await topic.create(exist_ok=True)
    for _ in range(3):
        await topic.publish(b"x")
        async with client.transaction(home=name) as tx:
            await topic.publish(b"y", tx)
    assert await client.topics() == [name]
    assert len([each async for each in topic.poll(committed=True)]) % 6 == 0


@pytest.mark.parametrize("direct", [False, True])
async def test_nothing_is_forwarded_after_the_first_request(
    servers: Sequence[SharingServer], *, direct: bool
) -> None:
    urls = [server.url for server in servers]
    for first in (urls, urls[::-1]):
        for namespace in NAMESPACES:
            before = await forwarded(servers)
            await work(first[0] if direct else ",".join(first), namespace, direct=direct)
            assert await forwarded(servers) - before <= 1
    assert await forwarded(servers) == 3  # one per namespace that its first server does not lead
    await work(urls[0], "n1", direct=False)
    assert await forwarded(servers) > 3 + 6  # a client that knows one address is forwarded


async def test_a_client_follows_a_leader_that_moves(servers: Sequence[SharingServer]) -> None:
    first, second = servers
    url = f"{first.url},{second.url}"
    async with await tms.aio.connect(url, "n1", retry_for_s=5) as client:
        await use(client, "t")
        for old, new in ((second, first), (first, second)):
            await old.stop_leading(1)
            old.hear(1, None)
            waiting = asyncio.create_task(client.topic("t").publish(b"w"))
            await until(lambda: sum(each.routing.held for each in servers) == 1)
            await new.lead(1)
            old.hear(1, new)
            await waiting
            for _ in range(5):
                await client.topic("t").publish(b"w")
            before = await forwarded(servers)
            await client.topic("t").publish(b"w")
            assert await forwarded(servers) == before
        assert len([each async for each in client.topic("t").poll()]) == 6 + 14


async def test_a_child_of_fork_goes_to_the_leader_too(servers: Sequence[SharingServer]) -> None:
    def in_child(client: tms.Client) -> int:
        child = os.fork()
        if child == 0:
            try:
                client.topic("t").publish(b"child")
            except BaseException:
                os._exit(1)
            os._exit(0)
        return os.waitpid(child, 0)[1]

    url = ",".join(server.url for server in servers)
    with await asyncio.to_thread(tms.connect, url, "n1") as client:
        await asyncio.to_thread(client.topic("t").create)
        before = await forwarded(servers)
        assert await asyncio.to_thread(in_child, client) == 0
        assert await forwarded(servers) == before
        payloads = await asyncio.to_thread(lambda: [m.payload for m in client.topic("t").poll()])
        assert payloads == [b"child"]
        await asyncio.to_thread(client.close)


async def test_topics_in_shards_of_their_own_have_leaders_of_their_own(anyio_backend: str) -> None:
    async with shared(ShardBy.TOPIC) as servers:
        url = ",".join(server.url for server in servers)
        async with await tms.aio.connect(url, "n") as client:
            topics = [client.topic(f"t{number}") for number in range(9)]
            for topic in topics:
                await topic.create()
            before = await forwarded(servers)
            for topic in topics * 3:
                await topic.publish(b"x")
            assert await forwarded(servers) == before
