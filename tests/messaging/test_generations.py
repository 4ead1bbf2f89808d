"""A topic that is created again has no messages of the generation before."""

from collections.abc import AsyncIterator

import pytest
from prometheus_client import CollectorRegistry

from tables.memory import MemoryStore
from tables.store_tables import StoreTables
from tests.manual_clock import ManualClock
from tests.messaging.conftest import TOPIC
from tms.core.limits import Limits
from tms.core.services.transactions import StartRequest, TransactionStatus
from tms.core.values.message import FIRST_ID
from tms.core.values.reading import Reading, isolation_of
from tms.core.values.topic import TopicId, TopicMetadata
from tms.server.node import OpenServices, services_on

pytestmark = pytest.mark.anyio


@pytest.fixture
async def services(clock: ManualClock, registry: CollectorRegistry) -> AsyncIterator[OpenServices]:
    services = await services_on(StoreTables(MemoryStore()), Limits(), clock, registry)
    await services.messaging.create_topic(TOPIC)
    yield services
    await services.close()


async def create_again(services: OpenServices) -> TopicMetadata:
    """Delete the topic and create it again; return its deleted metadata."""
    topic = await services.messaging.topic(TOPIC)
    await services.messaging.delete_topic(TOPIC)
    await services.messaging.create_topic(TOPIC)
    return TopicMetadata(TOPIC, -topic.generation, topic.ttl_s, topic.properties)


async def below_end(services: OpenServices, *, committed: bool) -> list[bytes]:
    told = (await services.ranges.ranges([TOPIC], isolation_of(committed=committed))).topics[TOPIC]
    assert told is not None
    blocks = services.messaging.poll(
        TOPIC,
        Reading(FIRST_ID, view=isolation_of(committed=committed), end=told.end),
    )
    return [message.payload async for block in blocks for message in block]


@pytest.mark.parametrize("committed", [True, False])
async def test_ends_are_not_held_back_by_the_generation_before(
    services: OpenServices, clock: ManualClock, *, committed: bool
) -> None:
    """Neither messages nor references of a transaction in the old generation hold them back."""
    messaging = services.messaging
    tx = await services.transactions.start(StartRequest())
    await messaging.publish(TOPIC, [b"before"], tx.write_pointer)
    await messaging.store(TOPIC, [b"stored before"], tx.write_pointer)
    await messaging.publish(TOPIC, [], tx.write_pointer)
    await create_again(services)
    clock.advance(10)
    await messaging.publish(TOPIC, [b"after"])
    assert await below_end(services, committed=committed) == [b"after"]

    await messaging.publish(TOPIC, [b"more"], tx.write_pointer)
    held_back = [b"after"] if committed else [b"after", b"more"]
    assert await below_end(services, committed=committed) == held_back
    await services.transactions.commit(tx.transaction_id)
    assert await below_end(services, committed=committed) == [b"after", b"more"]


async def test_an_invalid_transaction_is_inverted_in_its_own_generation(
    services: OpenServices,
) -> None:
    messaging, transactions = services.messaging, services.transactions
    tx = await transactions.start(StartRequest())
    await messaging.publish(TOPIC, [b"before"], tx.write_pointer)
    await create_again(services)
    await messaging.publish(TOPIC, [b"after"], tx.write_pointer)
    await transactions.invalidate(tx.transaction_id)
    assert await messaging.invalid_entries.invert_published([tx.write_pointer]) == 1


async def test_a_rollback_is_of_all_generations(services: OpenServices) -> None:
    """Nobody reads the earlier generation, so nothing in it needs to be undone."""
    messaging, transactions = services.messaging, services.transactions
    tx = await transactions.start(StartRequest())
    published = (await messaging.publish(TOPIC, [b"before"], tx.write_pointer)).rollback_range
    assert published is not None
    await create_again(services)
    await messaging.rollback(TOPIC, published)
    assert await transactions.abort(tx.transaction_id) is TransactionStatus.ABORTED


@pytest.mark.parametrize("end", ["commit", "abort"])
@pytest.mark.parametrize("refers", [True, False])
async def test_a_deleted_topic_is_not_forgotten_before_those_have_ended_who_published_to_it(
    services: OpenServices, end: str, *, refers: bool
) -> None:
    """If it were forgotten and then created again, it would have the same generation."""
    messaging, transactions = services.messaging, services.transactions
    one, other = [await transactions.start(StartRequest()) for _ in range(2)]
    if refers:
        await messaging.store(TOPIC, [b"stored"], one.write_pointer)
    payloads = () if refers else (b"x",)
    published = (await messaging.publish(TOPIC, payloads, one.write_pointer)).rollback_range
    await messaging.publish(TOPIC, [b"x"], other.write_pointer)
    assert published is not None
    topic = await messaging.topic(TOPIC)
    deleted = TopicMetadata(TOPIC, -topic.generation, topic.ttl_s, topic.properties)
    if end == "abort":
        await messaging.rollback(TOPIC, published)
    await messaging.delete_topic(TOPIC)

    assert not await messaging.forget_topics([deleted])
    await transactions.commit(other.transaction_id)
    if refers or end == "commit":
        assert not await messaging.forget_topics([deleted])
    await (transactions.commit if end == "commit" else transactions.abort)(one.transaction_id)
    assert await messaging.forget_topics([deleted]) == {TOPIC}


async def test_of_several_topics_those_are_forgotten_that_are_as_given(
    services: OpenServices,
) -> None:
    """Neither a topic that was created again nor one used by a transaction in progress is."""
    messaging = services.messaging
    ids = [TopicId(TOPIC.namespace, f"deleted-{number}") for number in range(4)]
    deleted = []
    tx = await services.transactions.start(StartRequest())
    for number, topic_id in enumerate(ids):
        await messaging.create_topic(topic_id)
        topic = await messaging.topic(topic_id)
        if number == 1:
            await messaging.publish(topic_id, [b"x"], tx.write_pointer)
        await messaging.delete_topic(topic_id)
        deleted.append(TopicMetadata(topic_id, -topic.generation, topic.ttl_s, topic.properties))
    await messaging.create_topic(ids[2])

    assert await messaging.forget_topics(deleted) == {ids[0], ids[3]}
    assert (await messaging.topic(ids[2])).generation == 2
    await services.transactions.commit(tx.transaction_id)
    assert await messaging.forget_topics(deleted) == {ids[1]}
    for topic_id in (ids[0], ids[1], ids[3]):
        await messaging.create_topic(topic_id)
        assert (await messaging.topic(topic_id)).generation == 1
