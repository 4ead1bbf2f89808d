"""Locks: who gets them, who loses them and is notified, and that tokens grow."""

import asyncio

import pytest

from tests.coordination.member import PATH, Member
from tests.waiting import WAIT_S_MAX, passes, turns, until
from tms.coordination import ResourceLock
from tms.core.errors import InvalidRequest, LockBusy, MetadataClosed, MetadataUnavailable
from tms.metadata import following
from tms.metadata.host import MetadataHost
from tms.metadata.interface import NEW, MetadataStore, Value

pytestmark = pytest.mark.anyio


@pytest.fixture
async def one(host: MetadataHost) -> Member:
    return Member(host)


@pytest.fixture
async def two(host: MetadataHost) -> Member:
    return Member(host)


async def value_at(store: MetadataStore, path: str = PATH) -> Value:
    found = await store.get(path)
    assert found is not None
    return found


async def until_retaken(store: MetadataStore, lock: ResourceLock, old_token: int) -> None:
    await until(lambda: lock.token > old_token)
    assert (await value_at(store, lock.path)).stat.created_revision == lock.token


async def test_a_lock_is_taken_read_listed_and_released(one: Member, two: Member) -> None:
    assert await one.service.list_locks("/locks") == []
    assert await one.service.read_lock(PATH) is None
    lock = await one.service.acquire_lock(PATH, b"one")

    assert (lock.path, lock.content, lock.is_valid) == (PATH, b"one", True)
    assert await two.service.list_locks("/locks") == ["1"]
    assert await two.service.read_lock(PATH) == b"one"
    for member in (one, two):
        with pytest.raises(LockBusy):
            await member.service.acquire_lock(PATH, b"two")
    await lock.release()
    await lock.release()
    assert not lock.is_valid
    assert not lock.expired.done(), "a release is not an expiry"
    assert await two.service.list_locks("/locks") == []
    again = await two.service.acquire_lock(PATH, b"two")
    assert again.token > lock.token
    await lock.release()
    assert await one.service.read_lock(PATH) == b"two"


async def test_closing_releases_all(one: Member, two: Member) -> None:
    locks = [await one.service.acquire_lock(f"/locks/{n}", b"") for n in range(3)]
    await one.service.close()
    await one.service.close()

    assert await two.service.list_locks("/locks") == []
    assert not any(lock.is_valid for lock in locks)
    with pytest.raises(MetadataClosed):
        await one.service.acquire_lock(PATH, b"")
    assert one.store.is_connected


async def test_a_malformed_path_is_not_a_lock(one: Member) -> None:
    with pytest.raises(InvalidRequest):
        await one.service.acquire_lock("/locks/", b"")
    with pytest.raises(InvalidRequest):
        await one.service.become_leader("", b"")
    with pytest.raises(InvalidRequest):
        one.service.election("/")


async def test_an_update_is_seen_and_keeps_the_token(one: Member, two: Member) -> None:
    lock = await one.service.acquire_lock(PATH, b"1")
    token = lock.token
    await lock.update(b"2")
    await lock.update(b"3")

    assert lock.content == b"3"
    assert await two.service.read_lock(PATH) == b"3"
    assert lock.token == token


@pytest.mark.parametrize("outside", [b"new", b"other"])
async def test_an_update_heals_a_version_out_of_step(one: Member, outside: bytes) -> None:
    lock = await one.service.acquire_lock(PATH, b"old")
    await one.store.put(PATH, outside, ephemeral=True)
    await lock.update(b"new")
    await lock.update(b"newer")

    assert await one.service.read_lock(PATH) == b"newer"
    assert lock.is_valid


async def test_an_update_heals_a_deleted_lock(one: Member, two: Member) -> None:
    lock = await one.service.acquire_lock(PATH, b"old")
    token = lock.token
    await two.store.delete(PATH)
    await lock.update(b"new")

    assert await two.service.read_lock(PATH) == b"new"
    assert lock.token > token
    assert not lock.expired.done()


async def test_an_update_of_a_lost_lock_says_so(
    host: MetadataHost, one: Member, two: Member
) -> None:
    lock = await one.service.acquire_lock(PATH, b"one")
    await host.expire(one.store)
    await two.service.acquire_lock(PATH, b"two")
    one.store._is_connected = True  # and nothing has been reported yet
    with pytest.raises(LockBusy):
        await lock.update(b"other")

    await until(lock.expired.done)
    assert await two.service.read_lock(PATH) == b"two"


@pytest.mark.parametrize("content", [b"old", b"new"])
async def test_a_value_of_ones_own_session_is_taken_over(one: Member, content: bytes) -> None:
    await one.store.put(PATH, content, NEW, ephemeral=True)
    lock = await one.service.acquire_lock(PATH, b"new")
    await passes(0.01)

    assert lock.is_valid
    assert (await value_at(one.store)).value == b"new"
    assert (await value_at(one.store)).stat.created_revision == lock.token


async def test_what_is_not_ephemeral_is_not_a_lock_to_take(one: Member) -> None:
    await one.store.put(PATH, b"same")
    with pytest.raises(LockBusy):
        await one.service.acquire_lock(PATH, b"same")

    assert (await value_at(one.store)).stat.version == 0


async def test_what_a_former_run_left_is_another_s_until_its_session_has_ended(
    host: MetadataHost, one: Member, two: Member
) -> None:
    former = await one.store.put(PATH, b"me", ephemeral=True)
    for content in (b"you", b"me"):
        with pytest.raises(LockBusy):
            await two.service.acquire_lock(PATH, content)
    waiting = asyncio.ensure_future(two.service.become_leader(PATH, b"me"))
    await passes(0.01)
    assert not waiting.done()

    await host.expire(one.store)

    latter = await asyncio.wait_for(waiting, WAIT_S_MAX)
    assert latter.token > former.created_revision
    assert (await value_at(two.store)).stat.created_revision == latter.token


async def test_a_deleted_lock_is_put_back_each_time(one: Member, two: Member) -> None:
    lock = await one.service.acquire_lock(PATH, b"one")
    for _ in range(3):
        token = lock.token
        await two.store.delete(PATH)
        await until_retaken(two.store, lock, token)

    assert not lock.expired.done()


async def test_a_lock_kept_in_its_own_session_is_put_back_too(one: Member, two: Member) -> None:
    await one.store.put(PATH, b"one", ephemeral=True)
    lock = await one.service.acquire_lock(PATH, b"one")
    token = lock.token
    await two.store.delete(PATH)

    await until_retaken(two.store, lock, token)


async def test_a_lock_that_cannot_be_put_back_expires(
    host: MetadataHost, one: Member, two: Member
) -> None:
    lock = await one.service.acquire_lock(PATH, b"one")
    await host.expire(one.store)
    await two.store.put(f"{PATH}/below", b"")
    host.reconnect(one.store)

    await asyncio.wait_for(lock.expired, WAIT_S_MAX)


async def test_locks_are_taken_again_after_a_lost_session(
    host: MetadataHost, one: Member, two: Member
) -> None:
    lock = await one.service.acquire_lock(PATH, b"one")
    token = lock.token
    await host.expire(one.store)
    assert lock.is_valid
    assert await two.service.read_lock(PATH) is None
    host.reconnect(one.store)

    await until_retaken(two.store, lock, token)


async def test_a_lock_taken_by_another_in_the_meantime_expires(
    host: MetadataHost, one: Member, two: Member
) -> None:
    lock = await one.service.acquire_lock(PATH, b"one")
    await host.expire(one.store)
    other = await two.service.acquire_lock(PATH, b"two")
    host.reconnect(one.store)
    await asyncio.wait_for(lock.expired, WAIT_S_MAX)

    assert other.token > lock.token
    assert await one.service.read_lock(PATH) == b"two"
    with pytest.raises(LockBusy):
        await lock.update(b"again")


async def test_a_deletion_during_a_lost_connection_is_healed(
    host: MetadataHost, one: Member, two: Member
) -> None:
    lock = await one.service.acquire_lock(PATH, b"one")
    token = lock.token
    host.disconnect(one.store)
    await two.store.delete(PATH)
    host.reconnect(one.store)

    await until_retaken(two.store, lock, token)


async def test_a_lock_is_held_while_the_store_is_not_reached(
    host: MetadataHost, one: Member, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(following, "RETRY_S", 0.01)
    lock = await one.service.acquire_lock(PATH, b"one")
    host.disconnect(one.store)
    lock.check()
    await passes(0.03)
    assert lock.is_valid
    with pytest.raises(MetadataUnavailable):
        await lock.update(b"x")
    host.reconnect(one.store)
    await lock.update(b"y")

    assert await one.service.read_lock(PATH) == b"y"


async def test_a_release_that_failed_can_be_made_again(
    host: MetadataHost, one: Member, two: Member
) -> None:
    lock = await one.service.acquire_lock(PATH, b"one")
    host.disconnect(one.store)
    with pytest.raises(MetadataUnavailable):
        await lock.release()
    assert not lock.is_valid
    host.reconnect(one.store)
    await lock.release()

    assert await two.service.read_lock(PATH) is None


async def test_a_cancelled_call_leaves_no_lock(host: MetadataHost, one: Member) -> None:
    for begun in range(6):
        call = asyncio.ensure_future(one.service.acquire_lock(PATH, b"x"))
        await turns(begun)
        call.cancel()
        outcome = (await asyncio.gather(call, return_exceptions=True))[0]
        if isinstance(outcome, ResourceLock):
            await outcome.release()
        await until(lambda: not host.tree.children("/locks") and not one.service._tasks)


async def test_becoming_leader_waits_for_its_turn(one: Member, two: Member) -> None:
    first = await one.service.become_leader(PATH, b"one")
    second = asyncio.ensure_future(two.service.become_leader(PATH, b"two"))
    third = asyncio.ensure_future(one.service.become_leader(PATH, b"three"))
    await passes(0.02)
    assert not second.done()
    assert not third.done()
    await first.release()
    done, _ = await asyncio.wait([second, third], timeout=WAIT_S_MAX, return_when="FIRST_COMPLETED")
    (next_one,) = done
    await next_one.result().release()
    locks = await asyncio.wait_for(asyncio.gather(second, third), WAIT_S_MAX)

    assert all(lock.token > first.token for lock in locks)


async def test_who_waits_to_lead_ends_with_the_service(one: Member, two: Member) -> None:
    await one.service.become_leader(PATH, b"one")
    waiting = asyncio.ensure_future(two.service.become_leader(PATH, b"two"))
    await passes(0.01)
    await two.service.close()

    with pytest.raises(MetadataClosed):
        await asyncio.wait_for(waiting, WAIT_S_MAX)
    assert await one.service.read_lock(PATH) == b"one"


async def test_who_waits_to_lead_outlives_a_lost_session(
    host: MetadataHost, one: Member, two: Member
) -> None:
    first = await one.service.become_leader(PATH, b"one")
    waiting = asyncio.ensure_future(two.service.become_leader(PATH, b"two"))
    await passes(0.01)
    await host.expire(two.store)
    await first.release()
    host.reconnect(two.store)

    assert (await asyncio.wait_for(waiting, WAIT_S_MAX)).token > first.token


async def test_counter_values_never_come_again(one: Member, two: Member) -> None:
    values = []
    for member in (one, two, one):
        values.append(await member.service.next_counter_value("/counter"))
        values.append(await member.service.next_counter_value("/counter"))
        await member.store.delete("/counter")
    at_once = await asyncio.gather(*(two.service.next_counter_value("/counter") for _ in range(9)))

    assert values == sorted(set(values))
    assert len(set(at_once)) == 9
    assert min(at_once) > max(values)
