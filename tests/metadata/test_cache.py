"""The typed cache: what it keeps, what it forgets, and that nobody reads outdated values."""

import asyncio
from dataclasses import dataclass, replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.scale import scaled
from tests.waiting import turns, until
from tms.core.errors import (
    BadVersion,
    MetadataUnavailable,
    PathExists,
    PathNotFound,
    ValueUnreadable,
)
from tms.metadata.cache import JsonCodec, MetadataCache
from tms.metadata.host import MetadataHost
from tms.metadata.interface import NEW, Value
from tms.metadata.local import LocalSession

pytestmark = pytest.mark.anyio


@dataclass
class Thing:
    number: int
    text: str = ""


class Slow:
    """A session whose reads can be held back, and are counted."""

    def __init__(self, session: LocalSession) -> None:
        self.session = session
        self.reads = 0
        self.may_answer = asyncio.Event()
        self.may_answer.set()

    def __getattr__(self, name: str) -> object:
        return getattr(self.session, name)

    async def get(self, path: str) -> Value | None:
        self.reads += 1
        found = await self.session.get(path)
        await self.may_answer.wait()
        return found


@pytest.fixture
async def host() -> MetadataHost:
    return MetadataHost()


@pytest.fixture
async def other(host: MetadataHost) -> LocalSession:
    return host.open_session()


@pytest.fixture
async def slow(host: MetadataHost) -> Slow:
    return Slow(host.open_session())


@pytest.fixture
async def cache(slow: Slow) -> MetadataCache[Thing]:
    return MetadataCache(slow, JsonCodec(Thing))  # type: ignore[arg-type]


async def test_an_empty_cache_of_an_empty_store(cache: MetadataCache[Thing]) -> None:
    assert cache.get_if_cached("/k") is None
    assert await cache.get("/k") is None
    assert await cache.get_with_stat("/k") is None
    assert not await cache.exists("/k")
    assert await cache.get_children("/k") == []
    with pytest.raises(PathNotFound):
        await cache.delete("/k")
    with pytest.raises(PathNotFound):
        await cache.read_modify_update("/k", lambda thing: thing)


async def test_ones_own_writes_are_seen_at_once(cache: MetadataCache[Thing]) -> None:
    assert (await cache.create("/k", Thing(1))).version == 0
    assert cache.get_if_cached("/k") == Thing(1)
    with pytest.raises(PathExists):
        await cache.create("/k", Thing(2))
    assert (await cache.put("/k", Thing(3), 0)).version == 1
    assert cache.get_if_cached("/k") == Thing(3)
    with pytest.raises(BadVersion):
        await cache.put("/k", Thing(4), 0)
    assert await cache.get("/k") == Thing(3)
    assert await cache.exists("/k")
    assert await cache.get_children("/") == ["k"]
    await cache.delete("/k", 1)
    assert cache.get_if_cached("/k") is None
    assert await cache.get("/k") is None
    assert not await cache.exists("/k")
    assert await cache.get_children("/") == []


async def test_ones_own_writes_are_seen_before_they_are_reported(host: MetadataHost) -> None:
    """As with a store on another machine, whose answers can overtake its notifications."""
    session = host.open_session()
    cache = MetadataCache(session, JsonCodec(Thing))
    session._observers.clear()
    for number in range(2):
        assert await cache.get("/a/b") is None
        assert not await cache.exists("/a/b")
        assert await cache.get_children("/") == await cache.get_children("/a") == []
        await cache.create("/a/b", Thing(number))
        assert await cache.get("/a/b") == Thing(number)
        assert await cache.exists("/a/b")
        assert (await cache.get_children("/"), await cache.get_children("/a")) == (["a"], ["b"])
        assert await cache.read_modify_update("/a/b", lambda t: Thing(t.number + 5)) == Thing(
            number + 5
        )
        assert cache.get_if_cached("/a/b") == Thing(number + 5)
        await cache.delete("/a/b")


async def test_what_is_kept_costs_no_read_and_is_one_object(
    cache: MetadataCache[Thing], slow: Slow
) -> None:
    await cache.put("/k", Thing(1))
    slow.reads = 0
    values = [await cache.get("/k") for _ in range(10_000)]

    assert slow.reads == 0
    assert len(set(map(id, values))) == 1


async def test_readers_of_one_path_share_a_load(
    cache: MetadataCache[Thing], other: LocalSession, slow: Slow
) -> None:
    await other.put("/k", b'{"number":1}')
    slow.may_answer.clear()
    readers = [asyncio.ensure_future(cache.get("/k")) for _ in range(20)]
    await until(lambda: slow.reads > 0)
    readers[0].cancel()
    await turns()
    slow.may_answer.set()

    assert await asyncio.gather(*readers[1:]) == [Thing(1)] * 19
    assert slow.reads == 1


async def test_a_change_by_others_is_seen(cache: MetadataCache[Thing], other: LocalSession) -> None:
    await other.put("/k", b'{"number":1}')
    assert await cache.get("/k") == Thing(1)
    await other.put("/k", b'{"number":2}')
    assert await cache.get("/k") == Thing(2)
    await other.put("/k", b'{"number":3}')
    await until(lambda: cache.get_if_cached("/k") == Thing(3))
    await other.delete("/k")
    assert await cache.get("/k") is None
    assert not await cache.exists("/k")
    await other.put("/k/below", b"")
    assert await cache.get_children("/k") == ["below"]


async def test_a_load_overtaken_by_a_change_is_not_kept(
    cache: MetadataCache[Thing], other: LocalSession, slow: Slow
) -> None:
    await other.put("/k", b'{"number":1}')
    slow.may_answer.clear()
    early = asyncio.ensure_future(cache.get("/k"))
    await until(lambda: slow.reads > 0)
    await other.put("/k", b'{"number":2}')
    slow.may_answer.set()
    await early

    assert await cache.get("/k") == Thing(2)


@pytest.mark.parametrize("data", [b"", b"nonsense", b'{"number":"text"}', b"\xff", b"[]"])
async def test_what_cannot_be_decoded_is_an_error_and_not_kept(
    cache: MetadataCache[Thing], other: LocalSession, slow: Slow, data: bytes
) -> None:
    await other.put("/k", data)
    for _ in range(2):
        with pytest.raises(ValueUnreadable):
            await cache.get("/k")

    assert cache.get_if_cached("/k") is None
    assert slow.reads == 2
    assert await cache.exists("/k")
    await other.put("/k", b'{"number":1}')
    assert await cache.get("/k") == Thing(1)


async def test_the_function_neither_sees_nor_spoils_what_is_kept(
    cache: MetadataCache[Thing],
) -> None:
    await cache.put("/k", Thing(100))
    kept = await cache.get("/k")
    given: list[Thing] = []

    def change(thing: Thing) -> Thing:
        given.append(thing)
        thing.number += 100
        return thing

    def fail(thing: Thing) -> Thing:
        thing.number = -1
        raise ArithmeticError

    assert await cache.read_modify_update("/k", change) == Thing(200)
    assert await cache.read_modify_update("/k", change) == Thing(300)
    with pytest.raises(ArithmeticError):
        await cache.read_modify_update("/k", fail)

    assert kept == Thing(100)
    assert all(thing is not kept for thing in given)
    assert await cache.get("/k") == Thing(300)


async def test_an_update_creates_if_it_may(cache: MetadataCache[Thing]) -> None:
    seen: list[Thing | None] = []

    def change(thing: Thing | None) -> Thing:
        seen.append(thing)
        return Thing(1) if thing is None else replace(thing, number=thing.number + 1)

    for expected in (1, 2):
        assert await cache.read_modify_update_or_create("/k", change) == Thing(expected)
    assert seen == [None, Thing(1)]


async def test_updates_of_several_caches_all_count(host: MetadataHost) -> None:
    caches = [MetadataCache(host.open_session(), JsonCodec(Thing)) for _ in range(3)]
    calls = 0

    def count(thing: Thing | None) -> Thing:
        nonlocal calls
        calls += 1
        return Thing(1) if thing is None else Thing(thing.number + 1)

    async def work(cache: MetadataCache[Thing]) -> None:
        for _ in range(10):
            await cache.read_modify_update_or_create("/k", count)

    await asyncio.gather(*map(work, caches))

    assert await caches[0].get("/k") == Thing(30)
    assert calls >= 30


async def test_after_a_lost_connection_nothing_old_is_read(
    host: MetadataHost, cache: MetadataCache[Thing], other: LocalSession, slow: Slow
) -> None:
    await cache.put("/k", Thing(1))
    assert await cache.get_children("/") == ["k"]
    host.disconnect(slow.session)
    await other.put("/k", b'{"number":2}')
    await other.put("/new", b'{"number":3}')
    assert cache.get_if_cached("/k") == Thing(1)
    with pytest.raises(MetadataUnavailable):
        await cache.get("/new")
    host.reconnect(slow.session)

    assert await cache.get("/k") == Thing(2)
    assert await cache.get("/new") == Thing(3)
    assert await cache.get_children("/") == ["k", "new"]


async def test_invalidate_and_refresh(cache: MetadataCache[Thing], slow: Slow) -> None:
    await cache.refresh("/k")
    assert slow.reads == 0
    await cache.put("/k", Thing(1))
    reads = slow.reads
    await cache.refresh("/k")
    assert slow.reads == reads + 1
    cache.invalidate("/k")
    assert cache.get_if_cached("/k") is None
    assert await cache.get("/k") == Thing(1)


async def test_it_keeps_no_more_than_its_bound(host: MetadataHost) -> None:
    cache = MetadataCache(host.open_session(), JsonCodec(Thing), entries_max=3)
    for number in range(10):
        await cache.put(f"/k{number}", Thing(number))

    kept = [n for n in range(10) if cache.get_if_cached(f"/k{n}") is not None]
    assert kept == [7, 8, 9]


async def test_a_closed_cache_hears_of_nothing(
    cache: MetadataCache[Thing], other: LocalSession
) -> None:
    await cache.put("/k", Thing(1))
    await cache.close()
    await other.put("/k", b"{}")

    assert cache.get_if_cached("/k") is None


@settings(max_examples=scaled(60))
@given(
    steps=st.lists(
        st.tuples(
            st.integers(0, 2),
            st.sampled_from(["put", "delete", "get", "add", "lose", "regain"]),
            st.sampled_from(["/a", "/a/b"]),
        ),
        max_size=25,
    )
)
def test_caches_agree_with_the_store_after_any_steps(steps: list[tuple[int, str, str]]) -> None:
    """Each step uses some cache; afterwards the connected caches read what the store has."""

    async def run() -> None:
        host = MetadataHost()
        sessions = [host.open_session() for _ in range(3)]
        caches = [MetadataCache(session, JsonCodec(int)) for session in sessions]
        for count, (number, what, path) in enumerate(steps):
            session, cache = sessions[number], caches[number]
            if what == "regain" and not session.is_connected:
                host.reconnect(session)
            elif session.is_connected:
                await step(host, session, cache, (what, path), count)
            for reading, kept in zip(sessions, caches, strict=True):
                if reading.is_connected:
                    for at in ("/a", "/a/b"):
                        node = dict(host.tree.nodes()).get(at)
                        assert await kept.get(at) == (None if node is None else int(node.value))
                        assert await kept.exists(at) == (node is not None)
                    assert await kept.get_children("/a") == host.tree.children("/a")

    asyncio.run(run())


async def step(
    host: MetadataHost,
    session: LocalSession,
    cache: MetadataCache[int],
    asked: tuple[str, str],
    count: int,
) -> None:
    what, path = asked
    if what == "lose":
        host.disconnect(session)
    elif what == "put":
        await cache.put(path, count)
        assert cache.get_if_cached(path) == count
    elif what == "add":
        before = await cache.get(path)
        new = await cache.read_modify_update_or_create(path, lambda old: (old or 0) + 1)
        assert new == (before or 0) + 1
    elif what == "delete" and await session.exists(path) and not await session.get_children(path):
        await cache.delete(path)
        assert cache.get_if_cached(path) is None


async def test_a_cached_absence_does_not_hide_a_value_from_an_update(
    host: MetadataHost, cache: MetadataCache[Thing], other: LocalSession
) -> None:
    assert await cache.get("/k") is None
    await other.put("/k", b'{"number":1}', NEW)

    assert await cache.read_modify_update("/k", lambda t: Thing(t.number + 1)) == Thing(2)
