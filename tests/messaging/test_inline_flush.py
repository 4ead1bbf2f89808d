"""The event loop writes a flush if requests come one at a time, otherwise the thread does."""

import asyncio
import threading
from collections.abc import AsyncIterator

import pytest
from hypothesis import given
from hypothesis import strategies as st
from prometheus_client import CollectorRegistry

from tables.store_tables import StoreTables
from tests.manual_clock import ManualClock
from tests.messaging.conftest import NOW_MS, TOPIC, FaultyStore
from tests.waiting import WAIT_S_MAX, turns
from tms.core.errors import OutcomeUnknown
from tms.core.limits import Limits
from tms.core.values.batch import Batch
from tms.core.values.message import FIRST_ID
from tms.core.values.reading import Reading
from tms.core.values.topic import TopicId
from tms.messaging import writer
from tms.messaging.metrics import MessagingMetrics
from tms.messaging.service import Service
from tms.messaging.store_runtime import StoreRuntime
from tms.messaging.write_requests import Writing
from tms.messaging.writer import InlineFlushPolicy

IN_A_ROW = writer._IN_A_ROW
THREAD_EVERY = writer._THREAD_EVERY
QUICK_S = writer._QUICK_S


class WatchedStore(FaultyStore):
    """A store that records which thread writes, and is slow on request."""

    now_s = 0.0
    """The time of the writer's clock, on which only writes take time."""

    def __init__(self) -> None:
        super().__init__()
        self.write_s = 0.0
        self.writers: list[threading.Thread] = []

    def write(self, batch: Batch) -> None:
        self.writers.append(threading.current_thread())
        WatchedStore.now_s += self.write_s
        super().write(batch)

    @property
    def last_was_here(self) -> bool:
        return self.writers[-1] is threading.current_thread()


class ElsewhereStore(WatchedStore):
    is_embedded = False


@pytest.fixture(autouse=True)
def _clock(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(writer, "perf_counter", lambda: WatchedStore.now_s)


@pytest.fixture
def store() -> WatchedStore:
    return WatchedStore()


async def service_on(store: WatchedStore, *, may_block_loop: bool = True) -> Service:
    tables, clock = StoreTables(store), ManualClock(NOW_MS)
    engine = StoreRuntime(
        tables, Limits(), clock, CollectorRegistry(), may_block_loop=may_block_loop
    )
    service = Service(Writing(engine))
    await service.create_topic(TOPIC)
    await service.topic(TOPIC)
    return service


@pytest.fixture
async def service(store: WatchedStore) -> AsyncIterator[Service]:
    service = await service_on(store)
    yield service
    store.passed.set()
    await service.close()


async def publish_until_here(service: Service, store: WatchedStore) -> None:
    """Publish one message after another until the event loop writes them."""
    for _ in range(2 * IN_A_ROW):
        await service.publish(TOPIC, [b"x"])
        if store.last_was_here:
            return
    raise AssertionError("it is always the write thread")


@pytest.mark.anyio
class TestWriter:
    async def test_requests_that_come_alone_are_written_by_the_loop(
        self, service: Service, store: WatchedStore
    ) -> None:
        await publish_until_here(service, store)
        by_the_lane = store.writers.index(threading.current_thread())

        assert by_the_lane >= IN_A_ROW
        assert len({*store.writers[:by_the_lane]}) == 1

    async def test_requests_that_come_together_are_not(
        self, service: Service, store: WatchedStore
    ) -> None:
        await publish_until_here(service, store)
        await asyncio.gather(*(service.publish(TOPIC, [b"x"]) for _ in range(2)))
        assert not store.last_was_here
        assert store.batches[-1] == 2
        for _ in range(IN_A_ROW):
            await service.publish(TOPIC, [b"x"])
            assert not store.last_was_here

    async def test_the_lane_writes_one_of_some(self, service: Service, store: WatchedStore) -> None:
        await publish_until_here(service, store)
        for _ in range(THREAD_EVERY):
            await service.publish(TOPIC, [b"x"])
            if not store.last_was_here:
                return
        raise AssertionError("it is always the loop that writes")

    async def test_a_poll_ends_it(self, service: Service, store: WatchedStore) -> None:
        await publish_until_here(service, store)
        [_ async for _ in service.poll(TOPIC, Reading(FIRST_ID, limit=1))]
        await service.publish(TOPIC, [b"x"])

        assert not store.last_was_here

    async def test_a_slow_write_ends_it(self, service: Service, store: WatchedStore) -> None:
        await publish_until_here(service, store)
        store.write_s = 2 * QUICK_S
        await service.publish(TOPIC, [b"x"])
        for _ in range(2 * IN_A_ROW):
            await service.publish(TOPIC, [b"x"])
            assert not store.last_was_here

    async def test_a_write_that_fails_is_reported_and_ends_it(
        self, service: Service, store: WatchedStore
    ) -> None:
        await publish_until_here(service, store)
        store.writes_fail = True
        with pytest.raises(OutcomeUnknown):
            await service.publish(TOPIC, [b"lost"])
        store.writes_fail = False
        await service.publish(TOPIC, [b"x"])

        assert not store.last_was_here
        blocks = service.poll(TOPIC, Reading(FIRST_ID, limit=1000))
        assert {m.payload async for block in blocks for m in block} == {b"x"}

    async def test_what_the_lane_was_asked_for_before_is_not_overtaken(
        self, service: Service, store: WatchedStore
    ) -> None:
        await publish_until_here(service, store)
        store.passed.clear()
        rescue = threading.Timer(WAIT_S_MAX, store.passed.set)
        rescue.start()
        creating = asyncio.create_task(service.create_topic(TopicId("default", "another")))
        await turns(10)
        publishing = asyncio.create_task(service.publish(TOPIC, [b"x"]))
        await turns(10)
        assert not publishing.done()
        store.passed.set()
        rescue.cancel()
        await asyncio.gather(creating, publishing)

        assert not store.last_was_here

    @pytest.mark.parametrize(
        ("kind", "may_block_loop"), [(ElsewhereStore, True), (WatchedStore, False)]
    )
    async def test_neither_a_store_elsewhere_nor_an_application_is_waited_for(
        self, kind: type[WatchedStore], *, may_block_loop: bool
    ) -> None:
        store = kind()
        service = await service_on(store, may_block_loop=may_block_loop)
        try:
            for _ in range(20 * IN_A_ROW):
                await service.publish(TOPIC, [b"x"])
                assert not store.last_was_here
        finally:
            await service.close()


Flush = tuple[int, int, float, bool, int]
"""Its requests, the queued ones, its seconds, whether it failed, and the polls before it."""
LONE: Flush = (1, 0, QUICK_S, False, 0)
OTHERS: tuple[Flush, ...] = (
    (2, 0, QUICK_S, False, 0),
    (1, 1, QUICK_S, False, 0),
    (1, 0, QUICK_S * 1.01, False, 0),
    (1, 0, QUICK_S, True, 0),
    (1, 0, QUICK_S, False, 1),
)
RUNS = st.tuples(st.integers(0, 2 * THREAD_EVERY), st.sampled_from(OTHERS))


@given(st.lists(RUNS, min_size=1, max_size=6))
def test_so_many_lone_flushes_in_a_row_are_waited_for(runs: list[tuple[int, Flush]]) -> None:
    metrics = MessagingMetrics(CollectorRegistry())
    lone = InlineFlushPolicy(metrics, allowed=True)
    in_a_row = 0
    for flush in (flush for count, other in runs for flush in (*[LONE] * count, other, LONE)):
        requests, waiting, seconds, failed, polls = flush
        metrics.cache_hits += polls
        is_the_loops = in_a_row >= IN_A_ROW and in_a_row % THREAD_EVERY != 0
        assert lone.is_inline(requests) == (is_the_loops and requests == 1 and not polls)
        lone.ended(requests, waiting, seconds, failed=failed)
        in_a_row = in_a_row + 1 if flush == LONE else 0
