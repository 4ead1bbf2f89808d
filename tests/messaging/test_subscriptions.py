"""Positions of consumers: moved only from the version that is known, durable, of one generation."""

import asyncio

import pytest

from tests.messaging.conftest import TOPIC, FaultyStore
from tms.core.clock import ManualClock
from tms.core.errors import (
    InvalidRequest,
    StoreUnavailable,
    SubscriptionExists,
    SubscriptionMoved,
    SubscriptionNotFound,
    TooLarge,
    TopicNotFound,
)
from tms.core.limits import Limits
from tms.core.subscriptions import Advance
from tms.core.topic import TopicId
from tms.messaging.service import Service
from tms.messaging.subscriptions import SubscriptionService

pytestmark = pytest.mark.anyio

FIRST, SECOND = b"\x01" * 20, b"\x02" * 20


@pytest.fixture
def limits() -> Limits:
    return Limits(topic_subscriptions_max=3, topics_in_memory_max=2)


@pytest.fixture
async def subscriptions(service: Service) -> SubscriptionService:
    return SubscriptionService(service._engine, service.states)


async def test_a_position_begins_before_the_oldest_message_or_where_it_is_told(
    subscriptions: SubscriptionService,
) -> None:
    await subscriptions.create_subscription(TOPIC, "b")
    await subscriptions.create_subscription(TOPIC, "a", FIRST)
    found = await subscriptions.subscriptions(TOPIC)
    assert [(s.name, s.after, s.version) for s in found] == [("a", FIRST, 0), ("b", None, 0)]


async def test_of_two_moves_from_one_version_the_second_is_refused(
    subscriptions: SubscriptionService,
) -> None:
    await subscriptions.create_subscription(TOPIC, "s")
    outcomes = await asyncio.gather(
        subscriptions.advance(Advance(TOPIC, "s", FIRST, 0)),
        subscriptions.advance(Advance(TOPIC, "s", SECOND, 0)),
        return_exceptions=True,
    )
    assert isinstance(outcomes[1], SubscriptionMoved)
    assert outcomes[1].detail["version"] == 1
    assert (await subscriptions.subscription(TOPIC, "s")).after == FIRST


async def test_a_move_is_seen_once_it_is_durable(
    subscriptions: SubscriptionService, store: FaultyStore
) -> None:
    await subscriptions.create_subscription(TOPIC, "s")
    store.passed.clear()
    moving = asyncio.create_task(subscriptions.advance(Advance(TOPIC, "s", FIRST, 0)))
    await asyncio.sleep(0.02)
    assert (await subscriptions.subscription(TOPIC, "s")).version == 0
    store.passed.set()
    assert (await moving).version == 1
    assert (await subscriptions.subscription(TOPIC, "s")).version == 1


@pytest.mark.parametrize("is_done", [False, True])
async def test_a_move_that_failed_is_as_the_store_has_it(
    subscriptions: SubscriptionService, store: FaultyStore, *, is_done: bool
) -> None:
    await subscriptions.create_subscription(TOPIC, "s")
    store.writes_fail, store.writes_happen_all_the_same = True, is_done
    with pytest.raises(StoreUnavailable):
        await subscriptions.advance(Advance(TOPIC, "s", FIRST, 0))
    store.writes_fail = store.writes_happen_all_the_same = False
    assert (await subscriptions.subscription(TOPIC, "s")).version == is_done
    await subscriptions.advance(Advance(TOPIC, "s", SECOND, int(is_done)))


async def test_moves_of_several_are_made_together_or_not_at_all(
    subscriptions: SubscriptionService, service: Service
) -> None:
    await subscriptions.create_subscription(TOPIC, "one")
    await subscriptions.create_subscription(TOPIC, "two")
    moves = [Advance(TOPIC, "one", FIRST, 0), Advance(TOPIC, "two", FIRST, 7)]
    with pytest.raises(SubscriptionMoved):
        await service._engine.writer.submit(await subscriptions.moves(moves))
    assert (await subscriptions.subscription(TOPIC, "one")).version == 0


async def test_moves_of_one_are_made_one_after_another(
    subscriptions: SubscriptionService, service: Service
) -> None:
    await subscriptions.create_subscription(TOPIC, "s")
    submit = service._engine.writer.submit
    moves = [Advance(TOPIC, "s", FIRST, 0), Advance(TOPIC, "s", SECOND, 0)]
    with pytest.raises(SubscriptionMoved):
        await submit(await subscriptions.moves(moves))
    moves = [Advance(TOPIC, "s", FIRST, 0), Advance(TOPIC, "s", SECOND, 1)]
    await submit(await subscriptions.moves(moves))
    found = await subscriptions.subscription(TOPIC, "s")
    assert (found.after, found.version) == (SECOND, 2)


async def test_a_topic_born_again_has_none(
    subscriptions: SubscriptionService, service: Service
) -> None:
    await subscriptions.create_subscription(TOPIC, "s")
    await service.delete_topic(TOPIC)
    with pytest.raises(TopicNotFound):
        await subscriptions.subscriptions(TOPIC)
    await service.create_topic(TOPIC)
    assert await subscriptions.subscriptions(TOPIC) == []


async def test_positions_outlive_their_topic_in_memory(
    subscriptions: SubscriptionService, service: Service, clock: ManualClock
) -> None:
    await subscriptions.create_subscription(TOPIC, "s")
    await subscriptions.advance(Advance(TOPIC, "s", FIRST, 0))
    for number in range(4):
        await service.create_topic(TopicId("default", f"other{number}"))
        await service.publish(TopicId("default", f"other{number}"), [b"x"])
    assert (await subscriptions.subscription(TOPIC, "s")).after == FIRST


async def test_deleting_one_makes_room_for_another(subscriptions: SubscriptionService) -> None:
    for name in "abc":
        await subscriptions.create_subscription(TOPIC, name)
    with pytest.raises(TooLarge):
        await subscriptions.create_subscription(TOPIC, "d")
    await subscriptions.delete_subscription(TOPIC, "a")
    await subscriptions.create_subscription(TOPIC, "d")
    with pytest.raises(SubscriptionNotFound):
        await subscriptions.delete_subscription(TOPIC, "a")


async def test_wrong_requests_change_nothing(subscriptions: SubscriptionService) -> None:
    await subscriptions.create_subscription(TOPIC, "s")
    with pytest.raises(SubscriptionExists):
        await subscriptions.create_subscription(TOPIC, "s", FIRST)
    for name in ("", "a/b", "x" * 256):
        with pytest.raises(InvalidRequest):
            await subscriptions.create_subscription(TOPIC, name)
    with pytest.raises(InvalidRequest):
        await subscriptions.advance(Advance(TOPIC, "s", b"short", 0))
    [found] = await subscriptions.subscriptions(TOPIC)
    assert (found.after, found.version) == (None, 0)
