"""A feature is recorded when it is first used, if all servers of the cluster know it."""

import asyncio
from collections.abc import AsyncIterator, Sequence

import pytest

from api.http.protocol.taskless import TasklessCall
from tables.memory import MemoryStore
from tables.store_tables import StoreTables
from tests.waiting import WAIT_S_MAX, turns, until
from tms.core.errors import MetadataUnavailable, StoreFormatOld
from tms.core.services.cluster import Instance
from tms.core.values.store_features import FEATURES, GROUPS
from tms.messaging.features import StoreFeatures
from tms.messaging.store_threads import StoreThreads
from tms.metadata.cache import JsonCodec

pytestmark = pytest.mark.anyio
OLD = b'{"id":1,"address":"http://1","version":"0.1.0","since_ms":1,"store_format":2}'
"""The entry of a server of a version that knows no features."""


class CountingStore(MemoryStore):
    asked = 0

    def features(self) -> frozenset[str]:
        self.asked += 1
        return super().features()


@pytest.fixture
async def threads() -> AsyncIterator[StoreThreads]:
    threads = StoreThreads(1)
    yield threads
    await threads.close()


async def test_a_server_alone_records_it_and_asks_no_more(threads: StoreThreads) -> None:
    store = CountingStore()
    features = StoreFeatures(StoreTables(store), threads)
    for _ in range(3):
        await features.use(GROUPS)

    assert store.asked == 1
    assert store.features() == {GROUPS}
    again = StoreFeatures(StoreTables(store), threads, instances=unasked)
    await again.use(GROUPS)


async def unasked() -> Sequence[Instance]:
    raise AssertionError("what is recorded is asked of nobody")


async def test_a_leader_waits_for_servers_that_do_not_know_it(threads: StoreThreads) -> None:
    store = MemoryStore()
    codec = JsonCodec(Instance)
    old = codec.decode(OLD)
    new = Instance(
        id=2, address="http://2", version="2", since_ms=1, store_format=3, features=FEATURES
    )
    assert codec.decode(codec.encode(new)) == new
    registered: Sequence[Instance] | None = [old, new]

    async def instances() -> Sequence[Instance]:
        if registered is None:
            raise MetadataUnavailable(reason="a test")
        return registered

    features = StoreFeatures(StoreTables(store), threads, instances)
    with pytest.raises(StoreFormatOld, match="1 http://1") as refused:
        await features.use(GROUPS)
    assert refused.value.detail == {"feature": GROUPS, "servers": ["1 http://1"]}
    registered = None
    with pytest.raises(MetadataUnavailable):
        await features.use(GROUPS)
    assert store.features() == frozenset()
    registered = [new]
    await features.use(GROUPS)

    assert store.features() == {GROUPS}


async def test_a_taskless_request_may_be_the_first_to_use_it(threads: StoreThreads) -> None:
    store, tasks = MemoryStore(), set[asyncio.Task[None]]()

    async def instances() -> Sequence[Instance]:
        async with asyncio.timeout(WAIT_S_MAX):  # as each request to a metadata store has
            await turns()
            return ()

    features = StoreFeatures(StoreTables(store), threads, instances)
    TasklessCall(features.use(GROUPS), asyncio.get_running_loop(), tasks, set()).start()
    await until(lambda: store.features() == {GROUPS})
