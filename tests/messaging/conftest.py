"""A store whose writes can be made to fail or wait, and a service on it."""

import threading
from collections.abc import AsyncIterator

import pytest
from prometheus_client import CollectorRegistry

from tables.memory import MemoryStore
from tables.store_tables import StoreTables
from tests.manual_clock import ManualClock
from tests.messaging.writes_that_fail import WritesThatFail
from tms.core.limits import Limits
from tms.core.services.payload_values import PayloadValues
from tms.core.values.batch import Batch
from tms.core.values.topic import TopicId
from tms.messaging.schema_checks import SchemaChecks
from tms.messaging.service import Service
from tms.messaging.store_runtime import StoreRuntime
from tms.messaging.write_requests import Writing

NOW_MS = 1_800_000_000_000
TOPIC = TopicId("default", "t")


class FaultyStore(WritesThatFail, MemoryStore):
    """A memory store with faults on demand."""

    def __init__(self) -> None:
        super().__init__()
        self.passed = threading.Event()
        self.passed.set()
        self.batches: list[int] = []
        self.behind = False

    def is_behind(self) -> bool:
        return self.behind

    def write(self, batch: Batch) -> None:
        self.passed.wait()
        self.write_or_fail(super().write, batch)
        self.batches.append(len(batch.writes))  # type: ignore[attr-defined]

    def compare_and_put(
        self, table: str, key: bytes, expected: bytes | None, value: bytes | None
    ) -> bool:
        self.passed.wait()
        return super().compare_and_put(table, key, expected, value)


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock(NOW_MS)


@pytest.fixture
def store() -> FaultyStore:
    return FaultyStore()


@pytest.fixture
def registry() -> CollectorRegistry:
    return CollectorRegistry()


@pytest.fixture
def limits() -> Limits:
    return Limits()


@pytest.fixture
def values() -> PayloadValues | None:
    return None


@pytest.fixture
async def service(
    store: FaultyStore,
    clock: ManualClock,
    registry: CollectorRegistry,
    limits: Limits,
    values: PayloadValues | None,
) -> AsyncIterator[Service]:
    """A service with the topic `t`, loaded, so that a publish does not wait for a read."""
    engine = StoreRuntime(StoreTables(store), limits, clock, registry)
    service = Service(Writing(engine), checks=SchemaChecks(values))
    await service.create_topic(TOPIC)
    await service.topic(TOPIC)
    yield service
    store.passed.set()
    await service.close()
