"""Locks, elections and counters on real ZooKeeper and etcd; sessions end on the server's side."""

import asyncio
import os
import signal
import subprocess
import sys
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.coordination.holder import GUARDED, Guarded
from tests.metadata.servers import ONE_IN_THE_GATE, Open, expire
from tests.servers.proxy import Proxy
from tests.waiting import WAIT_S_MAX, in_time, until
from tms.coordination import CoordinationService, LeaderState
from tms.core.errors import LockBusy, MetadataClosed
from tms.metadata.cache import JsonCodec, MetadataCache
from tms.metadata.interface import MetadataStore

pytestmark = pytest.mark.anyio

PATH = "/locks/1"


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


class Member:
    """A session, with the locks and elections that use it."""

    def __init__(self, store: MetadataStore) -> None:
        self.store = store
        self.service = CoordinationService(store)

    def waits_to_lead(self) -> bool:
        return bool(self.service._waking) and not self.service._tasks


@pytest.fixture
async def one(remote: str, sessions_at: Open) -> AsyncIterator[Member]:
    member = Member(await sessions_at(remote))
    yield member
    await member.service.close()


@pytest.fixture
async def two(remote: str, sessions_at: Open) -> AsyncIterator[Member]:
    member = Member(await sessions_at(remote))
    yield member
    await member.service.close()


async def test_a_lock_is_taken_busy_updated_and_released(one: Member, two: Member) -> None:
    lock = await one.service.acquire_lock(PATH, b"one")
    with pytest.raises(LockBusy):
        await two.service.acquire_lock(PATH, b"two")
    await lock.update(b"more")
    assert await two.service.read_lock(PATH) == b"more"
    assert await two.service.list_locks("/locks") == ["1"]
    await lock.release()
    assert await two.service.list_locks("/locks") == []

    assert (await two.service.acquire_lock(PATH, b"two")).token > lock.token


async def test_a_deleted_lock_is_put_back(one: Member, two: Member) -> None:
    lock = await one.service.acquire_lock(PATH, b"one")
    token = lock.token
    await two.store.delete(PATH)
    await until(lambda: lock.token > token)

    assert await two.service.read_lock(PATH) == b"one"


async def test_a_lock_is_taken_again_after_a_lost_session(one: Member) -> None:
    lock = await one.service.acquire_lock(PATH, b"one")
    token = lock.token
    await expire(one.store)
    await until(lambda: lock.token > token)

    found = await one.store.get(PATH)
    assert found is not None
    assert (found.stat.created_revision, found.stat.created_by_self) == (lock.token, True)


async def test_of_a_lock_that_is_gone_one_becomes_the_holder(one: Member, two: Member) -> None:
    lock = await one.service.acquire_lock(PATH, b"one")
    token = lock.token
    waiting = asyncio.ensure_future(two.service.become_leader(PATH, b"two"))
    await until(two.waits_to_lead)
    await expire(one.store)
    await until(lambda: waiting.done() or lock.token > token)
    if not waiting.done():  # the former holder was quicker to create it again
        waiting.cancel()
        return
    await asyncio.wait_for(lock.expired, WAIT_S_MAX)
    assert waiting.result().token > token
    assert await one.service.read_lock(PATH) == b"two"


async def test_one_leads_and_the_next_takes_over(one: Member, two: Member) -> None:
    told: dict[str, list[LeaderState]] = {"one": [], "two": []}
    first = one.service.election("/leader", told["one"].append)
    second = two.service.election("/leader", told["two"].append)
    assert await first.elect(b"one") is LeaderState.LEADING
    assert await second.elect(b"two") is LeaderState.FOLLOWING
    token = first.token
    assert token is not None
    await first.close()

    assert await asyncio.wait_for(second.wait_until_leading(), WAIT_S_MAX) > token
    assert told["one"] == [LeaderState.LEADING, LeaderState.NO_LEADER]
    assert told["two"] == [LeaderState.FOLLOWING, LeaderState.LEADING]


async def test_a_leader_whose_session_ends_stands_again(one: Member, two: Member) -> None:
    first = one.service.election("/leader")
    second = two.service.election("/leader")
    await first.elect(b"one")
    await second.elect(b"two")
    old = first.token
    assert old is not None
    await expire(one.store)

    def settled() -> bool:
        states = {first.state, second.state}
        return first.token != old and states == {LeaderState.LEADING, LeaderState.FOLLOWING}

    await until(settled)
    assert max(first.token or 0, second.token or 0) > old


async def test_counter_values_never_come_again(one: Member, two: Member) -> None:
    values = []
    for member in (one, two, one):
        values.append(await member.service.next_counter_value("/counter"))
        values.append(await member.service.next_counter_value("/counter"))
        await member.store.delete("/counter")
    at_once = await asyncio.gather(
        *(member.service.next_counter_value("/counter") for member in (one, two) for _ in range(9))
    )

    assert values == sorted(set(values))
    assert len(set(at_once)) == 18
    assert min(at_once) > max(values)


async def test_who_waits_to_lead_ends_also_without_a_connection(
    remote: str, one: Member, sessions_at: Open
) -> None:
    kind, _, rest = remote.partition("://")
    host, _, base = rest.partition("/")
    with Proxy(int(host.rpartition(":")[2])) as proxy:
        member = Member(await sessions_at(f"{kind}://{proxy.address}/{base}"))
        await one.service.become_leader(PATH, b"one")
        waiting = asyncio.ensure_future(member.service.become_leader(PATH, b"two"))
        await until(member.waits_to_lead)
        proxy.close()
        electing = asyncio.ensure_future(member.service.election("/leader").elect(b"two"))
        await until(lambda: not member.store.is_connected)
        async with in_time():
            await member.service.close()
            for task in (waiting, electing):
                with pytest.raises(MetadataClosed):
                    await task


class Process:
    """`holder.py`, with the lines it has written."""

    def __init__(self, url: str, name: str, log: Path) -> None:
        self._log = log
        with log.open("wb") as out:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "tests.coordination.holder", url, name],
                cwd=Path(__file__).parents[2],
                stdout=out,
            )

    async def until_it_says(self, start: str) -> None:
        def has_said_it() -> bool:
            assert self.process.poll() is None
            return any(line.startswith(start) for line in self._log.read_text().splitlines())

        await until(has_said_it, start)

    def end(self) -> None:
        self.process.kill()
        self.process.wait()


@ONE_IN_THE_GATE
async def test_a_process_that_was_paused_past_its_session_is_refused(
    remote: str, sessions_at: Open, tmp_path: Path
) -> None:
    url = f"{remote}?session_timeout_s=2"
    cache = MetadataCache(await sessions_at(remote), JsonCodec(Guarded))
    paused = Process(url, "paused", tmp_path / "paused")
    quick = None
    try:
        await paused.until_it_says("leads")
        await written(cache, 5)
        os.kill(paused.process.pid, signal.SIGSTOP)
        quick = Process(url, "quick", tmp_path / "quick")
        await quick.until_it_says("leads")
        await written(cache, 5)
        os.kill(paused.process.pid, signal.SIGCONT)
        await paused.until_it_says("refused")
        found = await written(cache, 5)
    finally:
        for process in (paused, quick):
            if process is not None:
                process.end()
    tokens = [token for token, _ in found.history]
    assert tokens == sorted(set(tokens)), "each token is one holder's, and greater than before"
    assert [name for _, name in found.history] == ["paused", "quick"]
    await cache.close()


async def written(cache: MetadataCache[Guarded], times: int) -> Guarded:
    """Return the guarded value once it has been written this number of times more."""
    before = await cache.get(GUARDED)
    wanted = (before.writes if before else 0) + times

    async def once_written() -> Guarded | None:
        found = await cache.get(GUARDED)
        return found if found is not None and found.writes >= wanted else None

    found = await until(once_written)
    assert found is not None
    return found
