"""The number of topics is limited, and creating one needs no scan to count them."""

from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import _GeneratorContextManager, asynccontextmanager

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from prometheus_client import CollectorRegistry

from tables.keys import metadata_key
from tables.memory import MemoryStore
from tables.store import METADATA, Row
from tables.store_tables import StoreTables
from tests.faults.moody_store import MoodyStore
from tests.manual_clock import ManualClock
from tests.messaging.conftest import NOW_MS
from tests.scale import scaled
from tms.core.errors import OutcomeUnknown, TooLarge, TopicExists, TopicNotFound
from tms.core.limits import Limits
from tms.core.values.topic import TopicId
from tms.messaging.service import Service
from tms.messaging.store_runtime import StoreRuntime
from tms.messaging.write_requests import Writing

pytestmark = pytest.mark.anyio
NAMES = ("a", "b", "c", "d", "e")


class CountingStore(MemoryStore):
    """A memory store that counts the scans of the Metadata table."""

    def __init__(self) -> None:
        super().__init__()
        self.scans = 0

    def scan(
        self,
        table: str,
        start: bytes,
        stop: bytes,
        *,
        reverse: bool = False,
        limit: int | None = None,
    ) -> _GeneratorContextManager[Iterator[Row]]:
        self.scans += table == METADATA
        return super().scan(table, start, stop, reverse=reverse, limit=limit)


@asynccontextmanager
async def service_on(store: MemoryStore | MoodyStore, topics_max: int) -> AsyncIterator[Service]:
    engine = StoreRuntime(
        StoreTables(store),
        Limits(topics_max=topics_max),
        ManualClock(NOW_MS),
        CollectorRegistry(),
    )
    service = Service(Writing(engine))
    try:
        yield service
    finally:
        await service.close()


def topic(name: str, namespace: str = "ns") -> TopicId:
    return TopicId(namespace, name)


async def test_one_more_than_may_be_is_refused_until_one_is_deleted() -> None:
    async with service_on(MemoryStore(), 2) as service:
        await service.create_topic(topic("a"))
        await service.create_topic(topic("a", "other"))

        with pytest.raises(TooLarge) as refused:
            await service.create_topic(topic("b"))
        assert refused.value.problem.code == "topic_limit_reached"
        assert refused.value.detail == {"topic": "ns:b", "topics_max": 2}
        assert await service.topics("ns") == ["a"]
        with pytest.raises(TopicExists):
            await service.create_topic(topic("a"))

        await service.delete_topic(topic("a", "other"))
        await service.create_topic(topic("b"))
        with pytest.raises(TooLarge):
            await service.create_topic(topic("a", "other"))


async def test_those_of_a_store_that_is_opened_count_but_for_deleted_and_damaged_ones() -> None:
    store = MoodyStore()
    async with service_on(store, 100) as service:
        for name in NAMES:
            await service.create_topic(topic(name))
        await service.delete_topic(topic("a"))
        await service.delete_topic(topic("b"))
    batch = store.batch()
    batch.put(METADATA, metadata_key(topic("c")), b"damaged")
    store.write(batch)

    async with service_on(store, 4) as service:
        await service.create_topic(topic("a"))  # the others are d, e, and c, which may be a topic
        with pytest.raises(TooLarge):
            await service.create_topic(topic("b"))


async def test_they_are_counted_once() -> None:
    store = CountingStore()
    async with service_on(store, 10_000) as service:
        await service.create_topic(topic("first"))
        counted = store.scans
        for number in range(2_500):
            await service.create_topic(topic(f"t{number}"))
        await service.delete_topic(topic("first"))
        assert store.scans == counted == 1
    store.scans = 0
    other = CountingStore()
    other._tables = store._tables
    async with service_on(other, 2_500) as service:
        with pytest.raises(TooLarge):
            await service.create_topic(topic("one-more"))
        assert other.scans == 3, "2,501 rows, a thousand at a time"


@settings(max_examples=scaled(50))
@given(
    steps=st.lists(
        st.tuples(st.sampled_from(("create", "delete", "fail", "lose")), st.sampled_from(NAMES)),
        max_size=40,
    )
)
def test_the_number_is_that_of_the_topics_whatever_fails(steps: Sequence[tuple[str, str]]) -> None:
    import anyio  # noqa: PLC0415

    anyio.run(run_steps, steps)


async def run_steps(steps: Sequence[tuple[str, str]]) -> None:
    store = MoodyStore()
    there: set[str] = set()
    async with service_on(store, 3) as service:
        for step, name in steps:
            if step in ("fail", "lose"):
                store.fail_next(is_done=step == "lose")
            try:
                if step == "delete":
                    await service.delete_topic(topic(name))
                    there.remove(name)
                else:
                    await service.create_topic(topic(name))
                    there.add(name)
            except TopicExists:
                assert name in there
            except TopicNotFound:
                assert name not in there
            except TooLarge:
                assert len(there) == 3
                assert name not in there
            except OutcomeUnknown:
                store.settle()
                there = set(await service.topics("ns"))
            store.fail_next(is_done=False)
            store._next_is_done = None
        assert set(await service.topics("ns")) == there
        assert len(there) <= 3
