"""Servers that are killed, of one and of three, while a store is used."""

import asyncio
import itertools
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType

import pytest

from dev.etcd import servers as etcd_servers
from dev.processes import Servers
from dev.zookeeper import servers as zookeeper_servers
from tests.metadata.needed import needed
from tests.metadata.servers import Open, fresh_url
from tms.core.errors import MetadataUnavailable
from tms.metadata.cache import JsonCodec, MetadataCache
from tms.metadata.interface import MetadataStore

pytestmark = [pytest.mark.anyio, pytest.mark.slow]

BACK_S_MAX = 60
KINDS: dict[str, ModuleType] = {"zk": zookeeper_servers, "etcd": etcd_servers}


def started(kind: str, folder: Path, members: int) -> Servers:
    if missing := needed(kind):
        pytest.skip(f"{kind} needs {', '.join(missing)}")
    servers: Servers = KINDS[kind].start(folder, members=members)
    return servers


@pytest.fixture(params=["zk", "etcd"])
async def one(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[tuple[str, Servers]]:
    servers = started(request.param, tmp_path, 1)
    yield request.param, servers
    servers.stop()


@pytest.fixture(scope="module", params=["zk", "etcd"])
def three(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[tuple[str, Servers]]:
    servers = started(request.param, tmp_path_factory.mktemp(request.param), 3)
    yield request.param, servers
    servers.stop()


@dataclass
class Writer:
    """Counts a value up, and knows how far it was acknowledged."""

    store: MetadataStore
    acknowledged: int = 0
    refused: int = 0
    is_done: bool = False

    async def run(self) -> None:
        for number in itertools.count(1):
            while True:
                try:
                    await self.store.put("/count", str(number).encode())
                except MetadataUnavailable:
                    self.refused += 1
                    await asyncio.sleep(0.01)
                else:
                    self.acknowledged = number
                    break
            if self.is_done:
                return

    async def until(self, number: int) -> None:
        async with asyncio.timeout(BACK_S_MAX):
            while self.acknowledged < number:
                await asyncio.sleep(0.01)


async def test_a_killed_server_keeps_what_it_acknowledged(
    one: tuple[str, Servers], sessions_at: Open
) -> None:
    kind, servers = one
    url = fresh_url(kind, servers)
    store, other = await sessions_at(url), await sessions_at(url)
    cache = MetadataCache(other, JsonCodec(int))
    writer = Writer(store)
    writing = asyncio.ensure_future(writer.run())
    await writer.until(20)
    mine = await store.put("/e", b"", ephemeral=True)
    assert await cache.get("/count")
    (name,) = servers.commands
    await asyncio.to_thread(servers.kill, name)
    known = writer.acknowledged
    servers.start(name)
    await writer.until(known + 20)
    writer.is_done = True
    await asyncio.wait_for(writing, BACK_S_MAX)

    assert writer.refused
    async with asyncio.timeout(BACK_S_MAX):
        while await read(cache) != writer.acknowledged:
            await asyncio.sleep(0.01)
    found = await store.get("/e")
    assert found is not None
    assert found.stat == mine, "the session has outlived the server"
    await cache.close()


async def read(cache: MetadataCache[int]) -> int | None:
    try:
        return await cache.get("/count")
    except MetadataUnavailable:
        return None


async def test_three_go_on_without_any_one(three: tuple[str, Servers], sessions_at: Open) -> None:
    kind, servers = three
    url = fresh_url(kind, servers)
    store, other = await sessions_at(url), await sessions_at(url)
    cache = MetadataCache(other, JsonCodec(int))
    writer = Writer(store)
    writing = asyncio.ensure_future(writer.run())
    await writer.until(20)
    for is_of_leader in (False, True):
        first = await asyncio.to_thread(KINDS[kind].leader, servers)
        name = first if is_of_leader else next(each for each in servers.commands if each != first)
        await asyncio.to_thread(servers.kill, name)
        known = writer.acknowledged
        await writer.until(known + 50)
        servers.start(name)
        await asyncio.to_thread(KINDS[kind].wait_until_serving, servers, name)
    writer.is_done = True
    await asyncio.wait_for(writing, BACK_S_MAX)

    async with asyncio.timeout(BACK_S_MAX):
        while await read(cache) != writer.acknowledged:
            await asyncio.sleep(0.01)
    await cache.close()


async def test_three_go_on_while_one_stands_still(
    three: tuple[str, Servers], sessions_at: Open
) -> None:
    kind, servers = three
    name = await asyncio.to_thread(KINDS[kind].leader, servers)
    store = await sessions_at(fresh_url(kind, servers), 6)
    writer = Writer(store)
    writing = asyncio.ensure_future(writer.run())
    await writer.until(5)
    servers.pause(name)
    try:
        known = writer.acknowledged
        await writer.until(known + 20)
    finally:
        servers.resume(name)
    writer.is_done = True
    await asyncio.wait_for(writing, BACK_S_MAX)

    cache = MetadataCache(store, JsonCodec(int))
    async with asyncio.timeout(BACK_S_MAX):
        while await read(cache) != writer.acknowledged:
            await asyncio.sleep(0.01)
    await cache.close()
