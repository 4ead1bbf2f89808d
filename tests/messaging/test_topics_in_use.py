"""More topics are in use than fit in memory: all requests are answered, and none spins."""

import asyncio
from collections.abc import AsyncIterator, Sequence

import pytest
from prometheus_client import CollectorRegistry

from tables.memory import MemoryStore
from tables.store_tables import StoreTables
from tests.manual_clock import ManualClock
from tests.messaging.conftest import NOW_MS
from tests.waiting import in_time, turns
from tms.core.errors import TooLarge
from tms.core.limits import Limits
from tms.core.services.commits import CommitRequest, Stored
from tms.core.services.transactions import StartRequest
from tms.core.values.message import FIRST_ID
from tms.core.values.reading import Isolation, Reading
from tms.core.values.subscriptions import Advance
from tms.core.values.topic import TopicId
from tms.server.node import OpenServices, services_on

pytestmark = pytest.mark.anyio

IN_MEMORY_MAX = 4
TOPICS = [TopicId("default", f"t{number:02}") for number in range(4 * IN_MEMORY_MAX)]
FITTING, TOO_MANY = TOPICS[:IN_MEMORY_MAX], TOPICS[: IN_MEMORY_MAX + 1]
ID = b"\x01" * 20


class CountingStore(MemoryStore):
    """A memory store that counts reads of topic metadata."""

    loads = 0

    def get(self, table: str, key: bytes) -> bytes | None:
        self.loads += table == "metadata"
        return super().get(table, key)


@pytest.fixture
def store() -> CountingStore:
    return CountingStore()


@pytest.fixture
async def services(
    store: CountingStore, registry: CollectorRegistry
) -> AsyncIterator[OpenServices]:
    limits = Limits(topics_in_memory_max=IN_MEMORY_MAX)
    services = await services_on(StoreTables(store), limits, ManualClock(NOW_MS), registry)
    for topic_id in TOPICS:
        await services.messaging.create_topic(topic_id)
    yield services
    await services.close()
    in_memory = registry.get_sample_value("tms_topics_in_memory")
    assert in_memory is not None
    assert in_memory <= IN_MEMORY_MAX


def of_each(topics: Sequence[TopicId]) -> dict[TopicId, list[bytes]]:
    return {topic_id: [b"x"] for topic_id in topics}


async def counts(services: OpenServices, topics: Sequence[TopicId]) -> list[int]:
    return [
        (
            await services.messaging.page(
                topic_id, Reading(FIRST_ID, limit=100, view=Isolation.COMMITTED)
            )
        ).count
        for topic_id in topics
    ]


async def test_as_many_as_are_kept_are_published_to_at_once(services: OpenServices) -> None:
    async with in_time():
        await services.messaging.publish_all(of_each(FITTING))
        assert await counts(services, FITTING) == [1] * len(FITTING)


async def test_more_than_are_kept_are_refused_with_the_bound(services: OpenServices) -> None:
    async with in_time():
        with pytest.raises(TooLarge) as caught:
            await services.messaging.publish_all(of_each(TOO_MANY))
        assert caught.value.problem.code == "too_many_topics_at_once"
        assert caught.value.detail == {
            "count": len(TOO_MANY),
            "topics_in_memory_max": IN_MEMORY_MAX,
        }
        assert await counts(services, TOO_MANY) == [0] * len(TOO_MANY)


async def test_publishers_of_many_topics_do_not_lock_each_other_out(
    services: OpenServices,
) -> None:
    """Each of three publishers uses three quarters of the limit, in conflicting orders."""
    groups = [TOPICS[start : start + 3] for start in (0, 3, 6)]
    groups += [group[::-1] for group in groups]
    async with in_time():
        for _ in range(20):
            await asyncio.gather(
                *(services.messaging.publish_all(of_each(group)) for group in groups),
                *(services.messaging.publish(topic_id, [b"y"]) for topic_id in TOPICS[9:]),
            )
        assert await counts(services, TOPICS[:9]) == [40] * 9
        assert await counts(services, TOPICS[9:]) == [20] * len(TOPICS[9:])


async def test_a_commit_of_many_topics(services: OpenServices) -> None:
    """It publishes to as many topics as are kept, and moves positions in as many others."""
    messaging, transactions = services.messaging, services.transactions
    others = TOPICS[IN_MEMORY_MAX : 2 * IN_MEMORY_MAX]
    for topic_id in others:
        await services.subscriptions.create_subscription(topic_id, "s")
    versions = [
        (await services.subscriptions.subscription(topic_id, "s")).version for topic_id in others
    ]
    tx = await transactions.start(StartRequest())
    for topic_id in FITTING:
        await messaging.store(topic_id, [b"x"], tx.write_pointer)
    async with in_time():
        await transactions.commit(
            tx.transaction_id,
            CommitRequest(
                [
                    Advance(topic_id, "s", ID, version)
                    for topic_id, version in zip(others, versions, strict=True)
                ],
                [Stored(topic_id, tx.write_pointer) for topic_id in FITTING],
            ),
        )
    assert await counts(services, FITTING) == [1] * len(FITTING)
    for topic_id in others:
        assert (await services.subscriptions.subscription(topic_id, "s")).after == ID


async def test_a_commit_of_too_many_topics_is_refused_with_the_bound(
    services: OpenServices,
) -> None:
    tx = await services.transactions.start(StartRequest())
    stored = [Stored(topic_id, tx.write_pointer) for topic_id in TOO_MANY]
    advances = [Advance(topic_id, "s", ID, 0) for topic_id in TOO_MANY]
    async with in_time():
        for asked in (CommitRequest(publish=stored), CommitRequest(advances)):
            with pytest.raises(TooLarge) as caught:
                await services.transactions.commit(tx.transaction_id, asked)
            assert caught.value.problem.code == "too_many_topics_at_once"
        await services.transactions.commit(tx.transaction_id)


async def test_polls_that_wait_for_more_topics_do_not_evict_each_other(
    services: OpenServices, store: CountingStore
) -> None:
    messaging = services.messaging

    async def read_thread_turns(count: int) -> None:
        """Wait `count` times until the read thread has done its queued work."""
        for _ in range(count):
            await messaging.topics("default")

    waiting = [
        asyncio.create_task(messaging.page(topic_id, Reading(FIRST_ID, limit=10), wait_s=30))
        for topic_id in TOPICS
    ]
    for _ in range(3):
        await messaging.publish(TOPICS[0], [b"x"])
        await messaging.page(TOPICS[1], Reading(FIRST_ID, limit=10))
        await turns(100)  # a spinning request would use every turn
    await read_thread_turns(20)  # on a busy machine topics are loaded once more
    loads = store.loads
    await read_thread_turns(20)
    assert store.loads == loads
    assert [task.done() for task in waiting] == [True, *[False] * (len(TOPICS) - 1)]

    async with in_time():
        for topic_id in TOPICS:
            await messaging.publish(topic_id, [b"y"])
        pages = await asyncio.gather(*waiting)
    assert [page.count for page in pages] == [1] * len(TOPICS)


async def test_what_takes_a_read_first_keeps_its_topic(services: OpenServices) -> None:
    """Otherwise the request would have to be retried again and again."""
    messaging, subscriptions = services.messaging, services.subscriptions
    tx = await services.transactions.start(StartRequest())
    async with in_time():
        for number in range(20):
            name = f"s{number}"
            await asyncio.gather(
                *(messaging.store(topic_id, [b"x"], tx.write_pointer) for topic_id in TOPICS),
                *(subscriptions.create_subscription(topic_id, name) for topic_id in TOPICS),
            )
        published = await asyncio.gather(
            *(messaging.publish(topic_id, [b"x"], tx.write_pointer) for topic_id in TOPICS)
        )
        await asyncio.gather(
            *(
                messaging.rollback(topic_id, each)
                for topic_id, written in zip(TOPICS, published, strict=True)
                if (each := written.rollback_range) is not None
            )
        )


async def test_a_caller_that_gives_up_leaves_no_topic_in_use(services: OpenServices) -> None:
    for number in range(1, 6):
        callers = [
            asyncio.create_task(services.messaging.publish(topic_id, [b"x"])) for topic_id in TOPICS
        ]
        await turns(number)
        for caller in callers[::2]:
            caller.cancel()
        await asyncio.gather(*callers, return_exceptions=True)
    await counts(services, TOPICS)
