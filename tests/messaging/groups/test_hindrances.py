"""Operators can see what blocks a group."""

import pytest

from tests.messaging.conftest import TOPIC
from tests.messaging.groups.conftest import World, ids, number
from tests.waiting import until
from tms.core.services.findings import Facts, FindingKind, findings
from tms.core.values.frame import bodies_of, encode_body
from tms.core.values.group_settings import GroupSettings, Order
from tms.core.values.groups import (
    Nacks,
    Take,
)
from tms.core.values.topic import TopicId
from tms.messaging.groups.hindrances import ATTEMPTS_MIN
from tms.messaging.groups.service import GroupService

pytestmark = pytest.mark.anyio


async def found(world: World) -> list[str]:
    groups = world.services.groups
    assert isinstance(groups, GroupService)
    await world.services.subscriptions.lags.refresh()
    await groups.lags.refresh()
    told = findings(Facts(now_ms=world.clock.now_ms(), lags=groups.lags.lags()))
    return [each.text for each in told if each.kind is FindingKind.GROUP_HINDERED]


async def test_a_message_that_fails_again_and_again_is_reported_with_its_reason(
    world: World,
) -> None:
    [first, _] = await world.publish(b"1", b"2")
    for attempt in range(ATTEMPTS_MIN):
        assert await found(world) == [], attempt
        taken = await world.take("a")
        assert ids(taken) == [first]
        await world.settle("a", nacks=[Nacks(number(taken), delay_s=0, reason="no stock")])
    [text] = await found(world)
    assert text == (
        f"1 message keeps failing. Message {first.hex()} has failed {ATTEMPTS_MIN} times: no stock"
    )


async def test_a_group_at_its_bound_is_reported(world: World) -> None:
    await world.services.groups.set_group(TOPIC, "g", {"open_max": 3})
    await world.publish(*[b"%d" % n for n in range(5)])
    await world.take("a", 2)
    assert await found(world) == ["It has 3 open messages, the maximum."]


async def test_a_key_that_may_stop_a_group_is_reported(world: World) -> None:
    groups = world.services.groups
    await groups.delete_group(TOPIC, "g")
    await groups.create_group(TOPIC, "g", GroupSettings(order=Order.KEY, open_max=10))
    for n in range(6):
        await world.publish(bodies_of([encode_body(b"%d" % n, b"hot")])[0])
    taken = await groups.take(TOPIC, "g", Take("a"))
    [text] = await found(world)
    assert text == (
        f"Open messages with the same key: 6. It is the key of message {ids(taken)[0].hex()}; "
        "at 10 the group stops."
    )


async def test_dead_letters_that_cannot_be_written_are_reported(world: World) -> None:
    groups, dead = world.services.groups, TopicId(TOPIC.namespace, f"{TOPIC.name}--dead")
    await groups.set_group(TOPIC, "g", {"attempts_max": 1})
    await world.services.messaging.delete_topic(dead)
    await world.publish(b"1")
    await world.settle("a", nacks=[Nacks(number(await world.take("a")))])

    async def is_told() -> bool:
        return any("cannot be written to topic" in text for text in await found(world))

    await until(is_told)


async def test_a_group_that_paused_itself_is_reported(world: World) -> None:
    groups = world.services.groups
    await groups.set_group(TOPIC, "g", {"attempts_max": 1, "dead_letters_max": 1})
    await world.publish(b"1", b"2")
    await world.settle("a", nacks=[Nacks(number(await world.take("a", 2)))])

    async def is_told() -> bool:
        return any(text.startswith("It is paused, and 1 of") for text in await found(world))

    await until(is_told)
    await groups.set_group(TOPIC, "g", {"paused": False})
    assert not await is_told()
