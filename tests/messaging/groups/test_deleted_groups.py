"""A deleted group ends for all its users; a later one of the same name is a different group."""

import asyncio
import contextlib
from collections.abc import Callable, Coroutine
from typing import Any

import pytest

from tables.store_tables import StoreTables
from tests.messaging.conftest import TOPIC, FaultyStore
from tests.messaging.groups.conftest import BILLS, World, ids, number, payloads
from tests.waiting import turns
from tms.core.errors import SubscriptionNotFound, TmsError
from tms.core.services.commits import CommitRequest
from tms.core.services.transactions import StartRequest
from tms.core.values.group_settings import GroupSettings
from tms.core.values.groups import (
    Acks,
    CommitAcks,
    Groups,
    Settle,
    Take,
)
from tms.messaging.groups.service import GroupService

pytestmark = pytest.mark.anyio


async def test_a_group_made_again_beside_a_waiting_take_keeps_what_is_acknowledged(
    world: World,
) -> None:
    groups = world.services.groups
    waiting = asyncio.create_task(world.take("idle", wait_s=30))
    await world.waits()
    await groups.delete_group(TOPIC, "g")
    with pytest.raises(SubscriptionNotFound):
        await waiting
    await groups.create_group(TOPIC, "g", GroupSettings(lease_s=7))
    await world.publish(b"1")
    taken = await world.take("a")
    assert taken.lease_s == 7
    assert await world.settle("a", acks=[Acks(number(taken))]) == []
    await world.again()
    assert (await world.take("b")).delivery is None


async def test_a_commit_beside_a_deletion_acknowledges_in_neither_group(world: World) -> None:
    groups, transactions = world.services.groups, world.services.transactions
    await world.publish(b"1")
    taken = await world.take("a")
    tx = await transactions.start(StartRequest())
    acks = [CommitAcks(TOPIC, "g", "a", number(taken), ids(taken))]
    deletion = asyncio.create_task(groups.delete_group(TOPIC, "g"))
    await turns()
    with pytest.raises(TmsError):
        await transactions.commit(tx.transaction_id, CommitRequest(acks=acks))
    await deletion
    await groups.create_group(TOPIC, "g")
    with pytest.raises(TmsError):
        await transactions.commit(tx.transaction_id, CommitRequest(acks=acks))
    assert payloads(await world.take("b")) == [b"1"]


@pytest.mark.parametrize("turns_between", range(6))
async def test_a_commit_whose_group_was_loaded_again_acknowledges_in_it(
    world: World, turns_between: int
) -> None:
    """Both a commit and a publish to several topics do."""
    groups, transactions = world.services.groups, world.services.transactions
    assert isinstance(groups, GroupService)
    await world.publish(b"1", b"2")
    for at_once in (True, False):
        taken = await world.take("a")
        acks = CommitRequest(acks=[CommitAcks(TOPIC, "g", "a", number(taken), ids(taken))])
        await world.flush()
        if at_once:
            work: Coroutine[Any, Any, object] = world.services.messaging.publish_all(
                {BILLS: [b"x"]}, request=acks
            )
        else:
            tx = await transactions.start(StartRequest())
            work = transactions.commit(tx.transaction_id, acks)
        working = asyncio.create_task(work)
        await turns(turns_between)
        for group in groups._groups.loaded:
            groups._groups.drop(group)
        await working
    assert (await world.take("b")).delivery is None


USES: dict[str, Callable[[Groups], Coroutine[Any, Any, Any]]] = {
    "take": lambda groups: groups.take(TOPIC, "g", Take("b", 5)),
    "waiting take": lambda groups: groups.take(TOPIC, "g", Take("b", 5), wait_s=30),
    "leave": lambda groups: groups.settle(TOPIC, "g", "a", Settle(leave=True)),
    "extend": lambda groups: groups.settle(TOPIC, "g", "a", Settle(extend=[])),
    "show": lambda groups: groups.group(TOPIC, "g"),
    "members": lambda groups: groups.members(TOPIC, "g"),
    "open": lambda groups: groups.open_messages(TOPIC, "g"),
    "change": lambda groups: groups.set_group(TOPIC, "g", {"lease_s": 9}),
    "seek": lambda groups: groups.seek(TOPIC, "g", 0),
    "delete": lambda groups: groups.delete_group(TOPIC, "g"),
}


@pytest.mark.parametrize("use", USES)
async def test_whatever_uses_a_group_while_it_is_deleted_leaves_nothing_of_it(
    world: World, use: str
) -> None:
    """When the group is used, the deletion's flush has not begun, is in progress, or is done."""
    for turns_between in range(8):
        groups = world.services.groups
        assert isinstance(groups, GroupService)
        await world.publish(b"1", b"2")
        await world.take("a")
        deletion = asyncio.create_task(groups.delete_group(TOPIC, "g"))
        await turns(turns_between)
        used = asyncio.create_task(USES[use](groups))
        for each in (used, deletion):
            with contextlib.suppress(SubscriptionNotFound):
                await each
        with pytest.raises(SubscriptionNotFound):
            await groups.group(TOPIC, "g")
        assert groups._groups.loaded == []
        settings = GroupSettings(lease_s=7 + turns_between)
        await groups.create_group(TOPIC, "g", settings)
        taken = await world.take("c", 100)
        assert payloads(taken) == [b"1", b"2"] * (turns_between + 1)
        assert taken.lease_s == settings.lease_s
        assert await world.settle("c", acks=[Acks(number(taken))]) == []
        await world.again()
        shown = await world.services.groups.group(TOPIC, "g")
        assert (shown.state.open, shown.state.unread, shown.settings) == (0, 0, settings)


async def test_a_creation_beside_a_deletion_leaves_a_group(world: World) -> None:
    """Whichever comes first, the old group is gone or a new one has taken its place."""
    groups = world.services.groups
    for turns_between in range(8):
        deletion = asyncio.create_task(groups.delete_group(TOPIC, "g"))
        await turns(turns_between)
        created = await groups.create_group(TOPIC, "g")
        await deletion
        assert (await groups.group(TOPIC, "g")).version == created.version


async def test_after_a_deletion_that_failed_the_group_is_used_as_before() -> None:
    store = FaultyStore()
    world = World(lambda: StoreTables(store))
    await world.open()
    try:
        await world.services.messaging.create_topic(TOPIC)
        await world.services.groups.create_group(TOPIC, "g")
        await world.publish(b"1")
        waiting = asyncio.create_task(world.take("w", messages=5, wait_s=30))
        await waiting
        store.writes_fail = True
        with pytest.raises(TmsError):
            await world.services.groups.delete_group(TOPIC, "g")
        store.writes_fail = False
        await world.is_read_again()
        assert payloads(await world.take("b", 5)) in ([b"1"], [])
        await world.services.groups.delete_group(TOPIC, "g")
    finally:
        await world.services.close()
