"""The rate of a group: bursts of a second's amount, waiting takes that wake up, and changes."""

import asyncio

import pytest

from tests.messaging.conftest import TOPIC
from tests.messaging.groups.conftest import World, number, payloads
from tests.waiting import until
from tms.core.values.groups import LimitedBy, Nacks

pytestmark = pytest.mark.anyio


async def at_rate(world: World, rate: int, messages: int, **more: object) -> None:
    await world.services.groups.set_group(TOPIC, "g", {"rate": rate, **more})
    if messages:
        await world.publish(*(b"%d" % each for each in range(messages)))


async def limit(world: World) -> LimitedBy | None:
    return (await world.services.groups.group(TOPIC, "g")).state.limited_by


async def test_takes_get_the_amount_of_a_second_at_once_and_then_the_rate(world: World) -> None:
    await at_rate(world, 10, 100)
    first = await world.take("a", 8)
    assert (len(payloads(first)), first.limited_by) == (8, None)
    second = await world.take("b", 8)
    assert (len(payloads(second)), second.limited_by) == (2, LimitedBy.RATE)
    third = await world.take("b", 8)
    assert (payloads(third), third.limited_by) == ([], LimitedBy.RATE)
    assert await limit(world) is LimitedBy.RATE
    world.clock.advance(500)
    assert await limit(world) is None
    assert len(payloads(await world.take("b", 8))) == 5
    world.clock.advance(60_000)
    assert len(payloads(await world.take("b", 100))) == 10, "an idle minute saves up no more"


async def test_what_is_given_again_counts_again(world: World) -> None:
    await at_rate(world, 1, 1, retry_s=0)
    taken = await world.take()
    await world.settle(nacks=[Nacks(number(taken))])
    assert (await world.take()).limited_by is LimitedBy.RATE
    world.clock.advance(1_000)
    assert payloads(await world.take()) == [b"0"]


async def test_an_empty_take_costs_nothing(world: World) -> None:
    await at_rate(world, 1, 0)
    for _ in range(3):
        assert (await world.take()).limited_by is None
    await world.publish(b"1")
    assert payloads(await world.take()) == [b"1"]


async def test_other_reasons_are_named_first(world: World) -> None:
    await at_rate(world, 1, 5, member_max=1)
    await world.take("a")
    assert (await world.take("a")).limited_by is LimitedBy.MEMBER_MAX
    await world.services.groups.set_group(TOPIC, "g", {"paused": True})
    assert (await world.take("b")).limited_by is LimitedBy.PAUSED


async def test_takes_that_wait_are_woken_when_the_rate_allows(world: World) -> None:
    await at_rate(world, 50, 100)
    assert len(payloads(await world.take("a", 50))) == 50
    waiting = [asyncio.create_task(world.take(name, 10, wait_s=30)) for name in "bc"]
    await world.waits(2)
    assert not any(each.done() for each in waiting)

    async def is_served() -> bool:
        world.clock.advance(20)
        return all(each.done() for each in waiting)

    await until(is_served)
    served = [len(payloads(each.result())) for each in waiting]
    assert all(each >= 2 for each in served), "not one at a time"


async def test_another_rate_holds_at_once(world: World) -> None:
    await at_rate(world, 1_000_000, 20)
    assert len(payloads(await world.take("a", 10))) == 10
    await world.services.groups.set_group(TOPIC, "g", {"rate": 1})
    assert len(payloads(await world.take("b", 10))) == 1
    waiting = asyncio.create_task(world.take("b", wait_s=30))
    await world.waits()
    await world.services.groups.set_group(TOPIC, "g", {"rate": 0})
    assert len(payloads(await waiting)) == 1
    assert (await world.take("b", 10)).limited_by is None


async def test_a_take_of_a_message_that_is_gone_costs_nothing(world: World) -> None:
    await at_rate(world, 2, 2)
    world.clock.advance(1)
    await world.services.messaging.trim_topic(TOPIC, world.clock.now_ms())
    await world.publish(b"new", b"newer")
    assert payloads(await world.take("a", 2)) == [b"new", b"newer"]
