"""A former leader forgets what it led, and so does a server whose shard has moved."""

import gc
from collections import Counter
from collections.abc import Awaitable, Callable
from functools import partial

import pytest

from tests.cluster.shards_world import SHARDS, Server, Servers
from tests.objects_in_memory import count_by_type
from tests.scale import scaled
from tests.simulation.gateway import Rows
from tests.simulation.leaders import Leader
from tests.virtual_loop import VIRTUAL
from tests.waiting import until
from tms.core.services.transactions import StartRequest
from tms.core.values.topic import TopicId

pytestmark = pytest.mark.anyio


N = scaled(40, 12)
START_MS = 1_800_000_000_000
TOPIC = TopicId("ns", "t")
KEPT = {
    "Hidden": "a topic's seal has one for each takeover between its oldest and its newest message",
    "Cell": "a cell of the simulated HBase, with the messages",
    "Struct": "the last 100 formats that the struct module met",
}
"""Objects that stay: all except the last kind because the messages do."""


def census() -> Counter[str]:
    """Return the objects by their type."""
    gc.collect()
    return count_by_type()


def shown(kind: str) -> list[str]:
    """Return the newest objects of a type, and what refers to each, as text."""
    newest = [each for each in gc.get_objects() if type(each).__qualname__ == kind][-5:]
    return [f"{each!r:.200} of {gc.get_referrers(each)!r:.400}" for each in newest]


async def more_after_twice_as_much(cycle: Callable[[], Awaitable[None]]) -> dict[str, int]:
    """Return the types of which `N` more cycles leave more objects."""
    found = []
    for _ in range(2):
        for _ in range(N):
            await cycle()
        found.append(census())
    return {kind: count for kind, count in (found[1] - found[0]).items() if count > N * 3 // 4}


@pytest.mark.parametrize("anyio_backend", ["asyncio"])
async def test_leaders_that_follow_one_another_leave_nothing() -> None:
    rows = Rows()
    leaders: list[Leader | None] = [None]

    async def take_over() -> None:
        leader = Leader(rows, leaders.pop(), START_MS)
        await leader.open()
        messaging, transactions = leader.services.messaging, leader.services.transactions
        if leader.lease.token == 1:
            await messaging.create_topic(TOPIC)
        transaction = await transactions.start(StartRequest())
        await messaging.publish(TOPIC, [b"x" * 1_000], transaction.write_pointer)
        await transactions.commit(transaction.transaction_id)
        await leader.services.close()
        leader.lease.end()
        leaders.append(leader)

    more = await more_after_twice_as_much(take_over)
    assert more.keys() <= KEPT.keys(), [shown(kind) for kind in more.keys() - KEPT.keys()]


@pytest.mark.parametrize("anyio_backend", [VIRTUAL])
async def test_shards_that_move_leave_nothing() -> None:
    servers = Servers()
    first, second = await servers.start(), await servers.start()
    await until(lambda: servers.is_even(first, second))

    def leads_all(server: Server) -> bool:
        return len(server.led) == SHARDS

    async def move() -> None:
        for to in (first, second):
            await first.members.wish(dict.fromkeys(range(SHARDS), to.id))
            await until(partial(leads_all, to))
        servers.turns.clear()

    assert await more_after_twice_as_much(move) == {}
    await servers.close()
