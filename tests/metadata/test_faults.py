"""Connections that break, hang or are slow, and sessions that are lost, with real servers."""

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import grpc
import pytest
from aetcd import rpc

from dev.processes import Servers
from tests.metadata.servers import ONE_IN_THE_GATE, Open, fresh_url
from tests.servers.proxy import Proxy
from tests.waiting import in_time, turns, until
from tms.core.errors import MetadataClosed, MetadataUnavailable
from tms.metadata.cache import JsonCodec, MetadataCache
from tms.metadata.etcd.writes import connect_of
from tms.metadata.interface import NEW, Change, MetadataStore, Notification, SessionEvent
from tms.metadata.remote import RemoteStore

pytestmark = pytest.mark.anyio

SHORT_S = 3.0
"""A session timeout that a test can wait for."""
LONGER_S = 6.0
"""A timeout whose last sixth, in which the client treats the session as lost, is longer than a busy
machine's pauses."""
LOST, BACK = SessionEvent.CONNECTION_LOST, SessionEvent.RECONNECTED
GONE, NEW_ONE = SessionEvent.SESSION_LOST, SessionEvent.SESSION_REESTABLISHED


class Behind:
    """A session behind a proxy, with its notifications, and one with a direct connection."""

    def __init__(self, proxy: Proxy, store: MetadataStore, other: MetadataStore) -> None:
        self.proxy = proxy
        self.store = store
        self.other = other
        self.events: list[SessionEvent] = []
        store.observe_session(self.events.append)

    async def until_events(self, *wanted: SessionEvent) -> None:
        await until(lambda: len(self.events) >= len(wanted))
        assert self.events == list(wanted)


async def behind(remote: str, sessions_at: Open, timeout_s: float) -> Behind:
    kind, _, rest = remote.partition("://")
    host, _, base = rest.partition("/")
    proxy = Proxy(int(host.rpartition(":")[2]))
    store = await sessions_at(f"{kind}://{proxy.address}/{base}", timeout_s)
    return Behind(proxy, store, await sessions_at(remote))


@pytest.fixture
async def lasting(remote: str, sessions_at: Open) -> AsyncIterator[Behind]:
    """A session that outlives the test's faults."""
    found = await behind(remote, sessions_at, 30)
    yield found
    found.proxy.close()


@pytest.fixture
async def short(
    request: pytest.FixtureRequest, remote: str, sessions_at: Open
) -> AsyncIterator[Behind]:
    """A session that expires during the test's faults."""
    found = await behind(remote, sessions_at, getattr(request, "param", SHORT_S))
    yield found
    found.proxy.close()


@pytest.fixture
async def on_etcd(etcd: Servers, sessions_at: Open) -> AsyncIterator[Behind]:
    """Like `lasting`, but only with etcd."""
    found = await behind(fresh_url("etcd", etcd), sessions_at, 30)
    yield found
    found.proxy.close()


def server_of(store: MetadataStore) -> Any:
    """Return the internal client by which a store reaches its server."""
    assert isinstance(store, RemoteStore)
    return store._server


async def test_a_broken_connection_is_reported_and_made_again(lasting: Behind) -> None:
    mine = await lasting.store.put("/e", b"", ephemeral=True)
    for count in range(1, 3):
        lasting.proxy.close()
        await lasting.until_events(*[LOST, BACK] * (count - 1), LOST)
        assert not lasting.store.is_connected
        with pytest.raises(MetadataUnavailable):
            await lasting.store.get("/e")
        lasting.proxy.open()
        await lasting.until_events(*[LOST, BACK] * count)

    found = await lasting.store.get("/e")
    assert found is not None
    assert found.stat == mine, "the session is the same"
    await lasting.store.put("/k", b"", NEW)


async def test_changes_are_reported_again_after_a_break(lasting: Behind) -> None:
    lasting.proxy.close()
    await lasting.until_events(LOST)
    lasting.proxy.open()
    await lasting.until_events(LOST, BACK)
    told: list[Notification] = []
    lasting.store.observe(told.append)
    await lasting.other.put("/after", b"")

    await until(lambda: (Change.CREATED, "/after") in told)


async def test_no_cache_stays_stale_over_a_break(lasting: Behind) -> None:
    cache = MetadataCache(lasting.store, JsonCodec(int))
    await lasting.other.put("/changed", b"1")
    await lasting.other.put("/deleted", b"1")
    assert await cache.get("/changed") == await cache.get("/deleted") == 1
    assert await cache.get("/created") is None
    assert await cache.get_children("/") == ["changed", "deleted"]
    lasting.proxy.close()
    await lasting.until_events(LOST)
    await lasting.other.put("/changed", b"2")
    await lasting.other.delete("/deleted")
    await lasting.other.put("/created", b"3")
    lasting.proxy.open()
    await lasting.until_events(LOST, BACK)

    assert await cache.get("/changed") == 2
    assert await cache.get("/deleted") is None
    assert await cache.get("/created") == 3
    assert await cache.get_children("/") == ["changed", "created"]
    await cache.close()


async def test_what_a_server_is_late_with_does_not_overwrite_what_was_put_since(
    remote: str, sessions_at: Open
) -> None:
    kind, _, rest = remote.partition("://")
    host, _, base = rest.partition("/")
    refused = 0

    async def is_put() -> bool:
        nonlocal refused
        try:
            await store.put("/k", b"late" if not refused else b"newest")
        except MetadataUnavailable:
            refused += 1
            return False
        return True

    class Hearing(Proxy):
        def heard(self, request: bytes) -> None:
            is_let_through.append(b"late" in request)

    is_let_through: list[bool] = []
    with Hearing(int(host.rpartition(":")[2])) as proxy:
        other = await sessions_at(remote)
        # The connection through the proxy is held with a put in transit, as if its server paused.
        store = await sessions_at(f"{kind}://{proxy.address},{host}/{base}", SHORT_S)
        await store.put("/k", b"first")
        proxy.hold()
        await until(is_put)
        assert refused or kind == "zk"  # ZooKeeper may use either first
        proxy.delay_s = 1  # so that the end of the connection does not overtake the held put
        proxy.release()
        await until(lambda: not refused or any(is_let_through))
        for number in range(20):
            await other.put(f"/later{number}", b"")  # by now the server has processed it

        found = await other.get("/k")
        assert found is not None
        assert found.value == (b"newest" if refused else b"late")
        await store.put("/k", b"and on")


async def test_a_session_is_not_asked_for_on_a_way_that_is_not_made_yet(on_etcd: Behind) -> None:
    """The answer would be about the previous session, and might arrive during a new one."""
    server = server_of(on_etcd.store)
    on_etcd.proxy.close()
    await on_etcd.until_events(LOST)
    on_etcd.proxy.hold()
    on_etcd.proxy.open()
    await until(lambda: server._connection._leases is not None)
    for call in (server.touch, lambda: server.get("/k")):
        async with in_time():
            with pytest.raises(MetadataUnavailable):
                await call()
    on_etcd.proxy.release()
    await on_etcd.until_events(LOST, BACK)
    await on_etcd.store.put("/k", b"")


async def test_a_session_whose_writes_are_refused_for_what_was_late_gets_a_new_connection(
    on_etcd: Behind, etcd: Servers
) -> None:
    server = server_of(on_etcd.store)
    late = connect_of(server._keys, server._connection.lease)
    with grpc.insecure_channel(etcd.addresses) as channel:
        await asyncio.to_thread(rpc.KVStub(channel).Txn, late)
    with pytest.raises(MetadataUnavailable, match="a new connection"):
        await on_etcd.store.put("/k", b"")
    await on_etcd.until_events(LOST, BACK)
    await on_etcd.store.put("/k", b"", NEW)


async def test_nothing_is_put_for_a_session_that_has_just_ended(on_etcd: Behind) -> None:
    store, connection = on_etcd.store, server_of(on_etcd.store)._connection
    lease, connection.lease = connection.lease, 0
    putting = asyncio.ensure_future(store.put("/e", b"", ephemeral=True))
    await turns()  # it takes the current lease, which has been replaced when it is sent
    connection.lease = lease

    with pytest.raises(MetadataUnavailable):
        await putting
    assert await store.get("/e") is None


async def test_etcd_is_watched_on_where_it_has_forgotten_what_was_missed(
    on_etcd: Behind, etcd: Servers
) -> None:
    found = on_etcd
    cache = MetadataCache(found.store, JsonCodec(int))
    await found.other.put("/k", b"0")
    assert await cache.get("/k") == 0
    found.proxy.close()
    await found.until_events(LOST)
    for number in range(1, 5):
        revision = (await found.other.put("/k", b"%d" % number)).modified_revision
    asked = rpc.CompactionRequest(revision=revision, physical=True)
    with grpc.insecure_channel(etcd.addresses) as channel:
        await asyncio.to_thread(rpc.KVStub(channel).Compact, asked)
    found.proxy.open()
    await found.until_events(LOST, BACK)

    assert await cache.get("/k") == 4
    # The other session must be renewed if it had missed something.
    await until(lambda: found.other.is_connected)
    await found.other.put("/k", b"5")

    async def is_known() -> bool:
        return await cache.get("/k") == 5

    await until(is_known)
    await cache.close()


@ONE_IN_THE_GATE
@pytest.mark.parametrize("short", [LONGER_S], indirect=True)
async def test_a_lost_session_is_reported_before_others_can_have_what_it_held(
    short: Behind,
) -> None:
    await short.store.put("/e", b"", ephemeral=True)
    seen_when_gone: list[list[SessionEvent]] = []

    def hear(notification: Notification) -> None:
        if notification == (Change.DELETED, "/e"):
            seen_when_gone.append(list(short.events))

    short.other.observe(hear)
    short.proxy.close()
    await until(lambda: seen_when_gone)
    short.proxy.open()
    await short.until_events(LOST, GONE, BACK, NEW_ONE)

    assert seen_when_gone[0] == [LOST, GONE]
    assert await short.store.get("/e") is None
    assert (await short.store.put("/e", b"", NEW, ephemeral=True)).created_by_self


async def test_a_silent_connection_is_a_lost_one_and_every_call_ends(short: Behind) -> None:
    short.proxy.hold()
    calls = [asyncio.ensure_future(short.store.put(f"/{n}", b"")) for n in range(5)]
    calls += [asyncio.ensure_future(short.store.exists(f"/{n}")) for n in range(5)]  # type: ignore[arg-type]
    async with in_time():
        done = await asyncio.gather(*calls, return_exceptions=True)
    assert all(isinstance(outcome, MetadataUnavailable) for outcome in done)
    await until(lambda: GONE in short.events)
    short.proxy.release()
    await short.until_events(LOST, GONE, BACK, NEW_ONE)
    await short.store.put("/after", b"")


@ONE_IN_THE_GATE
async def test_a_slow_connection_is_none_that_is_lost(
    short: Behind, monkeypatch: pytest.MonkeyPatch
) -> None:
    short.proxy.delay_s = 0.1
    await asyncio.gather(*(short.store.put(f"/{n}", b"") for n in range(20)))
    server, loop = server_of(short.store), asyncio.get_running_loop()
    touch = server.touch
    begun_s = answered_s = loop.time()

    async def timed() -> None:
        nonlocal answered_s
        await touch()
        answered_s = loop.time()

    monkeypatch.setattr(server, "touch", timed)
    await until(lambda: answered_s > begun_s + SHORT_S)

    assert len(await short.store.get_children("/")) == 20
    assert short.events == []


async def test_closing_ends_every_call_also_without_a_connection(lasting: Behind) -> None:
    lasting.proxy.hold()
    calls = [asyncio.ensure_future(lasting.store.put(f"/{n}", b"")) for n in range(300)]
    ended, _ = await asyncio.wait(calls, timeout=0.1)
    assert not ended
    lasting.proxy.close()
    async with in_time():
        await lasting.store.close()
        done = await asyncio.gather(*calls, return_exceptions=True)

    assert all(isinstance(each, MetadataUnavailable | MetadataClosed) for each in done)


async def test_a_server_that_is_not_there_is_reported(remote: str, sessions_at: Open) -> None:
    kind = remote.partition(":")[0]
    with pytest.raises(MetadataUnavailable):
        await sessions_at(f"{kind}://127.0.0.1:1/x", 1)


async def test_a_process_that_slept_past_its_session_finds_out_before_it_asks(
    lasting: Behind, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert isinstance(lasting.store, RemoteStore)
    clock = lasting.store._link.clock
    later_ms = clock.steady_ms() + 29_000
    monkeypatch.setattr(type(clock), "steady_ms", lambda _: later_ms)

    with pytest.raises(MetadataUnavailable):
        await lasting.store.put("/k", b"")
    assert lasting.events[:2] == [LOST, GONE]
