"""Takes that could get too few messages, behind dead ones or beside other takes, and why."""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import Any

import pytest

from tests.messaging.conftest import NOW_MS, TOPIC
from tests.messaging.groups.conftest import BILLS, World, ids, number, payloads
from tests.waiting import turns
from tms.core.errors import InvalidRequest
from tms.core.limits import Limits
from tms.core.services.commits import CommitRequest, Stored
from tms.core.services.transactions import StartRequest
from tms.core.values.caller import Caller
from tms.core.values.groups import (
    Acks,
    LimitedBy,
    Nacks,
    Position,
    Refusal,
    SeekTo,
    Settle,
    Take,
    Taken,
)
from tms.core.values.message import first_id_at
from tms.core.values.topic import TopicId
from tms.messaging.groups import feed, takes
from tms.messaging.groups.service import GroupService

pytestmark = pytest.mark.anyio


async def open_all(world: World) -> int:
    """Make the group read messages by a take that is released; return how many are open."""
    taken = await world.take("reader")
    await world.settle("reader", releases=[], leave=True)
    assert taken.delivery is not None
    return (await world.services.groups.group(TOPIC, "g")).state.open


async def expired(world: World) -> None:
    await world.services.messaging.update_topic(TOPIC, {"ttl": 10})
    world.clock.advance(11_000)


async def trimmed(world: World) -> None:
    world.clock.advance(1_000)
    await world.services.messaging.trim_topic(TOPIC, world.clock.now_ms())


@pytest.mark.parametrize("end", [expired, trimmed])
async def test_messages_that_are_gone_hide_no_live_ones(
    world: World, end: Callable[[World], Awaitable[None]]
) -> None:
    await world.publish(*[b"%d" % n for n in range(50)])
    assert await open_all(world) == 50
    await end(world)
    await world.publish(b"live")
    assert payloads(await world.take("a")) == [b"live"]
    assert (await world.services.groups.group(TOPIC, "g")).state.open == 1


@pytest.mark.parametrize("end", [expired, trimmed])
async def test_a_waiting_take_gets_what_is_behind_messages_that_are_gone(
    world: World, end: Callable[[World], Awaitable[None]]
) -> None:
    await world.publish(*[b"%d" % n for n in range(50)])
    taken = await world.take("a", 50)
    await world.settle("a", nacks=[Nacks(number(taken), delay_s=3600)])
    waiting = asyncio.create_task(world.take("b", wait_s=30))
    await world.waits()
    await end(world)
    await world.publish(b"live")
    assert payloads(await waiting) == [b"live"]


async def test_the_lag_of_a_topic_whose_messages_are_gone_is_nothing(world: World) -> None:
    await world.publish(*[b"%d" % n for n in range(50)])
    await open_all(world)
    await expired(world)
    subscriptions, groups = world.services.subscriptions, world.services.groups
    await subscriptions.lags.refresh()
    await groups.lags.refresh()
    [lag] = groups.lags.lags()
    assert (lag.messages, lag.open) == (0, 0)


async def test_messages_that_only_a_read_shows_to_be_gone_hide_no_live_ones(world: World) -> None:
    """A stored message expires by the time when it was stored, which its id does not contain."""
    messaging, transactions = world.services.messaging, world.services.transactions
    tx = await transactions.start(StartRequest())
    await messaging.store(TOPIC, [b"%d" % n for n in range(30)], tx.write_pointer)
    world.clock.advance(8_000)
    await transactions.commit(
        tx.transaction_id, CommitRequest(publish=[Stored(TOPIC, tx.write_pointer)])
    )
    assert await open_all(world) == 30
    await world.services.messaging.update_topic(TOPIC, {"ttl": 10})
    world.clock.advance(3_000)
    await world.publish(b"live")
    assert payloads(await world.take("a", 1)) == [b"live"]
    assert (await world.services.groups.group(TOPIC, "g")).state.open == 1


async def test_in_the_hour_after_a_start_far_ahead_no_message_is_passed_or_settled(
    world: World,
) -> None:
    """Readers get them again once the clock is right; a group would have lost them."""
    await world.publish(b"open")
    await open_all(world)
    await world.publish(b"unread")
    await world.services.close()
    world.clock.reboot()
    world.clock.step(30 * 86_400_000)
    await world.open()
    await world.publish(b"new")
    taken = await world.take("a", 5)
    assert payloads(taken) == [b"open", b"unread", b"new"]
    await world.settle("a", nacks=[Nacks(number(taken), delay_s=1)])
    assert not payloads(await world.take("a", 5))
    world.clock.advance(1_000)
    world.clock.step(-30 * 86_400_000)
    await world.again()
    assert payloads(await world.take("a", 5)) == [b"open", b"unread", b"new"]


async def test_a_take_says_that_its_member_may_have_no_more(world: World) -> None:
    await world.services.groups.set_group(TOPIC, "g", {"member_max": 3})
    await world.publish(*[b"%d" % n for n in range(10)])
    first = await world.take("a", 5)
    assert (len(ids(first)), first.limited_by) == (3, LimitedBy.MEMBER_MAX)


async def test_members_of_two_principals_share_no_bound(world: World) -> None:
    groups = world.services.groups
    await groups.set_group(TOPIC, "g", {"member_max": 3})
    await world.publish(*[b"%d" % n for n in range(10)])
    for name in ("ann", "bob"):
        taken = await groups.take(TOPIC, "g", Take("w", 5), caller=Caller(principal=name))
        assert len(ids(taken)) == 3
    members = await groups.members(TOPIC, "g")
    assert [(each.name, each.principal, each.holds) for each in members] == [
        ("w", "ann", 3),
        ("w", "bob", 3),
    ]
    await groups.settle(TOPIC, "g", "w", Settle(leave=True), caller=Caller(principal="ann"))
    assert [each.holds for each in await groups.members(TOPIC, "g")] == [0, 3]


async def test_waiting_takes_share_all_that_was_published(world: World) -> None:
    waiting = [asyncio.create_task(world.take(name, 10, wait_s=30)) for name in "ab"]
    await world.waits(2)
    await world.publish(*[b"%d" % n for n in range(10)])
    assert sorted([len(ids(each)) for each in await asyncio.gather(*waiting)]) == [5, 5]


async def test_a_single_waiting_take_gets_all_that_was_published(world: World) -> None:
    waiting = asyncio.create_task(world.take("a", 10, wait_s=30))
    await world.waits()
    await world.publish(*[b"%d" % n for n in range(10)])
    assert len(ids(await waiting)) == 10


async def test_a_take_that_is_repeated_while_it_waits_is_one(world: World) -> None:
    first = asyncio.create_task(world.take("a", sequence=4, wait_s=30))
    await world.waits()
    again = asyncio.create_task(world.take("a", sequence=4, wait_s=30))
    assert (await first).delivery is None
    await world.waits()
    await world.publish(b"1", b"2")
    taken = await again
    assert payloads(taken) == [b"1"]
    once_more = await world.take("a", sequence=4)
    assert (once_more.delivery, payloads(once_more)) == (taken.delivery, [b"1"])
    assert (await world.services.groups.group(TOPIC, "g")).state.leased == 1


async def test_takes_that_are_repeated_at_once_get_one_delivery(world: World) -> None:
    await world.publish(b"1", b"2", b"3")
    several = await asyncio.gather(*[world.take("a", sequence=4, wait_s=30) for _ in range(3)])
    assert {each.delivery for each in several} == {number(several[0])}


@pytest.mark.parametrize("ahead", ["microseconds", "time", "id"])
async def test_a_place_ahead_of_the_present_is_refused(world: World, ahead: str) -> None:
    day_ms = 86_400_000
    places: dict[str, Position] = {
        "microseconds": NOW_MS * 1000,
        "time": NOW_MS + day_ms,
        "id": first_id_at(NOW_MS + day_ms),
    }
    to, groups = places[ahead], world.services.groups
    with pytest.raises(InvalidRequest):
        await groups.seek(TOPIC, "g", to)
    with pytest.raises(InvalidRequest):
        await groups.create_group(TOPIC, "h", after=to)
    assert [each.name for each in await groups.groups(TOPIC)] == ["g"]


async def test_one_group_leaves_others_a_part_of_what_the_server_may_have_open(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    groups = world.services.groups
    assert isinstance(groups, GroupService)
    monkeypatch.setattr(groups._takes, "_limits", replace(Limits(), groups_open_max=100))
    await groups.create_group(TOPIC, "other")
    await world.publish(*[b"%d" % n for n in range(200)])
    full = await world.take("a", 200)
    assert (len(ids(full)), full.limited_by) == (90, LimitedBy.SERVER)
    other = await groups.take(TOPIC, "other", Take("a", 200))
    assert (len(ids(other)), other.limited_by) == (10, LimitedBy.SERVER)


async def fill(world: World, monkeypatch: pytest.MonkeyPatch, *others: str) -> Taken:
    """Let the group take all that the server may have open, except one message; create `others`."""
    groups = world.services.groups
    assert isinstance(groups, GroupService)
    limits = replace(Limits(), groups_open_max=10)
    monkeypatch.setattr(groups._takes, "_limits", limits)
    monkeypatch.setattr(groups._groups._engine, "limits", limits)
    await world.publish(*[b"%d" % n for n in range(9)])
    await world.publish(*[b"%d" % n for n in range(50)], topic_id=BILLS)
    taken = await world.take("a", 9)
    assert len(ids(taken)) == 9
    for name in others:
        await groups.create_group(BILLS, name)
    return taken


async def drop_idle(world: World, _: Taken) -> None:
    await world.settle(leave=True)
    groups = world.services.groups
    assert isinstance(groups, GroupService)
    groups._groups._drop_idle(0)


async def expire(world: World, _: Taken) -> None:
    await world.settle(leave=True)
    await trimmed(world)
    await world.services.groups.group(TOPIC, "g")


FREE: dict[str, Callable[[World, Taken], Awaitable[object]]] = {
    "ack": lambda world, taken: world.settle(acks=[Acks(number(taken))]),
    "skip": lambda world, taken: world.services.groups.skip(TOPIC, "g", ids(taken)),
    "seek": lambda world, _: world.services.groups.seek(TOPIC, "g", SeekTo.END),
    "deletion": lambda world, _: world.services.groups.delete_group(TOPIC, "g"),
    "deletion of the topic": lambda world, _: world.services.messaging.delete_topic(TOPIC),
    "idle": drop_idle,
    "expiry": expire,
}


@pytest.mark.parametrize("way", FREE)
async def test_a_waiting_take_gets_messages_if_another_group_makes_room(
    world: World, monkeypatch: pytest.MonkeyPatch, way: str
) -> None:
    groups = world.services.groups
    taken = await fill(world, monkeypatch, "other")
    assert len(ids(await groups.take(BILLS, "other", Take("b", 5)))) == 1
    waiting = asyncio.create_task(groups.take(BILLS, "other", Take("c", 5), wait_s=30))
    await world.waits()
    await turns(20)
    await FREE[way](world, taken)
    assert len(ids(await waiting)) == 5


@pytest.mark.parametrize("world", ["memory"], indirect=True)
async def test_room_wakes_as_many_groups_as_use_it(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Three groups find nothing to read, so the fourth gets the message."""
    groups, empty = world.services.groups, TopicId(TOPIC.namespace, "empty")
    await world.services.messaging.create_topic(empty)
    idle = [f"idle{each}" for each in range(3)]
    for name in idle:
        await groups.create_group(empty, name)
    others = [f"other{each}" for each in range(10)]
    taken = await fill(world, monkeypatch, *others)
    await groups.take(BILLS, others[0], Take("b"))
    places = [(empty, name) for name in idle] + [(BILLS, name) for name in others[1:]]
    waiting = []
    for topic_id, name in places:
        take = groups.take(topic_id, name, Take("c"), wait_s=30)
        waiting.append(asyncio.create_task(take))
        await world.waits(len(waiting))
        await turns(20)
    reads = 0

    async def read_on(*args: Any) -> feed.Fed:
        nonlocal reads
        reads += 1
        return await feed.read_on(*args)

    monkeypatch.setattr(takes, "read_on", read_on)
    await groups.skip(TOPIC, "g", ids(taken)[:1])
    assert len(ids(await waiting[3])) == 1
    await world.publish(b"flush")
    await turns(50)
    assert [each.done() for each in waiting] == [False] * 3 + [True] + [False] * 8
    assert reads == 4
    for each in waiting:
        each.cancel()


async def test_an_ack_with_a_number_that_was_never_given_settles_nothing(world: World) -> None:
    groups = world.services.groups
    await groups.create_group(TOPIC, "other")
    await world.publish(*[b"%d" % n for n in range(50)])
    await open_all(world)
    everything = [each.id for each in await groups.open_messages(TOPIC, "g")]
    theirs = await groups.take(TOPIC, "other", Take("reader", 5))
    for delivery in (1, number(theirs), NOW_MS * 1000 - 1, NOW_MS * 1000 + 10**9):
        refused = await world.settle("reader", acks=[Acks(delivery, everything)])
        assert set(refused) == {Refusal.LEASE_LOST}
    assert (await groups.group(TOPIC, "g")).state.open == 50


async def test_an_extension_without_a_length_shortens_no_lease(world: World) -> None:
    await world.publish(b"1")
    taken = await world.take("a", lease_s=60)
    await world.settle("a", extend=[number(taken)])
    world.clock.advance(40_000)
    assert (await world.take("b")).delivery is None
    await world.settle("a", extend=[number(taken)], lease_s=5)
    await world.settle("a", extend=[number(taken)], lease_s=10)
    world.clock.advance(11_000)
    await world.take("b")
    world.clock.advance(1_000)
    assert payloads(await world.take("b")) == [b"1"]


async def test_each_lease_that_ended_is_given_again_after_leases_were_shortened(
    world: World,
) -> None:
    await world.publish(*[b"%d" % n for n in range(5)])
    taken = [await world.take("a", lease_s=4) for _ in range(4)]
    await world.settle("a", extend=[], lease_s=2)
    await world.settle("a", extend=[], lease_s=5)
    assert len(taken) == 4
    world.clock.advance(6_000)
    await world.take("b", 0 + 1)
    world.clock.advance(1_000)
    await turns(5)
    assert len(ids(await world.take("b", 5))) == 4


async def test_a_seek_to_the_end_opens_nothing(world: World) -> None:
    await world.publish(b"1")
    await world.services.groups.seek(TOPIC, "g", SeekTo.END)
    assert (await world.take()).delivery is None


async def test_the_reason_of_a_nack_and_the_last_holder_are_shown(world: World) -> None:
    await world.publish(b"1", b"2")
    taken = await world.take("a", 2)
    nacks = [Nacks(number(taken), ids(taken)[:1], reason="no such customer")]
    await world.settle("a", nacks=nacks)
    groups = world.services.groups
    failed, held = await groups.open_messages(TOPIC, "g")
    assert (failed.attempts, failed.last_member, failed.reason) == (1, "a", "no such customer")
    assert (held.member, held.last_member, held.reason) == ("a", "a", None)
    world.clock.advance(1_000)
    again = await world.take("b")
    await world.settle("b", nacks=[Nacks(number(again), reason="")])
    failed, _ = await groups.open_messages(TOPIC, "g")
    assert (failed.last_member, failed.reason) == ("b", None)


async def test_the_reasons_of_the_newest_failed_messages_are_kept(world: World) -> None:
    await world.publish(*[b"%d" % n for n in range(1_000)])
    await world.publish(b"one more")
    groups = world.services.groups
    for _ in range(2):
        taken = await world.take("a", 1_000)
        await world.settle("a", nacks=[Nacks(number(taken), delay_s=60, reason="x")])
    reasons = [each.reason for each in await groups.open_messages(TOPIC, "g", limit=2_000)]
    assert (reasons[0], reasons.count("x"), len(reasons)) == (None, 1_000, 1_001)
