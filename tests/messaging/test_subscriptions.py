"""Positions of consumers move only from a known version, are durable, and end with the topic."""

import asyncio

import pytest

from tests.manual_clock import ManualClock
from tests.messaging.conftest import NOW_MS, TOPIC, FaultyStore
from tms.core.errors import (
    InvalidRequest,
    OutcomeUnknown,
    SubscriptionExists,
    SubscriptionIsShared,
    SubscriptionMoved,
    SubscriptionNotFound,
    TooLarge,
    TopicNotFound,
)
from tms.core.limits import Limits
from tms.core.services.commits import CommitRequest, JointWrite
from tms.core.values.caller import ANYBODY
from tms.core.values.group_settings import GroupSettings
from tms.core.values.subscriptions import Advance, SharedSubscription, SubscriptionKind
from tms.core.values.topic import TopicId
from tms.messaging.service import Service
from tms.messaging.subscriptions import SubscriptionService

pytestmark = pytest.mark.anyio

FIRST, SECOND = b"\x01" * 20, b"\x02" * 20
FIRST_VERSION = NOW_MS * 1000


@pytest.fixture
def limits() -> Limits:
    return Limits(topic_subscriptions_max=3, topics_in_memory_max=2)


@pytest.fixture
async def subscriptions(service: Service) -> SubscriptionService:
    return SubscriptionService(service._engine)


async def test_a_position_begins_before_the_oldest_message_or_at_the_given_place(
    subscriptions: SubscriptionService,
) -> None:
    await subscriptions.create_subscription(TOPIC, "b")
    await subscriptions.create_subscription(TOPIC, "a", FIRST)
    found = await subscriptions.subscriptions(TOPIC)
    assert [(s.name, s.after, s.version) for s in found] == [
        ("a", FIRST, FIRST_VERSION + 1),
        ("b", None, FIRST_VERSION),
    ]


async def test_of_two_moves_from_one_version_the_second_is_refused(
    subscriptions: SubscriptionService,
) -> None:
    await subscriptions.create_subscription(TOPIC, "s")
    outcomes = await asyncio.gather(
        subscriptions.advance(Advance(TOPIC, "s", FIRST, FIRST_VERSION)),
        subscriptions.advance(Advance(TOPIC, "s", SECOND, FIRST_VERSION)),
        return_exceptions=True,
    )
    assert isinstance(outcomes[1], SubscriptionMoved)
    assert outcomes[1].detail["version"] == FIRST_VERSION + 1
    assert (await subscriptions.subscription(TOPIC, "s")).after == FIRST


async def test_a_move_is_seen_once_it_is_durable(
    subscriptions: SubscriptionService, store: FaultyStore
) -> None:
    await subscriptions.create_subscription(TOPIC, "s")
    store.passed.clear()
    moving = asyncio.create_task(subscriptions.advance(Advance(TOPIC, "s", FIRST, FIRST_VERSION)))
    await subscriptions.subscriptions(TOPIC)  # one turn of the read thread
    assert (await subscriptions.subscription(TOPIC, "s")).version == FIRST_VERSION
    store.passed.set()
    assert (await moving).version == FIRST_VERSION + 1
    assert (await subscriptions.subscription(TOPIC, "s")).version == FIRST_VERSION + 1


@pytest.mark.parametrize("is_done", [False, True])
async def test_a_move_that_failed_is_as_the_store_has_it(
    subscriptions: SubscriptionService, store: FaultyStore, *, is_done: bool
) -> None:
    await subscriptions.create_subscription(TOPIC, "s")
    store.writes_fail, store.writes_happen_all_the_same = True, is_done
    with pytest.raises(OutcomeUnknown):
        await subscriptions.advance(Advance(TOPIC, "s", FIRST, FIRST_VERSION))
    store.writes_fail = store.writes_happen_all_the_same = False
    assert (await subscriptions.subscription(TOPIC, "s")).version == FIRST_VERSION + is_done
    await subscriptions.advance(Advance(TOPIC, "s", SECOND, FIRST_VERSION + is_done))


async def made(subscriptions: SubscriptionService, service: Service, moves: list[Advance]) -> None:
    """Carry out moves like a commit does."""
    carried = subscriptions.carry(CommitRequest(moves), ANYBODY)
    assert carried is not None
    async with carried as part:
        await service._engine.writer.submit(JointWrite([part]))


async def test_moves_of_several_are_made_together_or_not_at_all(
    subscriptions: SubscriptionService, service: Service
) -> None:
    await subscriptions.create_subscription(TOPIC, "one")
    await subscriptions.create_subscription(TOPIC, "two")
    moves = [Advance(TOPIC, "one", FIRST, FIRST_VERSION), Advance(TOPIC, "two", FIRST, 7)]
    with pytest.raises(SubscriptionMoved):
        await made(subscriptions, service, moves)
    assert (await subscriptions.subscription(TOPIC, "one")).version == FIRST_VERSION


async def test_moves_of_one_are_made_one_after_another(
    subscriptions: SubscriptionService, service: Service
) -> None:
    await subscriptions.create_subscription(TOPIC, "s")
    moves = [Advance(TOPIC, "s", FIRST, FIRST_VERSION), Advance(TOPIC, "s", SECOND, FIRST_VERSION)]
    with pytest.raises(SubscriptionMoved):
        await made(subscriptions, service, moves)
    moves = [
        Advance(TOPIC, "s", FIRST, FIRST_VERSION),
        Advance(TOPIC, "s", SECOND, FIRST_VERSION + 1),
    ]
    await made(subscriptions, service, moves)
    found = await subscriptions.subscription(TOPIC, "s")
    assert (found.after, found.version) == (SECOND, FIRST_VERSION + 2)


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
    await subscriptions.advance(Advance(TOPIC, "s", FIRST, FIRST_VERSION))
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
        await subscriptions.advance(Advance(TOPIC, "s", b"short", FIRST_VERSION))
    [found] = await subscriptions.subscriptions(TOPIC)
    assert (found.after, found.version) == (None, FIRST_VERSION)


@pytest.mark.parametrize("by_ms", [5_000, 0, -60_000])
@pytest.mark.parametrize("ended", ["it", "its topic"])
async def test_a_consumer_of_one_that_was_does_not_move_the_one_made_again(
    subscriptions: SubscriptionService,
    service: Service,
    clock: ManualClock,
    ended: str,
    by_ms: int,
) -> None:
    """This holds however the clock was set in the meantime."""
    before = await subscriptions.create_subscription(TOPIC, "s")
    for _ in range(3):
        before = await subscriptions.advance(Advance(TOPIC, "s", FIRST, before.version))
    if ended == "it":
        await subscriptions.delete_subscription(TOPIC, "s")
    else:
        await service.delete_topic(TOPIC)
        await service.create_topic(TOPIC)
    clock.advance(by_ms)
    again = await subscriptions.create_subscription(TOPIC, "s")
    assert again.version > before.version
    for version in range(before.version - 3, before.version + 1):
        with pytest.raises(SubscriptionMoved):
            await subscriptions.advance(Advance(TOPIC, "s", SECOND, version))
    assert (await subscriptions.subscription(TOPIC, "s")).after is None


async def test_a_first_version_is_the_time_in_microseconds(
    subscriptions: SubscriptionService, clock: ManualClock
) -> None:
    """So a version is not repeated, even if nothing is known of the earlier subscription."""
    assert (await subscriptions.create_subscription(TOPIC, "s")).version == FIRST_VERSION
    clock.advance(1)
    assert (await subscriptions.create_subscription(TOPIC, "t")).version == FIRST_VERSION + 1000


async def test_what_is_in_the_table_is_known(
    subscriptions: SubscriptionService, service: Service, clock: ManualClock
) -> None:
    """It is known even after a restart with the clock set back."""
    before = await subscriptions.create_subscription(TOPIC, "s")
    clock.advance(-60_000)
    restarted = SubscriptionService(service._engine)
    await restarted.delete_subscription(TOPIC, "s")
    assert (await restarted.create_subscription(TOPIC, "s")).version > before.version


async def test_a_group_is_listed_and_is_not_a_position(
    service: Service, subscriptions: SubscriptionService
) -> None:
    tables = service._engine.tables
    state = tables.prefix(TOPIC, 1)
    version = FIRST_VERSION - 1
    shared = SharedSubscription(
        topic_id=TOPIC,
        name="g",
        after=None,
        version=version,
        created=version,
        settings=GroupSettings(),
    )
    batch = tables.batch()
    tables.subscriptions.put(batch, state, shared)
    tables.write(batch)
    await subscriptions.create_subscription(TOPIC, "s")
    listed = await subscriptions.subscriptions(TOPIC)
    assert [(each.name, each.kind) for each in listed] == [
        ("g", SubscriptionKind.SHARED),
        ("s", SubscriptionKind.SINGLE),
    ]
    move = Advance(TOPIC, "g", FIRST, version)
    for refused in (
        subscriptions.subscription(TOPIC, "g"),
        subscriptions.advance(move),
        subscriptions.delete_subscription(TOPIC, "g"),
    ):
        with pytest.raises(SubscriptionIsShared, match="subscription=g"):
            await refused
    with pytest.raises(SubscriptionExists):
        await subscriptions.create_subscription(TOPIC, "g")
    carried = subscriptions.carry(CommitRequest(advances=(move,)), ANYBODY)
    assert carried is not None
    async with carried as moves:
        with pytest.raises(SubscriptionIsShared):
            await service._engine.writer.submit(JointWrite([moves]))

    await subscriptions.lags.refresh()
    assert [name for _, name in subscriptions.lags._lags] == ["s"]
