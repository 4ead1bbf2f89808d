"""Messages that commits schedule, on a whole service."""

import pytest

from tests.messaging.conftest import TOPIC
from tests.messaging.schedules.conftest import World
from tms.core.errors import OutcomeUnknown, TooLarge
from tms.core.limits import Limits
from tms.core.services.commits import CommitRequest
from tms.core.services.transactions import StartRequest
from tms.core.values.schedules import CommitSchedule, DeliveryTime
from tms.core.values.topic import TopicId

pytestmark = pytest.mark.anyio
OTHER = TopicId("default", "other")


def later(*payloads: bytes, after_s: float = 0, topic_id: TopicId = TOPIC) -> CommitSchedule:
    return CommitSchedule(topic_id, payloads, DeliveryTime(after_s=after_s))


async def commit(world: World, *schedule: CommitSchedule) -> None:
    transactions = world.services.transactions
    started = await transactions.start(StartRequest())
    await transactions.commit(started.transaction_id, CommitRequest(schedule=schedule))


async def test_messages_of_a_commit_are_published_when_they_are_due(world: World) -> None:
    await world.services.messaging.create_topic(OTHER)
    await commit(
        world,
        later(b"d", b"e", after_s=2),
        later(b"a"),
        later(b"other", after_s=1, topic_id=OTHER),
        later(b"f", after_s=2),
        later(b"b", b"c", after_s=1),
    )
    await world.publishes([b"a"])
    assert await world.waiting() == [b"b", b"c", b"d", b"e", b"f"]
    await world.again()
    world.clock.advance(1_000)
    await world.publishes([b"a", b"b", b"c"])
    await world.publishes([b"other"], OTHER)
    world.clock.advance(1_000)
    await world.publishes([b"a", b"b", b"c", b"d", b"e", b"f"])


async def test_what_a_commit_schedules_counts_together(world: World) -> None:
    world.limits = Limits(topic_scheduled_max=2)
    await world.again()
    three = (later(b"a", b"b", after_s=1), later(b"c", after_s=2))
    with pytest.raises(TooLarge) as refused:
        await commit(world, *three)
    assert refused.value.problem.code == "too_many_scheduled"
    assert await world.waiting() == []
    await commit(world, *three[1:])
    await commit(world, *three[1:])
    with pytest.raises(TooLarge):
        await commit(world, *three[1:])
    assert await world.waiting() == [b"c", b"c"]


@pytest.mark.parametrize("world", ["memory"], indirect=True)
async def test_a_commit_whose_write_fails_schedules_nothing(world: World) -> None:
    await world.schedule(b"a", after_s=60)
    started = await world.services.transactions.start(StartRequest())
    world.store.writes_fail = True
    with pytest.raises(OutcomeUnknown):
        await world.services.transactions.commit(
            started.transaction_id, CommitRequest(schedule=[later(b"b", after_s=1)])
        )
    world.store.writes_fail = False
    await world.again()
    assert await world.waiting() == [b"a"]
    await commit(world, later(b"c", after_s=1))
    assert await world.waiting() == [b"c", b"a"]
