"""Services with a topic, on stores that are opened again."""

from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import suppress
from pathlib import Path

import pytest
from prometheus_client import CollectorRegistry

from tables.leveldb import LevelDBStore
from tables.store_tables import StoreTables
from tests.manual_clock import ManualClock
from tests.messaging.conftest import NOW_MS, TOPIC, FaultyStore
from tests.waiting import until
from tms.core.errors import TmsError
from tms.core.limits import Limits
from tms.core.values.reading import Reading
from tms.core.values.schedules import DeliveryTime
from tms.core.values.topic import TopicId
from tms.server.node import OpenServices, services_on


class World:
    """Services on one store that are opened again at will."""

    def __init__(self, tables: Callable[[], StoreTables], kept: FaultyStore) -> None:
        self.tables = tables
        self.store = kept
        self.clock = ManualClock(NOW_MS)
        self.limits = Limits()
        self.services: OpenServices

    async def open(self) -> None:
        self.services = await services_on(
            self.tables(), self.limits, self.clock, CollectorRegistry()
        )

    async def again(self) -> None:
        await self.services.close()
        await self.open()

    async def schedule(
        self, *payloads: bytes, after_s: float = 0, topic_id: TopicId = TOPIC
    ) -> list[str]:
        delivery = DeliveryTime(after_s=after_s)
        scheduled = await self.services.schedules.schedule(topic_id, payloads, delivery)
        return list(scheduled.ids)

    async def waiting(self, topic_id: TopicId = TOPIC) -> list[bytes]:
        found = await self.services.schedules.scheduled(topic_id)
        return [each.message.payload for each in found]

    async def published(self, topic_id: TopicId = TOPIC) -> list[bytes]:
        blocks = self.services.messaging.poll(topic_id, Reading(bytes(20), limit=10_000))
        return [message.payload async for block in blocks for message in block]

    async def publishes(self, payloads: Sequence[bytes], topic_id: TopicId = TOPIC) -> None:
        """Wait until exactly these were published."""

        async def is_so() -> bool:
            with suppress(TmsError):
                return await self.published(topic_id) == list(payloads)
            return False

        await until(is_so)


@pytest.fixture(params=["memory", "leveldb"])
async def world(
    request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> AsyncIterator[World]:
    kept = FaultyStore()
    monkeypatch.setattr(kept, "close", lambda: None)  # its content must survive

    def tables() -> StoreTables:
        return StoreTables(kept if request.param == "memory" else LevelDBStore(tmp_path / "db"))

    world = World(tables, kept)
    await world.open()
    await world.services.messaging.create_topic(TOPIC)
    yield world
    await world.services.close()
