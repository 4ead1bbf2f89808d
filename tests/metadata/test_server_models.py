"""The models of the store, the cache and the lock on real ZooKeeper and etcd servers."""

import asyncio
from contextlib import suppress
from functools import partial

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from hypothesis.stateful import invariant, run_state_machine_as_test

from dev.processes import Servers
from tests.metadata.servers import expire, fresh_url
from tests.metadata.store_machine import StoreMachine
from tests.scale import scaled
from tests.waiting import in_time, until
from tms.coordination import CoordinationService, ResourceLock
from tms.core.errors import LockBusy, PathNotFound, Unavailable
from tms.metadata.cache import JsonCodec, MetadataCache
from tms.metadata.interface import Change, MetadataStore, Notification, SessionEvent
from tms.server.stores import open_metadata

EXAMPLES = settings(
    max_examples=scaled(6),
    stateful_step_count=12,
    suppress_health_check=list(HealthCheck),
    phases=(Phase.explicit, Phase.generate),
)
"""Without shrinking: each example has a store of its own, and takes a second."""


@pytest.fixture(params=["zk", "etcd"])
def servers(request: pytest.FixtureRequest) -> tuple[str, Servers]:
    return request.param, request.getfixturevalue(
        "etcd" if request.param == "etcd" else "zookeeper"
    )


async def expired(store: MetadataStore) -> None:
    """End a session on the server's side, and wait for the next session."""
    is_back = asyncio.Event()

    def happen(event: SessionEvent) -> None:
        if event is SessionEvent.SESSION_REESTABLISHED:
            is_back.set()

    stop = store.observe_session(happen)
    await expire(store)
    async with in_time():
        await is_back.wait()
    stop()


class ServerMachine(StoreMachine):
    """Three sessions with a server. Notifications, and removals at a session's end, come late."""

    servers: tuple[str, Servers]

    async def begin(self) -> None:
        self.url = fresh_url(*self.servers)

    def open(self) -> MetadataStore:
        return self.runner.run(open_metadata(self.url))

    def expire(self, number: int) -> None:
        self.runner.run(expired(self.sessions[number]))

    def teardown(self) -> None:
        for session in (*self.sessions, self.watcher):
            self.runner.run(session.close())
        super().teardown()

    @invariant()
    def a_listing_changes_only_where_it_was_told(self) -> None:
        for path in ("/", "/a", "/a/b", "/d"):
            self.runner.run(until(partial(self._is_told, path), f"a change of {path}"))
            self.children[path] = self.names_below(path)
        self.told.clear()

    async def _is_told(self, path: str) -> bool:
        names = await self.watcher.get_children(path)
        changed = Notification(Change.CHILDREN_CHANGED, path) in self.told
        return names == self.names_below(path) and (changed or names == self.children.get(path, []))


def test_sessions_against_the_model(servers: tuple[str, Servers]) -> None:
    class Machine(ServerMachine):
        pass

    Machine.servers = servers
    run_state_machine_as_test(Machine, settings=EXAMPLES)


CACHE_STEPS = st.lists(
    st.tuples(
        st.integers(0, 2),
        st.sampled_from(["put", "add", "delete", "outside", "expire"]),
        st.sampled_from(["/a", "/a/b", "/c"]),
    ),
    min_size=5,
    max_size=20,
)


def test_caches_agree_with_the_store(servers: tuple[str, Servers]) -> None:
    @EXAMPLES
    @given(CACHE_STEPS)
    def check(steps: list[tuple[int, str, str]]) -> None:
        asyncio.run(play_with_caches(fresh_url(*servers), steps))

    check()


async def play_with_caches(url: str, steps: list[tuple[int, str, str]]) -> None:
    stores = [await open_metadata(url) for _ in range(3)]
    caches = [MetadataCache(store, JsonCodec(int)) for store in stores]
    for count, (number, what, path) in enumerate(steps):
        store, cache = stores[number], caches[number]
        if what == "put":
            await cache.put(path, count)
            # None while the cache reads again, because it was notified of its own put.
            assert cache.get_if_cached(path) in (count, None)
            assert await cache.get(path) == count
        elif what == "add":
            await cache.read_modify_update_or_create(path, lambda old: (old or 0) + 1)
        elif what == "delete" and path != "/a":
            try:
                await cache.delete(path)
            except PathNotFound:
                continue
            assert await cache.get(path) is None
        elif what == "outside":
            await store.put(path, b"%d" % count)
        elif what == "expire":
            await expired(store)
        await until_caches_agree(stores[0], caches)
    for cache in caches:
        await cache.close()
    for store in stores:
        await store.close()


async def until_caches_agree(store: MetadataStore, caches: list[MetadataCache[int]]) -> None:
    """Wait until all caches have what the store has, without making them read it."""
    for path in ("/a", "/a/b", "/c"):
        found = await store.get(path)
        wanted = None if found is None else int(found.value)

        async def has_it(cache: MetadataCache[int], path: str, wanted: int | None) -> bool:
            return (
                await cache.get(path) == wanted
                and await cache.exists(path) == (wanted is not None)
                and await cache.get_children("/") == await store.get_children("/")
            )

        for cache in caches:
            await until(partial(has_it, cache, path, wanted), f"a cache has {path}: {wanted}")


LOCK_STEPS = st.lists(
    st.tuples(
        st.integers(0, 2),
        st.sampled_from(["acquire", "release", "update", "expire", "delete", "write", "wait"]),
    ),
    min_size=5,
    max_size=20,
)


def test_one_holds_the_lock_once_all_is_known(servers: tuple[str, Servers]) -> None:
    @EXAMPLES
    @given(LOCK_STEPS)
    def check(steps: list[tuple[int, str]]) -> None:
        asyncio.run(play_with_locks(fresh_url(*servers), steps))

    check()


async def play_with_locks(url: str, steps: list[tuple[int, str]]) -> None:
    stores = [await open_metadata(url) for _ in range(4)]
    services = [CoordinationService(store) for store in stores[:3]]
    locks: dict[int, ResourceLock] = {}
    written: list[tuple[int, int]] = []
    for number, what in steps:
        lock = locks.get(number)
        if what == "acquire" and (lock is None or not lock.is_valid):
            with suppress(LockBusy, Unavailable):
                locks[number] = await services[number].acquire_lock("/lock", b"%d" % number)
        elif what == "write" and lock is not None:
            if lock.token >= max([token for token, _ in written], default=0):
                written.append((lock.token, number))
        elif what in ("expire", "delete", "wait"):
            await happen(what, stores[number])
        elif lock is not None:
            with suppress(LockBusy, Unavailable):
                await (lock.release() if what == "release" else lock.update(b"%d" % number))
    await until_one_holds(stores[3], list(locks.values()))
    by_token: dict[int, int] = {}
    for token, number in written:
        assert by_token.setdefault(token, number) == number, "two wrote under one token"
    for service in services:
        await service.close()
    for store in stores:
        await store.close()


async def happen(what: str, store: MetadataStore) -> None:
    if what == "expire":
        await expired(store)
    elif what == "delete":
        with suppress(PathNotFound, Unavailable):
            await store.delete("/lock")
    else:
        with suppress(Unavailable):
            await store.get("/lock")  # the session first receives earlier notifications


async def until_one_holds(store: MetadataStore, locks: list[ResourceLock]) -> None:
    async def holds_it() -> bool:
        found = await store.get("/lock")
        held = [lock.token for lock in locks if lock.is_valid]
        return held == ([] if found is None else [found.stat.created_revision])

    await until(holds_it)
