"""The clock is set back, also while the server is down: ids still ascend."""

import asyncio
import random
from pathlib import Path

import pytest

from tests import scale
from tests.manual_clock import ManualClock
from tests.scale import scaled
from tms.core.values.message import FIRST_ID, Message
from tms.core.values.reading import Reading
from tms.core.values.topic import TopicId
from tms.messaging.service import Service
from tms.server.node import open_services

TOPIC = TopicId("default", "t")
NOW_MS = 1_785_585_600_000
HOUR_MS = 3_600_000


async def everything(service: Service) -> list[Message]:
    blocks = [block async for block in service.poll(TOPIC, Reading(FIRST_ID, limit=10_000))]
    return [message for block in blocks for message in block]


def check_ascending(log: list[Message], count: int) -> None:
    assert [message.payload for message in log] == [b"%d" % n for n in range(count)]
    ids = [message.id for message in log]
    assert ids == sorted(set(ids))


@pytest.mark.parametrize("seed", range(scaled(10)))
def test_ids_ascend_over_restarts_with_any_clock(tmp_path: Path, seed: int) -> None:
    chance = random.Random(scale.seed() + seed)

    async def run() -> None:
        count = 0
        for restart in range(6):
            clock = ManualClock(NOW_MS + chance.randrange(-HOUR_MS, HOUR_MS))
            services = await open_services(f"leveldb:{tmp_path}", clock=clock)
            service = services.messaging
            if restart == 0:
                await service.create_topic(TOPIC)
            for _ in range(5):
                batch = [b"%d" % (count + n) for n in range(chance.choice((1, 3, 200)))]
                await service.publish(TOPIC, batch)
                count += len(batch)
                check_ascending(await everything(service), count)
                clock.advance(chance.randrange(-HOUR_MS, HOUR_MS))
            await services.close()

    asyncio.run(run())


def test_a_topic_born_again_under_an_earlier_clock_continues_above(tmp_path: Path) -> None:
    """A reader with an id of the topic's last life must not miss new messages."""

    async def run() -> None:
        services = await open_services(f"leveldb:{tmp_path}", clock=ManualClock(NOW_MS))
        service = services.messaging
        await service.create_topic(TOPIC)
        await service.publish(TOPIC, [b"old"])
        last_id = (await everything(service))[0].id
        await service.delete_topic(TOPIC)
        await services.close()

        services = await open_services(f"leveldb:{tmp_path}", clock=ManualClock(NOW_MS - HOUR_MS))
        service = services.messaging
        await service.create_topic(TOPIC)
        await service.publish(TOPIC, [b"0"])
        log = await everything(service)
        await services.close()
        check_ascending(log, 1)
        assert log[0].id > last_id

    asyncio.run(run())


def test_ids_borrowed_from_later_milliseconds_are_not_given_again(tmp_path: Path) -> None:
    async def run() -> None:
        payloads = [b"%d" % n for n in range(100_000)]
        services = await open_services(f"leveldb:{tmp_path}", clock=ManualClock(NOW_MS))
        service = services.messaging
        await service.create_topic(TOPIC)
        await service.publish(TOPIC, payloads)
        await services.close()
        services = await open_services(f"leveldb:{tmp_path}", clock=ManualClock(NOW_MS))
        service = services.messaging
        await service.publish(TOPIC, [b"100000"])
        log = [
            m
            async for block in service.poll(TOPIC, Reading(FIRST_ID, limit=200_000))
            for m in block
        ]
        await services.close()
        check_ascending(log, 100_001)

    asyncio.run(run())
