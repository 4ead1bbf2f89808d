"""A restored server assigns numbers above all in its backup, even if the clock was set back."""

from pathlib import Path

import pytest
from prometheus_client import CollectorRegistry

from tests.manual_clock import ManualClock
from tms.core.services.transactions import StartRequest
from tms.core.values.backups import Stage, Work
from tms.core.values.schedules import DeliveryTime, place_of
from tms.core.values.topic import TopicId
from tms.server.backups import open_backups
from tms.server.jobs import restore_backup
from tms.server.node import OpenServices, open_services
from tms.settings import Settings

NOW_MS = 1_700_000_000_000
HOUR_MS = 3_600_000
T = TopicId("default", "t")


async def numbers_of(services: OpenServices, name: str) -> list[int]:
    """Assign a message id, a write pointer, a scheduled number and a version; return them."""
    published = await services.messaging.publish(T, [b"x"])
    pointer = (await services.transactions.start(StartRequest())).transaction_id
    scheduled = await services.schedules.schedule(T, [b"x"], DeliveryTime(after_s=3600))
    number = place_of(scheduled.ids[0]).number
    position = await services.subscriptions.create_subscription(T, name)
    return [int.from_bytes(published[0]), pointer, number, position.version]


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


@pytest.mark.anyio
async def test_numbers_ascend_after_a_restore(tmp_path: Path) -> None:
    store, clock = f"leveldb:{tmp_path}/store", ManualClock(NOW_MS)
    settings = Settings.model_construct(store=store, backup_folder=str(tmp_path / "backups"))
    services = await open_services(store, clock=clock, settings=settings)
    backups = await open_backups(settings, services, CollectorRegistry(), clock)
    await services.messaging.create_topic(T)
    await numbers_of(services, "first")
    clock.advance(30_000)  # past the stored time mark
    before = await numbers_of(services, "second")
    work = await backups.start(Work.BACKUP, "b", 60)
    assert (work.stage, work.failure) == (Stage.DONE, None)
    await backups.close()
    await services.close()

    clock.set(NOW_MS - HOUR_MS)
    clock.reboot()
    restored = tmp_path / "restored"
    restore_backup(str(tmp_path / "backups/b"), restored, lambda done, size: None)
    services = await open_services(f"leveldb:{restored}", clock=clock)
    after = await numbers_of(services, "third")
    listed = await services.schedules.scheduled(T)
    await services.close()

    assert all(new > old for new, old in zip(after, before, strict=True)), (before, after)
    assert len(listed) == 3
