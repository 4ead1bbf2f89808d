"""A group stays in memory while a flush writes its changes, even if their caller has gone."""

import asyncio
from collections.abc import Callable, Coroutine
from contextlib import suppress
from typing import Any

import pytest

from tests.messaging.conftest import TOPIC, FaultyStore
from tests.messaging.groups.conftest import World, ids, number, payloads
from tests.waiting import turns, until
from tms.core.errors import SubscriptionNotFound
from tms.core.services.commits import CommitRequest
from tms.core.services.transactions import StartRequest
from tms.core.values.groups import CommitAcks
from tms.messaging.groups.service import GroupService

pytestmark = pytest.mark.anyio


async def delivered(world: World) -> tuple[list[bytes], float] | None:
    """Return what a take gets and the length of its lease; None without a group."""
    with suppress(SubscriptionNotFound):
        taken = await world.take("b")
        await world.settle("b", leave=True)
        return payloads(taken), taken.lease_s
    return None


@pytest.mark.parametrize("world", ["memory"], indirect=True)
@pytest.mark.parametrize(
    ("change", "expected"), [("commit", ([], 0)), ("settings", ([b"1"], 7)), ("deletion", None)]
)
async def test_a_change_without_a_caller_holds_if_memory_is_needed_during_its_flush(
    world: World, change: str, expected: tuple[list[bytes], float] | None
) -> None:
    groups, transactions = world.services.groups, world.services.transactions
    assert isinstance(groups, GroupService)
    store = world.tables().store
    assert isinstance(store, FaultyStore)
    await world.publish(b"1")
    taken = await world.take()
    await world.settle(leave=True)
    tx = await transactions.start(StartRequest())
    acks = [CommitAcks(TOPIC, "g", "a", number(taken), ids(taken))]
    changes: dict[str, Callable[[], Coroutine[Any, Any, object]]] = {
        "commit": lambda: transactions.commit(tx.transaction_id, CommitRequest(acks=acks)),
        "settings": lambda: groups.set_group(TOPIC, "g", {"lease_s": 7}),
        "deletion": lambda: groups.delete_group(TOPIC, "g"),
    }

    store.passed.clear()
    changing = asyncio.create_task(changes[change]())
    await turns(50)
    changing.cancel()
    await asyncio.wait([changing])
    groups._groups._drop_idle(0)
    taking = asyncio.create_task(delivered(world))
    await turns(5)
    await until(lambda: not groups._groups._loading)
    store.passed.set()
    await asyncio.gather(taking, world.flush())

    assert await delivered(world) == expected
    await world.again()
    assert await delivered(world) == expected
