"""Several servers on one metadata store: one leads at a time, and another one follows it.

All sessions are on one host, so tests can drop them at will; time is virtual.
"""

import asyncio

import pytest

from tests.cluster.world import FENCE_S, LEASE_S, World
from tests.waiting import in_time, passes, until
from tms.cluster import member as member_module
from tms.cluster.holding import LEASE
from tms.cluster.lease import LeaseRecord
from tms.core.errors import NoLeader
from tms.core.services.cluster import Role
from tms.metadata.cache import JsonCodec

pytestmark = pytest.mark.anyio

HOUR_MS, DAY_MS = 3_600_000, 86_400_000
NEAR_MS = 5_000
"""Two readings at the same moment differ by less, however busy the machine is."""


async def test_one_of_several_leads_and_the_others_know_it(world: World) -> None:
    servers = [await world.server() for _ in range(3)]
    await until(lambda: len(world.open) == 1)
    [leader] = world.open
    await until(lambda: all(s.leader == f"http://{leader.id}" for s in servers if s is not leader))

    for server in servers:
        state = await server.member.state()
        assert state.leader == leader.id
        assert state.role is (Role.LEADER if server is leader else Role.STANDBY)
        assert [instance.id for instance in state.instances] == [s.id for s in servers]
    await passes(3 * LEASE_S)
    assert world.open == [leader]
    leader.write()


async def test_a_leader_that_stops_hands_over_without_a_wait(world: World) -> None:
    first = await world.server()
    await until(lambda: first.is_open)
    second = await world.server()
    await until(lambda: second.leader == f"http://{first.id}")

    await first.stop()

    await until(lambda: second.is_open)
    first_lease, second_lease = first.lease, second.lease
    assert first_lease is not None
    assert second_lease is not None
    assert first_lease.token < second_lease.token
    with pytest.raises(NoLeader):
        first.write()
    second.write()
    assert [i.id for i in (await second.member.state()).instances] == [second.id]


async def test_keys_of_a_leader_are_above_those_of_all_before(world: World) -> None:
    first = await world.server()
    await until(lambda: first.is_open)
    lease = first.lease
    assert lease is not None
    ceiling_ms = lease.keys_until_ms
    await until(lambda: lease.keys_until_ms > ceiling_ms)
    lease.give_keys(lease.keys_until_ms)
    world.host.disconnect(first.session)
    second = await world.server()
    await until(lambda: second.is_open)
    assert second.lease is not None
    assert second.lease.keys_after_ms >= lease.keys_until_ms
    world.host.reconnect(first.session)
    await until(lambda: not first.is_open)

    given_ms = second.lease.keys_after_ms + 5
    second.lease.give_keys(given_ms)
    await second.stop()

    await until(lambda: first.is_open)
    assert first.lease is not None
    assert first.lease.keys_after_ms == given_ms


async def lease_record(world: World) -> LeaseRecord:
    found = await world.host.open_session().get(LEASE)
    assert found is not None
    return JsonCodec(LeaseRecord).decode(found.value)


@pytest.mark.parametrize("stops", [True, False])
async def test_who_takes_over_continues_from_the_time_of_the_leader(
    world: World, *, stops: bool
) -> None:
    """A wall clock ahead is treated like a step of a running server: in doubt, and reported."""
    first = await world.server()
    await until(lambda: first.is_open)
    second = await world.server(ahead_ms=2 * HOUR_MS)
    await until(lambda: second.leader is not None)
    await until(lambda: second.member._sighting._is_timed)  # a renewal was seen as it arrived
    assert second.time.state().in_doubt_s is None, "nobody compares walls before he claims"

    if stops:
        await first.stop()
    else:
        world.host.disconnect(first.session)
    await until(lambda: second.is_open)

    now_ms, state = world.clock.now_ms(), second.time.state()
    assert abs(second.time.now_ms() - now_ms) < NEAR_MS
    assert abs(state.step_s - 7_200) < NEAR_MS // 1_000
    assert state.held == ("expiry", "tombstones")
    assert second.lease is not None
    assert second.lease.keys_until_ms < now_ms + HOUR_MS, "the ceiling is of the trusted time"
    assert abs((await lease_record(world)).time_ms - now_ms) < NEAR_MS
    world.host.reconnect(first.session)


async def test_a_step_of_the_leader_is_not_handed_on(world: World) -> None:
    first = await world.server()
    await until(lambda: first.is_open)
    second = await world.server()
    await until(lambda: second.leader is not None)

    first.wall.ahead_ms = 30 * DAY_MS
    renewals = (await lease_record(world)).renewals

    async def renewed_twice() -> LeaseRecord | None:
        record = await lease_record(world)
        return record if record.renewals >= renewals + 2 else None

    record = await until(renewed_twice)
    assert record is not None
    assert abs(record.time_ms - world.clock.now_ms()) < NEAR_MS
    assert record.keys_until_ms < world.clock.now_ms() + DAY_MS
    await first.stop()
    await until(lambda: second.is_open)

    assert second.time.state().in_doubt_s is None
    assert abs(second.time.now_ms() - world.clock.now_ms()) < NEAR_MS


async def test_one_whose_token_is_behind_what_the_store_knows_claims_again(world: World) -> None:
    """This happens if the metadata store was replaced."""
    first = await world.server(fence_s=0.1)
    await until(lambda: first.is_open)
    await first.stop()
    second = await world.server(fence_s=0.1)
    second.known_token = 40

    await until(lambda: second.is_open)

    assert second.lease is not None
    assert second.lease.token == 41


async def test_a_leader_that_is_cut_off_writes_no_more_before_another_leads(world: World) -> None:
    first = await world.server()
    await until(lambda: first.is_open)
    second = await world.server()
    await until(lambda: second.leader is not None)
    world.host.disconnect(first.session)
    refused = False
    async with in_time("another leader"):
        while not second.is_open:
            try:
                first.write()
            except NoLeader:
                refused = True
            else:
                assert not refused
            await passes(0.01)

    assert refused
    second.write()
    with pytest.raises(NoLeader):
        first.write()
    assert world.writers == sorted(world.writers)
    world.host.reconnect(first.session)
    await until(lambda: not first.is_open and first.leader == f"http://{second.id}")
    assert (await first.member.state()).role is Role.STANDBY


async def test_nobody_else_begins_before_the_fence_is_over(world: World) -> None:
    first = await world.server()
    await until(lambda: first.is_open)
    second = await world.server()
    await until(lambda: second.leader is not None)
    world.host.disconnect(first.session)
    lease = first.lease
    assert lease is not None
    await until(lambda: lease.left_s == 0)
    loop = asyncio.get_running_loop()
    ended = loop.time()

    await until(lambda: second.is_open)

    assert loop.time() - ended >= FENCE_S - 0.05
    world.host.reconnect(first.session)


async def test_one_that_stops_before_the_fence_is_over_gives_nothing_back(world: World) -> None:
    first = await world.server(fence_s=60.0)
    await until(lambda: first.is_open)
    second = await world.server()
    await until(lambda: second.leader is not None)
    world.host.disconnect(first.session)

    async def takes_over() -> bool:
        return (await second.member.state()).role is Role.TAKING_OVER

    await until(takes_over)

    await second.stop()

    record = await lease_record(world)
    assert (record.holder, record.is_released, record.fence_s) == (second.id, False, 60.0)
    world.host.reconnect(first.session)


async def test_a_leader_that_was_cut_off_for_a_moment_continues(world: World) -> None:
    alone = await world.server()
    await until(lambda: alone.is_open)
    world.host.disconnect(alone.session)
    lease = alone.lease
    assert lease is not None
    await until(lambda: lease.left_s == 0)

    world.host.reconnect(alone.session)

    await until(lambda: lease.left_s > 0)
    alone.write()
    assert alone.opened == 1


@pytest.mark.parametrize("away", [0.7, 3.0])
async def test_a_store_that_was_away_for_longer_than_a_lease_costs_no_leader_its_place(
    world: World, monkeypatch: pytest.MonkeyPatch, away: float
) -> None:
    monkeypatch.setattr(member_module, "RETRY_S", 0.02)
    first = await world.server()
    await until(lambda: first.is_open)
    second = await world.server()
    await until(lambda: second.leader is not None)
    lease = first.lease
    assert lease is not None
    for server in (first, second):
        world.host.disconnect(server.session)
    await passes(away * LEASE_S)
    # The follower reconnects first.
    for server in (second, first):
        world.host.reconnect(server.session)
        await passes(LEASE_S / 5)

    assert lease.left_s > 0, "it was not renewed at once"
    await passes(2 * LEASE_S)
    assert (first.is_open, first.opened, second.opened) == (True, 1, 0)
    first.write()


async def test_a_leader_that_wakes_up_knows_that_another_leads(world: World) -> None:
    first = await world.server()
    await until(lambda: first.is_open)
    second = await world.server()
    await until(lambda: second.leader is not None)
    first.may_close.clear()
    world.host.disconnect(first.session)
    await until(lambda: second.is_open)
    world.host.reconnect(first.session)

    state = await first.member.state()

    assert second.lease is not None
    assert (state.id, state.role) == (first.id, Role.STANDBY)
    assert (state.leader, state.token) == (second.id, second.lease.token)
    assert first.is_open


async def test_one_whose_session_was_lost_registers_again(world: World) -> None:
    server = await world.server()
    other = await world.server()
    await world.host.expire(server.session)
    assert [i.id for i in (await other.member.state()).instances] == [other.id]

    world.host.reconnect(server.session)

    async def both_are_there() -> bool:
        return len((await other.member.state()).instances) == 2

    await until(both_are_there)


async def test_one_whose_session_was_lost_leads_on_once_it_has_renewed(world: World) -> None:
    """A lost session proves that time has passed; a lost connection does not."""
    server = await world.server()
    await until(lambda: server.is_open)
    world.host.disconnect(server.session)
    server.write()
    await world.host.expire(server.session)
    with pytest.raises(NoLeader):
        server.write()
    world.host.reconnect(server.session)

    await until(lambda: server.lease is not None and server.lease.left_s > 0)
    server.write()
    assert server.opened == 1


async def test_one_whose_write_met_the_fence_gives_the_shard_up(world: World) -> None:
    first = await world.server()
    await until(lambda: first.is_open)
    await world.server()
    lease = first.lease
    assert lease is not None

    await asyncio.to_thread(lease.lose)

    await until(lambda: not first.is_open)
    await until(lambda: bool(world.open))
    [leader] = world.open
    assert leader.lease is not None
    assert leader.lease.token > lease.token


async def test_where_the_services_do_not_open_another_has_its_turn(world: World) -> None:
    first = await world.server()
    first.fails = True
    second = await world.server()

    await until(lambda: second.is_open)

    first.fails = False
    await second.stop()
    await until(lambda: first.is_open)


async def test_one_that_closes_slowly_is_waited_for(world: World) -> None:
    first = await world.server()
    await until(lambda: first.is_open)
    second = await world.server()
    first.may_close.clear()
    stopping = asyncio.create_task(first.member.close())
    await passes(3 * LEASE_S)
    assert not second.is_open

    first.may_close.set()
    await stopping

    await until(lambda: second.is_open)


async def test_a_lease_that_somebody_deletes_is_waited_for_all_the_same(world: World) -> None:
    first = await world.server()
    await until(lambda: first.is_open)
    second = await world.server()
    await until(lambda: second.leader is not None)

    await second.session.delete(LEASE)

    await until(lambda: len(world.open) == 1)
    await passes(2 * LEASE_S)
    assert len(world.open) == 1


async def test_a_cluster_of_another_store_is_refused(world: World) -> None:
    await world.server()
    await passes(0.1)

    with pytest.raises(ValueError, match="is on the store 's', not on 'other'"):
        await world.server(of_store="other")
