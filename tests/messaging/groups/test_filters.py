"""Groups with a filter: what matches is delivered, what does not is passed and never opened."""

import asyncio

import pytest

from tests.messaging.conftest import TOPIC
from tests.messaging.groups.conftest import World, ids, payloads
from tests.waiting import turns
from tms.core.errors import InvalidRequest
from tms.core.services.commits import CommitRequest
from tms.core.services.messaging import Page
from tms.core.services.transactions import StartRequest
from tms.core.values.frame import bodies_of
from tms.core.values.group_settings import GroupSettings, Order
from tms.core.values.groups import Acks, GroupState
from tms.core.values.message import Message
from tms.core.values.reading import Reading
from tms.core.values.store_features import FILTERS
from tms.messaging.groups import feed
from tms.messaging.groups.service import GroupService
from tms.messaging.loaded_topics import TopicState

pytestmark = pytest.mark.anyio

FILTER = 'key = "a"'


async def publish(world: World, *keys: str, pointer: int | None = None) -> list[bytes]:
    """Publish messages whose payloads are numbered."""
    messages = [Message(b"%d" % at, key.encode()).body() for at, key in enumerate(keys)]
    return list(await world.services.messaging.publish(TOPIC, bodies_of(messages), pointer))


async def set_filter(world: World, text: str) -> None:
    await world.services.groups.set_group(TOPIC, "g", {"filter": text})


async def state(world: World) -> GroupState:
    return (await world.services.groups.group(TOPIC, "g")).state


async def test_what_matches_is_delivered_and_the_rest_is_passed(world: World) -> None:
    await set_filter(world, FILTER)
    published = await publish(world, "b", "a", "b", "a", "b")

    taken = await world.take(messages=10)
    assert payloads(taken) == [b"1", b"3"]
    shown = await state(world)
    assert (shown.through, shown.open, shown.unread) == (published[-1], 2, 0)
    assert await world.settle(acks=[Acks(taken.delivery or 0)]) == []
    await world.again()
    shown = await state(world)
    assert (shown.through, shown.open, shown.unread) == (published[-1], 0, 0)


async def test_a_group_where_nothing_matches_passes_everything(world: World) -> None:
    await set_filter(world, FILTER)
    assert (await world.take()).delivery is None
    assert (await state(world)).through is None
    published = await publish(world, "b", "b")

    taken = await world.take()
    assert (taken.delivery, taken.limited_by) == (None, None)
    assert (await state(world)).through == published[-1]
    await world.flush()
    await world.again()
    assert (await state(world)).through == published[-1]


@pytest.mark.parametrize("order", list(Order))
async def test_a_take_reads_on_until_it_has_enough(
    world: World, monkeypatch: pytest.MonkeyPatch, order: Order
) -> None:
    monkeypatch.setattr("tms.messaging.reader.READ_MAX", 2)
    await world.services.groups.delete_group(TOPIC, "g")
    await world.services.groups.create_group(TOPIC, "g", GroupSettings(order, filter=FILTER))
    await publish(world, *"bbbbabbba")

    assert payloads(await world.take()) == [b"4"]


async def test_another_filter_counts_for_messages_that_were_not_read(world: World) -> None:
    await set_filter(world, FILTER)
    await publish(world, "a", "b")
    first = await world.take()
    await world.settle(leave=True)
    await set_filter(world, 'key = "b"')
    await publish(world, "a", "b")

    taken = await world.take(messages=10)
    assert payloads(taken) == [b"0", b"1"], "one that was open, and one that matches now"
    assert ids(taken)[0] == ids(first)[0]
    await set_filter(world, "")
    await publish(world, "c")
    assert payloads(await world.take()) == [b"0"]


async def test_a_filter_is_changed_while_a_take_waits(world: World) -> None:
    await set_filter(world, FILTER)
    waiting = asyncio.create_task(world.take(wait_s=30))
    await world.waits()
    await publish(world, "b")
    await turns(20)
    assert not waiting.done()
    await set_filter(world, 'key = "b"')
    [last] = await publish(world, "b")

    assert ids(await waiting) == [last]


async def test_a_filter_that_changes_during_a_read_counts_for_it(world: World) -> None:
    groups = world.services.groups
    assert isinstance(groups, GroupService)
    await set_filter(world, FILTER)
    await publish(world, "b", "a")
    read, is_changed = groups._takes._read, False

    async def changing(topic: TopicState, reading: Reading) -> Page:
        nonlocal is_changed
        page = await read(topic, reading)
        if not is_changed:
            is_changed = True
            await set_filter(world, 'key = "b"')
        return page

    groups._takes._read = changing
    assert payloads(await world.take(messages=10)) == [b"0"]


async def test_a_take_passes_messages_for_a_bounded_time_and_a_waiting_one_goes_on(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tms.messaging.reader.READ_MAX", 1)
    monkeypatch.setattr(feed, "_PASSING_S_MAX", 0.0)
    await set_filter(world, FILTER)
    published = await publish(world, *"bbbba")

    assert (await world.take()).delivery is None
    assert (await state(world)).through == published[0]
    assert payloads(await world.take(wait_s=30)) == [b"4"]


async def test_a_transaction_in_progress_stops_a_group_with_a_filter(world: World) -> None:
    await set_filter(world, FILTER)
    transactions = world.services.transactions
    tx = await transactions.start(StartRequest())
    [before] = await publish(world, "b")
    await publish(world, "b", pointer=tx.write_pointer)
    await publish(world, "a")

    taken = await world.take()
    assert (taken.delivery, taken.stopped_at) == (None, tx.transaction_id)
    assert (await state(world)).through == before
    waiting = asyncio.create_task(world.take(wait_s=30))
    await world.waits()
    await transactions.commit(tx.transaction_id, CommitRequest())
    assert payloads(await waiting) == [b"0"]


async def test_the_feature_is_recorded_when_a_filter_is_first_used(world: World) -> None:
    tables = world.services.messaging._tables
    assert FILTERS not in tables.features()
    for bad in ("key", "payload exists"):
        with pytest.raises(InvalidRequest):
            await set_filter(world, bad)
    await set_filter(world, "")
    assert FILTERS not in tables.features()
    await set_filter(world, FILTER)
    assert FILTERS in tables.features()
    await world.again()
    assert (await world.services.groups.group(TOPIC, "g")).settings.filter == FILTER
