"""If some servers do not reach the store, one that does takes the lead and keeps it."""

import asyncio
import threading
from functools import partial

import pytest

from tests.cluster.world import LEASE_S, Server, World
from tests.waiting import passes, turns, until
from tms.cluster.holding import LEASE
from tms.cluster.lease import LeaseRecord
from tms.metadata.cache import JsonCodec

pytestmark = pytest.mark.anyio


async def test_one_that_does_not_reach_the_store_leaves_the_lease_to_those_that_do(
    world: World,
) -> None:
    leader, blind, good = [await world.server() for _ in range(3)]
    await until(lambda: leader.is_open)
    blind.reaches = False
    await until(partial(reach_it, good, {leader.id, good.id}))
    await passes(LEASE_S)

    await leader.stop()
    await until(lambda: bool(world.open))

    assert world.open == [good]
    assert blind.opened == 0
    await good.stop()
    await until(lambda: blind.is_open)  # it is alone


async def test_a_leader_that_does_not_reach_the_store_makes_way_and_does_not_come_back_at_once(
    world: World,
) -> None:
    leader, other = [await world.server() for _ in range(2)]
    await until(lambda: leader.is_open)
    leader.may_close.clear()  # its work in progress takes long to end
    loop = asyncio.get_running_loop()
    began_s = loop.time()

    leader.reaches = False
    await until(lambda: other.is_open)

    assert loop.time() - began_s >= LEASE_S
    assert leader.lease is not None
    assert leader.lease.left_s == 0
    await until(lambda: leader.leader == f"http://{other.id}")  # it forwards while it closes
    found = await other.session.get(LEASE)
    assert found is not None
    assert not JsonCodec(LeaseRecord).decode(found.value).is_released
    leader.may_close.set()
    leader.reaches = True
    other.reaches = False
    await until(lambda: leader.opened > 1)
    assert (leader.opened, other.opened) == (2, 1)
    assert loop.time() - began_s >= 4 * LEASE_S


async def test_if_nobody_reaches_the_store_its_leader_stays(world: World) -> None:
    leader = await world.server()
    await until(lambda: leader.is_open)
    await passes(0.02)  # otherwise both would check the store at the same moments
    other = await world.server()
    for server in (leader, other):
        server.reaches = False
    await passes(3 * LEASE_S)
    other.reaches = True  # a moment before the leader reaches it too
    await until(partial(reach_it, leader, {other.id}))
    assert leader.member._holding is not None
    leader.member._holding.renew_now()  # it hears of that before it checks the store again
    await turns(20)
    leader.reaches = True
    await passes(2 * LEASE_S)

    assert (leader.opened, other.opened) == (1, 0)
    leader.write()


@pytest.mark.parametrize("anyio_backend", ["asyncio"])  # its check hangs in a thread
async def test_a_look_that_hangs_is_one_that_is_not_answered(world: World) -> None:
    leader, other = [await world.server() for _ in range(2)]
    await until(lambda: leader.is_open)
    answers = threading.Event()
    leader.wait_for = answers

    await until(lambda: other.is_open)

    answers.set()


async def test_each_reports_since_when_it_reaches_the_store(world: World) -> None:
    first, second = [await world.server() for _ in range(2)]
    second.reaches = False
    await until(partial(reach_it, first, {first.id}))
    await world.host.expire(second.session)
    world.host.reconnect(second.session)

    second.reaches = True
    await until(partial(reach_it, first, {first.id, second.id}))

    before, after = [each.reaches_store_since_ms for each in (await first.member.state()).instances]
    assert before is not None
    assert after is not None
    assert before < after <= world.clock.now_ms()


async def reach_it(asked: Server, ids: set[int]) -> bool:
    """Whether exactly these servers report that they reach the store."""
    instances = (await asked.member.state()).instances
    return ids == {each.id for each in instances if each.reaches_store_since_ms is not None}
