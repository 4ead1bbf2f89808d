"""The limit on connections, and what happens to connections beyond it."""

import asyncio
import contextlib
import json
import resource
import socket
from collections.abc import AsyncIterator, Iterator
from http import HTTPStatus

import pytest
from prometheus_client import CollectorRegistry

from api.app import create_app
from api.http.listener.server import connections_max
from api.http.protocol import connections as connections_module
from api.http.protocol.connections import SURPLUS_HEAD_S_MAX, SURPLUS_MAX
from api.http.protocol.eviction import eviction_order
from tests.api.cluster.standing_by import Known
from tests.api.http.odd_requests import HOST, JSON, PING, request
from tests.api.http.wires import Wires
from tests.api.rest import JSON_TYPE, TOPIC, Live, Wire, live, serving
from tests.skipping_loop import SKIPPING, skip, skip_until
from tests.waiting import turns, until
from tms.core.limits import Limits

pytestmark = pytest.mark.anyio


UNREAD_S = Limits().request_body_s_max
skipping = pytest.mark.parametrize("anyio_backend", [SKIPPING])


@pytest.fixture
async def narrow(anyio_backend: object) -> AsyncIterator[Live]:
    """A server that takes three connections."""
    async with live(Limits(connections_max=3)) as served:
        await served.create()
        await served.http.aclose()
        yield served


async def test_one_more_takes_the_place_of_the_longest_idle_one(narrow: Live) -> None:
    wires = []
    for _ in range(5):
        wire = await narrow.connect()
        wire.writer.write(PING)
        assert (await wire.answer())[0] == 200
        wires.append(wire)

    assert [await wire.rest() for wire in wires[:2]] == [b"", b""]
    for wire in wires[2:]:
        wire.writer.write(PING)
        assert (await wire.answer())[0] == 200
    for wire in wires:
        await wire.close()


async def test_if_none_is_idle_one_more_is_told_so(narrow: Live) -> None:
    waiting = [await narrow.connect() for _ in range(3)]
    for wire in waiting:
        await wire.send("POST", f"{TOPIC}/poll?wait=60", b"{}", {"content-type": JSON_TYPE})
    await narrow.until(lambda: narrow.waiters() == 3)
    wire = await narrow.connect()
    await wire.send("GET", TOPIC)

    status, headers, body = await wire.answer()

    assert (status, headers["connection"]) == (503, "close")
    assert json.loads(body)["error"]["code"] == "too_many_connections"
    assert json.loads(body)["error"]["detail"] == {"connections_max": 3}
    assert await wire.rest() == b""
    for each in (wire, *waiting):
        await each.close()


async def full(served: Live, places: int) -> list[Wire]:
    """Start a waiting request on each connection that the server allows."""
    waiting = [await served.connect() for _ in range(places)]
    for wire in waiting:
        await wire.send("POST", f"{TOPIC}/poll?wait=60", b"{}", {"content-type": JSON_TYPE})
    await served.until(lambda: served.waiters() == places)
    return waiting


async def end(*wires: Wire) -> None:
    for wire in wires:
        wire.writer.transport.abort()


async def test_probes_are_answered_beyond_the_limit_and_nothing_else_is(narrow: Live) -> None:
    waiting = await full(narrow, 3)
    answers = []
    for path in ("/health", "/ready", "/health?x=1", "/ping", "/metrics", TOPIC, "/none"):
        wire = await narrow.connect()
        await wire.send("GET", path)
        status, headers, _ = await wire.answer()
        answers.append(status)
        assert headers["connection"] == "close"
        assert await wire.rest() == b""
        await wire.close()

    assert answers == [200, 200, 200, 503, 503, 503, 503]
    await end(*waiting)


async def test_connections_beyond_the_limit_that_say_nothing_keep_no_probe_away(
    narrow: Live,
) -> None:
    waiting = await full(narrow, 3)
    silent = [await narrow.connect() for _ in range(SURPLUS_MAX + 5)]
    probe = await narrow.connect()
    await probe.send("GET", "/health")

    assert (await probe.answer())[0] == 200
    for wire in silent[:5]:
        assert (await wire.answer())[0] == 503
        assert await wire.rest() == b""
    await end(probe, *silent, *waiting)


@skipping
async def test_one_beyond_the_limit_has_little_time_and_an_ordinary_one_once_there_is_a_place(
    anyio_backend: object,
) -> None:
    async with live(Limits(connections_max=3)) as served:
        await served.create()
        await served.http.aclose()
        waiting = await full(served, 3)
        silent, late = await served.connect(), await served.connect()
        late.writer.write(PING[:10])
        await end(waiting.pop())
        await served.until(lambda: served.waiters() == 2)
        await turns(20)  # the server closes the connection after its poll
        late.writer.write(PING[10:])
        assert (await late.answer())[0] == 200
        late.writer.write(PING)
        assert (await late.answer())[0] == 200

        skip(SURPLUS_HEAD_S_MAX)
        assert (await silent.answer())[0] == 503
        await end(silent, late, *waiting)


async def test_the_address_with_most_connections_makes_way_first(anyio_backend: object) -> None:
    async with live(Limits(connections_max=10)) as served:
        await served.create()
        await served.http.aclose()
        modest = [await connect_from(served, "127.0.0.2") for _ in range(2)]
        busy = await connect_from(served, "127.0.0.3")
        await busy.send("POST", f"{TOPIC}/poll?wait=60", b"{}", {"content-type": JSON_TYPE})
        await served.until(lambda: served.waiters() == 1)
        many = [await connect_from(served, "127.0.0.3") for _ in range(5)]
        for wire in (*modest, *many):
            wire.writer.write(PING)
            assert (await wire.answer())[0] == 200

        more = [await connect_from(served, "127.0.0.4") for _ in range(5)]

        assert [await wire.rest() for wire in many[:4]] == [b""] * 4
        for wire in (*modest, many[4], *more):
            wire.writer.write(PING)
            assert (await wire.answer())[0] == 200
        assert served.waiters() == 1
        await end(busy, *modest, *many, *more)


async def connect_from(served: Live, address: str) -> Wire:
    return Wire(*await asyncio.open_connection(served.host, served.port, local_addr=(address, 0)))


async def unread(served: Live) -> Wire:
    """Return a connection whose client has sent 200 KB of requests and reads no answer."""
    opened = socket.socket()
    opened.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    opened.setblocking(False)
    await asyncio.get_running_loop().sock_connect(opened, (served.host, served.port))
    wire = Wire(*await asyncio.open_connection(sock=opened, limit=1))
    one = request(b"GET", TOPIC.encode())
    wire.writer.write(one * (200_000 // len(one)))
    return wire


@pytest.fixture
async def wide(anyio_backend: object) -> AsyncIterator[Live]:
    """A server whose topic has properties, so that a GET of it has a long answer."""
    async with live(Limits(connections_max=10)) as served:
        await served.create(note="x" * 30_000)
        await served.http.aclose()
        yield served


@skipping
async def test_a_client_that_never_reads_does_not_hold_its_connection(wide: Live) -> None:
    connections = [await unread(wide) for _ in range(9)]

    async def is_cut_off(wire: Wire) -> None:
        with contextlib.suppress(ConnectionError, asyncio.IncompleteReadError):
            while not wire.writer.transport.is_closing():
                wire.writer.write(b" ")
                await turns(10)

    await skip_until(asyncio.gather(*map(is_cut_off, connections)), UNREAD_S)
    probe = await wide.connect()
    await probe.send("GET", TOPIC)
    assert (await probe.answer())[0] == 200
    await end(probe, *connections)


async def test_those_that_do_not_read_make_way(
    anyio_backend: object, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connections_module, "_UNREAD_S_MIN", 0.05)
    async with live(Limits(connections_max=5)) as served:
        await served.create(note="x" * 30_000)
        await served.http.aclose()
        connections = [await unread(served) for _ in range(5)]
        more: list[Wire] = []

        async def is_answered() -> bool:
            wire = await served.connect()
            await wire.send("GET", TOPIC)
            if (await wire.answer())[0] != HTTPStatus.OK:
                await wire.close()
                return False
            more.append(wire)
            return True

        for _ in range(3):
            await until(is_answered)
        await end(*more, *connections)


@skipping
async def test_a_slow_reader_gets_a_long_answer_whole(anyio_backend: object) -> None:
    async with live() as served:
        await served.create(note="x" * 900_000)
        wire = await served.connect()
        await wire.send("GET", TOPIC, headers={"connection": "close"})
        got = 0
        while part := await wire.reader.read(64 * 1024):
            got += len(part)
            await turns(5)
            skip(UNREAD_S / 3)

        assert got > 900_000
        await wire.close()


@pytest.mark.parametrize("in_cluster", [True, False])
async def test_a_server_of_the_cluster_does_not_make_way(served: Live, *, in_cluster: bool) -> None:
    limits = Limits(connections_max=3)
    app = create_app(
        served.services,
        limits,
        registry=CollectorRegistry(),
        cluster=Known() if in_cluster else None,
    )
    async with serving(app, limits) as (url, _):
        served.port = int(url.rpartition(":")[2])
        of_server = await served.connect()
        await of_server.send("GET", TOPIC, headers={"tms-forwarded-by": "7"})
        assert (await of_server.answer())[0] == 404
        others = [await served.connect() for _ in range(5)]
        for wire in others[2:]:
            wire.writer.write(PING)
            with contextlib.suppress(asyncio.IncompleteReadError):
                await wire.answer()

        of_server.writer.write(PING)
        if in_cluster:
            assert (await of_server.answer())[0] == 200
        else:
            assert await of_server.rest() == b""
        await end(of_server, *others)


def test_an_order_of_eviction_levels_the_addresses() -> None:
    waiting = [("b1", "b"), ("a1", "a"), ("a2", "a"), ("c1", "c"), ("a3", "a"), ("b2", "b")]

    order = eviction_order(waiting, {"a": 4, "b": 2, "c": 3})

    assert order == ["a1", "a2", "c1", "b1", "a3", "b2"]


@pytest.fixture
def descriptors() -> Iterator[None]:
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    yield
    resource.setrlimit(resource.RLIMIT_NOFILE, before)


def test_descriptors_are_left_for_the_store(descriptors: None) -> None:
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (300, hard))

    assert connections_max(100) == 100
    assert resource.getrlimit(resource.RLIMIT_NOFILE)[0] == 300
    assert connections_max(1000) == 1000
    soft = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    assert soft - 1000 >= soft // 5 + 64
    assert connections_max(10**9) == hard - hard // 5 - 64


async def test_requests_of_one_connection_let_others_have_their_turn(served: Live) -> None:
    await served.create()
    assert await served.payloads() == []
    body = b"{}"
    fields = HOST + JSON + b"content-length: %d\r\n" % len(body)
    poll = request(b"POST", TOPIC.encode() + b"/poll", fields, body)
    busy, written = Wires(served.app).connect()

    busy.data_received(poll * 100)

    assert 0 < len(written.answers()) < 100
    await until(lambda: not (len(written.answers()) < 100))
    assert {answer.status for answer in written.answers()} == {200}
    busy.connection_lost(None)
