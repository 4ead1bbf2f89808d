"""Metadata servers are killed, one alone and one of three, while a store is in use."""

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from types import ModuleType

import pytest

from dev.etcd import servers as etcd_servers
from dev.processes import Servers
from dev.zookeeper import servers as zookeeper_servers
from tests.metadata.needed import needed
from tests.metadata.servers import Open, fresh_url
from tests.waiting import in_time, until
from tms.core.errors import MetadataUnavailable
from tms.metadata.cache import JsonCodec, MetadataCache
from tms.metadata.interface import MetadataStore

pytestmark = [pytest.mark.anyio, pytest.mark.slow]

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
    """Increments a value, and knows the last acknowledged increment."""

    store: MetadataStore
    acknowledged: int = 0
    refused: int = 0
    is_done: bool = False

    async def run(self) -> None:
        while not self.is_done:
            await until(self._has_counted)

    async def _has_counted(self) -> bool:
        try:
            await self.store.put("/count", str(self.acknowledged + 1).encode())
        except MetadataUnavailable:
            self.refused += 1
            return False
        self.acknowledged += 1
        return True

    async def until(self, number: int) -> None:
        await until(lambda: self.acknowledged >= number)

    async def end(self, writing: "asyncio.Future[None]", cache: MetadataCache[int]) -> None:
        """Stop writing; the cache must soon have the last acknowledged value."""
        self.is_done = True
        async with in_time():
            await writing
        await until(partial(self._is_in, cache))

    async def _is_in(self, cache: MetadataCache[int]) -> bool:
        with suppress(MetadataUnavailable):
            return await cache.get("/count") == self.acknowledged
        return False


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
    await writer.end(writing, cache)

    assert writer.refused
    found = await store.get("/e")
    assert found is not None
    assert found.stat == mine, "the session has outlived the server"
    await cache.close()


async def test_three_continue_without_any_one(
    three: tuple[str, Servers], sessions_at: Open
) -> None:
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
    await writer.end(writing, cache)
    await cache.close()


async def test_three_continue_while_one_pauses(
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
    cache = MetadataCache(store, JsonCodec(int))
    await writer.end(writing, cache)
    await cache.close()
