"""Redrives: dead letters whose messages are delivered again, once each, within bounds."""

import asyncio
from dataclasses import replace
from typing import Any

import pytest

from tests.messaging.conftest import TOPIC
from tests.messaging.groups.conftest import World, number, payloads
from tests.messaging.groups.failing import DEAD, fail, has, letters, with_dead_letters
from tms.core.errors import StoreUnavailable, TmsError, TooLarge
from tms.core.values.group_settings import GroupSettings
from tms.core.values.groups import Acks, LimitedBy, Nacks, Redriven, Settle, Take
from tms.messaging.groups import dead_letters
from tms.messaging.groups.dead_letters import DeadLetterService
from tms.messaging.groups.loaded_group import GroupLeftMemory

pytestmark = pytest.mark.anyio


async def test_redriven_messages_come_again_once(world: World) -> None:
    await with_dead_letters(world, attempts_max=1)
    published = await world.publish(b"1", b"2", b"3")
    await fail(world, messages=3)
    await has(world, 3)
    groups = world.services.groups
    found = await groups.dead_letters(TOPIC, "g")
    assert [each.message.payload for each in found.letters] == [b"1", b"2", b"3"]
    assert [each.origin.id for each in found.letters] == published
    second = found.letters[1].id
    outcome = await groups.redrive(TOPIC, "g", [second])
    assert (outcome.redriven, outcome.expired) == (1, [])
    assert (await groups.redrive(TOPIC, "g", [second])).redriven == 0
    await world.again()
    groups = world.services.groups
    left = await groups.dead_letters(TOPIC, "g")
    assert [each.message.payload for each in left.letters] == [b"1", b"3"]
    assert payloads(await world.take("a", 10)) == [b"2"]
    assert await groups.drop_dead_letters(TOPIC, "g", [left.letters[0].id, second]) == 1
    assert (await groups.redrive(TOPIC, "g")).redriven == 1
    assert not (await groups.dead_letters(TOPIC, "g")).letters
    assert payloads(await world.take("b", 10)) == [b"3"]


async def test_redriven_messages_can_be_published_again(world: World) -> None:
    await with_dead_letters(world, attempts_max=1)
    await world.publish(b"1")
    await fail(world)
    await has(world, 1)
    assert (await world.services.groups.redrive(TOPIC, "g", publish=True)).redriven == 1
    anew = (await letters(world, TOPIC))[1]
    assert (anew.payload, dict(anew.headers)) == (b"1", {})
    assert payloads(await world.take()) == [b"1"]


async def test_dead_letters_of_expired_messages_are_reported_and_stay(world: World) -> None:
    await with_dead_letters(world, attempts_max=1)
    await world.publish(b"1")
    await fail(world)
    [letter] = await has(world, 1)
    world.clock.advance(1_000)
    await world.services.messaging.trim_topic(TOPIC, world.clock.now_ms())
    outcome = await world.services.groups.redrive(TOPIC, "g")
    assert (outcome.redriven, outcome.expired) == (0, [letter.id])
    assert (await world.services.groups.redrive(TOPIC, "g", publish=True)).redriven == 1


async def test_expired_and_foreign_dead_letters_do_not_hold_up_a_redrive(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    groups = world.services.groups
    await with_dead_letters(world, attempts_max=1)
    await groups.create_group(TOPIC, "other", GroupSettings(attempts_max=1, dead_letter=DEAD.name))
    await world.publish(b"1", b"2")
    taken = await groups.take(TOPIC, "other", Take("a", 2))
    await groups.settle(TOPIC, "other", "a", Settle(nacks=[Nacks(number(taken))]))
    await has(world, 2)
    await fail(world, messages=2)
    await has(world, 4)
    world.clock.advance(1_000)
    await world.services.messaging.trim_topic(TOPIC, world.clock.now_ms())
    await world.publish(b"3", b"4")
    await fail(world, messages=2)
    await has(world, 6)
    first, second, third, _ = [x.id for x in (await groups.dead_letters(TOPIC, "g")).letters]
    with monkeypatch.context() as patch:
        patch.setattr(dead_letters, "_PAGE", 2)
        patch.setattr(dead_letters, "_SCANNED_MAX", 2)
        done = await groups.redrive(TOPIC, "g")
        assert (done.redriven, done.expired) == (0, [])
        done = await groups.redrive(TOPIC, "g", after=done.next)
        assert done == Redriven(0, [first, second], second)
        done = await groups.redrive(TOPIC, "g", limit=1, after=second)
        assert done == Redriven(1, [], third)
    assert await groups.redrive(TOPIC, "g", limit=1) == Redriven(1, [first, second])


async def test_a_redrive_opens_no_more_messages_than_a_group_may_have(world: World) -> None:
    groups = world.services.groups
    await with_dead_letters(world, attempts_max=1, open_max=3)
    await world.publish(*[b"%d" % each for each in range(6)])
    for count in (3, 6):
        await fail(world, messages=3)
        await has(world, count)
    found = [x.id for x in (await groups.dead_letters(TOPIC, "g")).letters]
    done = await groups.redrive(TOPIC, "g")
    assert (done.redriven, done.limited_by) == (3, LimitedBy.OPEN_MAX)
    for chosen in (None, found):
        with pytest.raises(TooLarge) as refused:
            await groups.redrive(TOPIC, "g", chosen)
        assert refused.value.problem.code == "too_many_open"
        assert refused.value.detail == {"open_max": 3}
    assert [x.id for x in (await groups.dead_letters(TOPIC, "g")).letters] == found[3:]

    await world.settle(acks=[Acks(number(await world.take("a", 1)))])
    together = [groups.redrive(TOPIC, "g", [each]) for each in found[3:5]]
    outcomes = await asyncio.gather(*together, return_exceptions=True)
    assert sum(isinstance(each, TooLarge) for each in outcomes) == 1

    await world.settle(acks=[Acks(number(await world.take("a", 3)))])
    engine = world.services.engine
    engine.limits = replace(engine.limits, groups_open_max=2)
    done = await groups.redrive(TOPIC, "g", after=done.next)
    assert (done.redriven, done.limited_by) == (1, LimitedBy.SERVER)
    with pytest.raises(TooLarge) as refused:
        await groups.redrive(TOPIC, "g", after=done.next)
    assert refused.value.detail == {"groups_open_max": 2}


@pytest.fixture
async def dead_ids(world: World, monkeypatch: pytest.MonkeyPatch) -> list[bytes]:
    """The ids of five dead messages, of which each redrive reads few at a time."""
    monkeypatch.setattr(dead_letters, "_BYTES_MAX", 2)
    await with_dead_letters(world, attempts_max=1)
    ids = await world.publish(*[b"%d" % each for each in range(5)])
    await fail(world, messages=5)
    await has(world, 5)
    return ids


async def test_a_redrive_of_large_messages_goes_on_up_to_its_limit(
    world: World, dead_ids: list[bytes]
) -> None:
    assert (await world.services.groups.redrive(TOPIC, "g", limit=4)).redriven == 4
    opened = await world.services.groups.open_messages(TOPIC, "g")
    assert [each.id for each in opened] == dead_ids[:4]


@pytest.mark.parametrize("error", [StoreUnavailable, GroupLeftMemory])
async def test_a_redrive_that_fails_midway_is_not_repeated(
    world: World,
    monkeypatch: pytest.MonkeyPatch,
    dead_ids: list[bytes],
    error: type[TmsError],
) -> None:
    redrive = DeadLetterService._redrive
    parts: list[object] = []

    async def twice(*arguments: Any, publish: bool) -> Redriven:
        parts.append(arguments)
        if len(parts) == 2:
            raise error
        return await redrive(*arguments, publish=publish)

    monkeypatch.setattr(DeadLetterService, "_redrive", twice)
    done = await world.services.groups.redrive(TOPIC, "g", limit=4)
    opened = [each.id for each in await world.services.groups.open_messages(TOPIC, "g")]
    assert opened == dead_ids[: done.redriven]
    rest = await world.services.groups.redrive(TOPIC, "g", after=done.next)
    assert done.redriven + rest.redriven == 5
