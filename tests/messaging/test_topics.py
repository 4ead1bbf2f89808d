"""Changes of topics, one at a time."""

import asyncio

import pytest

from tables.metadata_table import StoreMetadataTable
from tests.manual_clock import ManualClock
from tests.messaging.conftest import NOW_MS, TOPIC, FaultyStore
from tests.waiting import turns
from tms.core.values.topic import TopicMetadata
from tms.messaging.service import Service

pytestmark = pytest.mark.anyio


async def test_who_reads_while_nothing_changes_waits_for_a_change_whose_caller_is_gone(
    service: Service, store: FaultyStore, clock: ManualClock
) -> None:
    """Otherwise cleanup could use an old row with a time later than the change."""

    def read() -> tuple[int, TopicMetadata | None]:
        return clock.now_ms(), StoreMetadataTable(store).get(TOPIC)

    await service.update_topic(TOPIC, {"ttl": 1})
    store.passed.clear()
    changing = asyncio.create_task(service.update_topic(TOPIC, {"ttl": 60}))
    await turns()
    changing.cancel()
    reading = asyncio.create_task(service.unchanging(read))
    with pytest.raises(asyncio.CancelledError):
        await changing
    await service.topics("default")  # one turn of the read thread
    assert not reading.done()
    store.passed.set()
    now_ms, topic = await reading

    assert now_ms == NOW_MS
    assert topic is not None
    assert (topic.ttl_s, topic.live_from_ms) == (60, NOW_MS - 1_000)
