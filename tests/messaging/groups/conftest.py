"""Services with a group, on stores that are opened again."""

from collections.abc import AsyncIterator, Callable
from contextlib import suppress
from pathlib import Path

import pytest
from prometheus_client import CollectorRegistry

from tables.leveldb import LevelDBStore
from tables.store_tables import StoreTables
from tests.manual_clock import ManualClock
from tests.messaging.conftest import NOW_MS, TOPIC, FaultyStore
from tests.waiting import until
from tms.core.errors import StoreUnavailable
from tms.core.limits import Limits
from tms.core.values.groups import (
    Refusal,
    Settle,
    Take,
    Taken,
)
from tms.core.values.topic import TopicId
from tms.messaging.groups.service import GroupService
from tms.server.node import OpenServices, services_on

BILLS = TopicId("default", "bills")


class World:
    """Services on one store that are opened again at will."""

    def __init__(self, tables: Callable[[], StoreTables]) -> None:
        self.tables = tables
        self.clock = ManualClock(NOW_MS)
        self.services: OpenServices

    async def open(self) -> None:
        self.services = await services_on(self.tables(), Limits(), self.clock, CollectorRegistry())

    async def again(self) -> None:
        await self.services.close()
        await self.open()

    async def publish(self, *payloads: bytes, topic_id: TopicId = TOPIC) -> list[bytes]:
        return list(await self.services.messaging.publish(topic_id, payloads))

    async def take(self, member: str = "a", messages: int = 1, **more: object) -> Taken:
        wait_s = more.pop("wait_s", 0)
        take = Take(member, messages, **more)  # type: ignore[arg-type]
        return await self.services.groups.take(TOPIC, "g", take, wait_s=wait_s)  # type: ignore[arg-type]

    async def waits(self, takes: int = 1) -> None:
        """Wait until this many takes are waiting for messages."""
        groups = self.services.groups
        assert isinstance(groups, GroupService)
        await until(lambda: sum(len(group.waiting) for group in groups._groups.loaded) >= takes)

    async def is_read_again(self) -> None:
        """Wait until the group can be used after a write that failed."""

        async def is_there() -> bool:
            with suppress(StoreUnavailable):
                await self.services.groups.group(TOPIC, "g")
                return True
            return False

        await until(is_there)

    async def flush(self) -> None:
        """Write the leases, which any flush writes too."""
        await self.publish(b"flush", topic_id=BILLS)

    async def settle(self, member: str = "a", **parts: object) -> list[Refusal]:
        settle = Settle(**parts)  # type: ignore[arg-type]
        done = await self.services.groups.settle(TOPIC, "g", member, settle)
        return [each.reason for each in done.refused]


def payloads(taken: Taken) -> list[bytes]:
    return [message.payload for block in taken.blocks for message in block]


def number(taken: Taken) -> int:
    assert taken.delivery is not None
    return taken.delivery


def ids(taken: Taken) -> list[bytes]:
    return [message.id for block in taken.blocks for message in block]


@pytest.fixture(params=["memory", "leveldb"])
async def world(
    request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> AsyncIterator[World]:
    kept = FaultyStore()
    monkeypatch.setattr(kept, "close", lambda: None)  # its content must survive

    def tables() -> StoreTables:
        return StoreTables(kept if request.param == "memory" else LevelDBStore(tmp_path / "db"))

    world = World(tables)
    await world.open()
    for topic_id in (TOPIC, BILLS):
        await world.services.messaging.create_topic(topic_id)
    await world.services.groups.create_group(TOPIC, "g")
    yield world
    await world.services.close()
