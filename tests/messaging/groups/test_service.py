"""Groups on a store: taken from memory, settled durably, and read back unchanged."""

import asyncio
import contextlib
from typing import Any

import pytest

from tables.store_tables import StoreTables
from tests.messaging.conftest import NOW_MS, TOPIC, FaultyStore
from tests.messaging.groups.conftest import BILLS, World, ids, number, payloads
from tests.waiting import until
from tms.core.errors import (
    AckRefused,
    InvalidRequest,
    SubscriptionExists,
    SubscriptionIsShared,
    SubscriptionIsSingle,
    SubscriptionMoved,
    SubscriptionNotFound,
    TmsError,
)
from tms.core.services.commits import CommitRequest, Stored
from tms.core.services.transactions import StartRequest
from tms.core.values.caller import Caller
from tms.core.values.frame import bodies_of
from tms.core.values.group_settings import GroupSettings, Order
from tms.core.values.groups import (
    Acks,
    CommitAcks,
    LimitedBy,
    Nacks,
    Refusal,
    Releases,
    SeekTo,
    Settle,
    Take,
)
from tms.core.values.message import Message
from tms.core.values.subscriptions import Advance
from tms.messaging.groups import feed, loaded, takes

pytestmark = pytest.mark.anyio


async def test_two_members_share_the_work_and_it_is_done_once_also_after_a_restart(
    world: World,
) -> None:
    await world.publish(b"1", b"2", b"3", b"4")
    first, second = await world.take("a", 2), await world.take("b", 5)
    assert (payloads(first), payloads(second)) == ([b"1", b"2"], [b"3", b"4"])
    assert (first.limited_by, second.limited_by, first.attempts) == (None, None, ())
    assert await world.settle("a", acks=[Acks(number(first))]) == []
    await world.again()
    assert (await world.take("c", 5)).delivery is None
    shown = await world.services.groups.group(TOPIC, "g")
    assert (shown.state.open, shown.state.leased, shown.state.members) == (2, 2, 1)
    assert await world.settle("b", acks=[Acks(number(second))]) == []
    await world.again()
    shown = await world.services.groups.group(TOPIC, "g")
    assert (shown.state.open, shown.state.unread, shown.state.through) == (0, 0, ids(second)[-1])


async def test_a_waiting_take_gets_what_is_published_and_those_who_came_first_come_first(
    world: World,
) -> None:
    waiting = [asyncio.create_task(world.take(name, wait_s=30)) for name in "abc"]
    await world.waits(3)
    await world.publish(b"1", b"2")
    first = await asyncio.gather(*waiting[:2])
    assert sorted(payloads(taken)[0] for taken in first) == [b"1", b"2"]
    assert not waiting[2].done()
    await world.publish(b"3")
    assert payloads(await waiting[2]) == [b"3"]


async def test_a_take_that_was_given_up_loses_nothing(world: World) -> None:
    waiting = asyncio.create_task(world.take("a", wait_s=30))
    await world.waits()
    waiting.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await waiting
    await world.publish(b"1")
    assert payloads(await world.take("b")) == [b"1"]


async def test_a_group_stops_at_a_transaction_in_progress_and_passes_what_was_rolled_back(
    world: World,
) -> None:
    transactions = world.services.transactions
    tx = await transactions.start(StartRequest())
    published = await world.services.messaging.publish(TOPIC, [b"open"], tx.write_pointer)
    await world.publish(b"behind")
    taken = await world.take(messages=5)
    assert (taken.limited_by, taken.stopped_at) == (LimitedBy.TRANSACTION, tx.transaction_id)
    waiting = asyncio.create_task(world.take("w", 5, wait_s=30))
    await world.waits()
    assert published.rollback_range is not None
    await world.services.messaging.rollback(TOPIC, published.rollback_range)
    await transactions.abort(tx.transaction_id)
    assert payloads(await waiting) == [b"behind"]


async def test_a_group_that_stops_behind_what_was_stored_knows_that_it_is_settled(
    world: World,
) -> None:
    transactions, messaging = world.services.transactions, world.services.messaging
    stored = await transactions.start(StartRequest())
    await messaging.store(TOPIC, [b"one", b"two"], stored.write_pointer)
    request = CommitRequest(publish=[Stored(TOPIC, stored.write_pointer)])
    await transactions.commit(stored.transaction_id, request)
    taken = await world.take(messages=2)
    acks = [Acks(number(taken), ids(taken))]
    assert await world.settle(acks=acks) == []
    held_up = await transactions.start(StartRequest())
    await messaging.publish(TOPIC, [b"three"], held_up.write_pointer)

    assert (await world.take()).limited_by is LimitedBy.TRANSACTION
    assert await world.settle(acks=acks) == [Refusal.SETTLED] * 2
    shown = await world.services.groups.group(TOPIC, "g")
    assert shown.state.through == ids(taken)[-1]
    await transactions.abort(held_up.transaction_id)
    await world.publish(b"four")
    assert payloads(await world.take(messages=9)) == [b"four"]


async def test_a_lease_that_ends_counts_an_attempt_and_a_late_ack_counts_if_nobody_has_it(
    world: World,
) -> None:
    await world.publish(b"1")
    first = await world.take("a")
    world.clock.advance(30_000)
    waits = await world.take("b")
    assert (waits.delivery, waits.limited_by) == (None, LimitedBy.RETRY)
    world.clock.advance(1_000)
    second = await world.take("b")
    assert (payloads(second), second.attempts) == ([b"1"], [2])
    assert await world.settle("a", acks=[Acks(number(first), ids(first))]) == [Refusal.LEASE_LOST]
    await world.settle("b", nacks=[Nacks(number(second), delay_s=0)])
    assert await world.settle("a", acks=[Acks(number(first), ids(first))]) == [Refusal.LEASE_LOST]
    assert await world.settle("b", acks=[Acks(number(second), ids(second))]) == []
    assert await world.settle("a", acks=[Acks(number(first), ids(first))]) == [Refusal.SETTLED]


async def test_extending_keeps_a_lease_and_leaving_gives_back(world: World) -> None:
    await world.publish(b"1")
    await world.take("a")
    for _ in range(5):
        world.clock.advance(20_000)
        assert await world.settle("a", extend=[]) == []
    assert (await world.take("b")).delivery is None
    await world.settle("a", leave=True)
    taken = await world.take("b")
    assert (payloads(taken), taken.attempts) == ([b"1"], ())


async def test_a_repeated_take_gets_the_same_delivery_also_after_a_restart(world: World) -> None:
    await world.publish(b"1", b"2")
    first = await world.take("a", sequence=7)
    again = await world.take("a", sequence=7)
    assert (again.delivery, payloads(again)) == (first.delivery, [b"1"])
    await world.flush()
    await world.again()
    again = await world.take("a", sequence=7)
    assert (again.delivery, payloads(again)) == (first.delivery, [b"1"])
    anew = await world.take("a", sequence=7, anew=True)
    assert (payloads(anew), anew.delivery != first.delivery) == ([b"1"], True)


async def test_the_ack_within_the_next_take_is_durable(world: World) -> None:
    await world.publish(b"1", b"2")
    first = await world.take("a")
    second = await world.take("a", settle=Settle(acks=[Acks(number(first))]))
    assert (payloads(second), second.settled.settled) == ([b"2"], 1)


async def test_by_key_one_member_has_a_key(world: World) -> None:
    await world.services.groups.delete_group(TOPIC, "g")
    await world.services.groups.create_group(TOPIC, "g", GroupSettings(order=Order.KEY))
    messages = [Message(b"%d" % n, key) for n, key in enumerate((b"x", b"x", b"y", b"x"))]
    await world.services.messaging.publish(TOPIC, bodies_of([each.body() for each in messages]))
    first = await world.take("a", 1)
    assert payloads(first) == [b"0"]
    other = await world.take("b", 5)
    assert (payloads(other), other.limited_by) == ([b"2"], LimitedBy.KEYS)
    await world.settle("a", nacks=[Nacks(number(first))])
    assert (await world.take("b", 5)).limited_by is LimitedBy.RETRY
    world.clock.advance(2_000)
    rest = await world.take("b", 5)
    assert (payloads(rest), rest.attempts) == ([b"0", b"1", b"3"], [2, 1, 1])
    assert (
        await world.settle("b", acks=[Acks(number(rest), ids(rest)[1:])])
        == [Refusal.EARLIER_OPEN] * 2
    )
    assert await world.settle("b", acks=[Acks(number(rest))]) == []


async def test_acks_of_a_commit_hold_if_and_only_if_it_commits(world: World) -> None:
    transactions, messaging = world.services.transactions, world.services.messaging
    await world.publish(b"1")
    taken = await world.take("a")
    assert taken.delivery is not None
    acks = [CommitAcks(TOPIC, "g", "a", taken.delivery, ids(taken))]
    tx = await transactions.start(StartRequest())
    await messaging.publish(BILLS, [b"bill"], tx.write_pointer)
    wrong = [*acks, CommitAcks(TOPIC, "g", "a", taken.delivery, [b"\x01" * 20])]
    with pytest.raises(AckRefused) as refused:
        await transactions.commit(tx.transaction_id, CommitRequest(acks=wrong))
    assert len(refused.value.detail["refused"]) == 1
    assert (await world.services.groups.group(TOPIC, "g")).state.open == 1
    await transactions.commit(tx.transaction_id, CommitRequest(acks=acks))
    await world.again()
    assert (await world.services.groups.group(TOPIC, "g")).state.open == 0
    await world.publish(b"2")
    second = await world.take("a")
    assert second.delivery is not None
    acks = [CommitAcks(TOPIC, "g", "a", second.delivery, ids(second))]
    await world.services.messaging.publish_all({BILLS: [b"x"]}, request=CommitRequest(acks=acks))
    with pytest.raises(AckRefused):
        await world.services.messaging.publish_all(
            {BILLS: [b"x"]}, request=CommitRequest(acks=acks)
        )
    assert (await world.services.groups.group(TOPIC, "g")).state.open == 0


async def test_what_has_expired_is_gone_and_not_given(world: World) -> None:
    await world.publish(b"old")
    taken = await world.take("a")
    await world.settle("a", releases=[Releases(number(taken))])
    await world.services.messaging.update_topic(TOPIC, {"ttl": 1})
    world.clock.advance(60_000)
    await world.publish(b"new")
    assert payloads(await world.take("b", 5)) == [b"new"]
    assert (await world.services.groups.group(TOPIC, "g")).state.open == 1


async def test_seek_drops_what_is_open_and_refuses_acks_from_before(world: World) -> None:
    published = await world.publish(b"1", b"2", b"3")
    taken = await world.take("a", 3)
    groups = world.services.groups
    await groups.seek(TOPIC, "g", published[0])
    assert await world.settle("a", acks=[Acks(number(taken), [published[1]])]) == [
        Refusal.LEASE_LOST
    ]
    assert payloads(await world.take("b", 5)) == [b"2", b"3"]
    await groups.seek(TOPIC, "g", SeekTo.END)
    assert (await world.take("b", 5)).delivery is None
    await groups.seek(TOPIC, "g", SeekTo.START)
    assert payloads(await world.take("b", 5)) == [b"1", b"2", b"3"]
    await groups.seek(TOPIC, "g", NOW_MS + 1)
    assert (await world.take("b", 5)).delivery is None
    await groups.seek(TOPIC, "g", NOW_MS)
    assert payloads(await world.take("b", 5)) == [b"1", b"2", b"3"]


async def test_settings_change_and_bound(world: World) -> None:
    groups = world.services.groups
    await world.publish(*[b"%d" % n for n in range(10)])
    shown = await groups.set_group(TOPIC, "g", {"paused": True})
    assert (await world.take()).limited_by is LimitedBy.PAUSED
    with pytest.raises(SubscriptionMoved):
        await groups.set_group(TOPIC, "g", {"paused": False}, shown.version - 1)
    await groups.set_group(TOPIC, "g", {"paused": False, "open_max": 4, "member_max": 3})
    taken = await world.take("a", 10)
    assert (len(ids(taken)), taken.limited_by) == (3, LimitedBy.MEMBER_MAX)
    assert (await world.take("a")).limited_by is LimitedBy.MEMBER_MAX
    other = await world.take("b", 10)
    assert (len(ids(other)), other.limited_by) == (1, LimitedBy.OPEN_MAX)
    for wrong in ({"order": "key"}, {"open_max": 0}, {"lease_s": True}, {"retry_s": "1"}, {"x": 1}):
        with pytest.raises(InvalidRequest):
            await groups.set_group(TOPIC, "g", wrong)
    await world.again()
    assert (await world.services.groups.group(TOPIC, "g")).settings.open_max == 4


async def test_kinds_do_not_mix(world: World) -> None:
    groups, subscriptions = world.services.groups, world.services.subscriptions
    await subscriptions.create_subscription(TOPIC, "s")
    with pytest.raises(SubscriptionIsSingle):
        await groups.take(TOPIC, "s", Take("a"))
    with pytest.raises(SubscriptionIsShared):
        await subscriptions.advance(Advance(TOPIC, "g", b"\x01" * 20, 1))
    with pytest.raises(SubscriptionExists):
        await groups.create_group(TOPIC, "s")
    with pytest.raises(SubscriptionExists):
        await groups.create_group(TOPIC, "g", GroupSettings(Order.KEY))
    again = await groups.create_group(TOPIC, "g", GroupSettings(lease_s=5))
    assert again == (await groups.groups(TOPIC))[0]
    await groups.delete_group(TOPIC, "g")
    with pytest.raises(SubscriptionNotFound):
        await world.take()


async def test_a_delivery_is_its_principals(world: World) -> None:
    await world.publish(b"1")
    groups = world.services.groups
    taken = await groups.take(TOPIC, "g", Take("a"), caller=Caller(principal="ann"))
    settle = Settle(acks=[Acks(number(taken) or 0, ids(taken))])
    bob = await groups.settle(TOPIC, "g", "a", settle, caller=Caller(principal="bob"))
    assert [each.reason for each in bob.refused] == [Refusal.LEASE_LOST]
    done = await groups.settle(TOPIC, "g", "a", settle, caller=Caller(principal="ann"))
    assert done.settled == 1


async def test_a_group_of_a_topic_that_was_created_again_is_gone(world: World) -> None:
    await world.publish(b"1")
    waiting = asyncio.create_task(world.take("w", wait_s=30, messages=5))
    await waiting
    messaging = world.services.messaging
    await messaging.delete_topic(TOPIC)
    await messaging.create_topic(TOPIC)
    with pytest.raises(SubscriptionNotFound):
        await world.take()
    await world.services.groups.create_group(TOPIC, "g")
    await world.publish(b"2")
    assert payloads(await world.take(messages=5)) == [b"2"]


@pytest.mark.parametrize(("bound", "at", "rows_max"), [("ROWS", 5, 12), ("IDS", 20, 40)])
async def test_a_snapshot_leaves_few_rows_to_read_again(
    world: World, monkeypatch: pytest.MonkeyPatch, bound: str, at: int, rows_max: int
) -> None:
    monkeypatch.setattr(loaded, f"_SNAPSHOT_{bound}", at)
    for turn in range(30):
        await world.publish(b"%d" % turn, b"stays open")
        taken = await world.take("a", 2)
        await world.settle("a", acks=[Acks(number(taken), ids(taken)[:1])])
    [group] = world.services.groups._groups.loaded
    await until(lambda: group.snapshotting is None)
    assert group.rows < rows_max
    await world.again()
    shown = await world.services.groups.group(TOPIC, "g")
    assert (shown.state.open, shown.state.leased) == (30, 30)


async def test_after_a_failed_flush_a_group_is_read_again() -> None:
    store = FaultyStore()
    world = World(lambda: StoreTables(store))
    await world.open()
    try:
        for topic_id in (TOPIC, BILLS):
            await world.services.messaging.create_topic(topic_id)
        await world.services.groups.create_group(TOPIC, "g")
        await world.publish(b"1", b"2")
        first = await world.take("a")
        await world.flush()
        store.writes_fail = True
        with pytest.raises(TmsError):
            await world.settle("a", acks=[Acks(number(first))])
        store.writes_fail = False
        await world.is_read_again()
        shown = await world.services.groups.group(TOPIC, "g")
        assert shown.state.open in (1, 2)
        refused = await world.settle("a", acks=[Acks(number(first), ids(first))])
        assert refused in ([], [Refusal.SETTLED])
        assert payloads(await world.take("b", 5)) == [b"2"]
    finally:
        await world.services.close()


async def test_a_take_that_ends_while_it_is_served_keeps_nothing_and_others_continue(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole, reached, goes_on = feed.bodies_of, asyncio.Event(), asyncio.Event()

    async def slow(*given: Any) -> Any:
        reached.set()
        await goes_on.wait()
        return await whole(*given)

    monkeypatch.setattr(takes, "bodies_of", slow)
    takes_s: list[asyncio.Timeout] = []

    def timeout(_: float) -> asyncio.Timeout:
        takes_s.append(asyncio.Timeout(None))
        return takes_s[-1]

    monkeypatch.setattr(asyncio, "timeout", timeout)
    short = asyncio.create_task(world.take("short", wait_s=30))
    await world.waits()
    await world.publish(b"1")
    await reached.wait()
    takes_s[0].reschedule(0)
    others = asyncio.create_task(world.take("others", wait_s=20))
    assert (await short).delivery is None
    goes_on.set()
    assert payloads(await others) == [b"1"]
