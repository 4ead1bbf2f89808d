"""A request leaves nothing behind that only Python's cyclic collector frees.

It runs once a minute: garbage that a stranger can make a thousand times a second must not need it.
"""

import gc
import re
from collections.abc import AsyncIterator

import pytest

from api.app import OPERATIONS
from api.http.listener.connection import HttpConnection
from tests.api.http.cycles import collected
from tests.api.http.odd_requests import HOST, JSON, ODD, PING, TOPIC, chunked, publish, request
from tests.api.http.wires import Wires
from tests.api.rest import Live, live
from tests.waiting import turns, until

pytestmark = pytest.mark.anyio


@pytest.fixture(scope="module")
def anyio_backend() -> tuple[str, dict[str, bool]]:
    return "asyncio", {"use_uvloop": True}


@pytest.fixture(scope="module")
async def server(anyio_backend: object) -> AsyncIterator[Live]:
    async with live(own=True) as served:
        await served.create()
        for _ in range(10):
            await served.publish(*[b"x" * 30_000] * 10)
        gc.collect()
        gc.freeze()  # so that each collection looks at new objects only
        yield served


async def settled(connection: HttpConnection) -> None:
    await turns(5)
    await until(lambda: connection.is_idle)


async def ask(wires: Wires, sent: bytes, *, in_parts: bool, leaves: bool = False) -> None:
    connection, _ = wires.connect()
    for part in (sent[:50], sent[50:]) if in_parts else (sent,):
        connection.data_received(part)
        await turns(5)
    if not leaves:
        await settled(connection)
    connection.connection_lost(None)
    await settled(connection)
    await turns(5)


def poll(query: bytes = b"", body: bytes = b"{}") -> bytes:
    length = b"content-length: %d\r\n" % len(body)
    return request(b"POST", TOPIC + b"/poll" + query, HOST + JSON + length, body)


def transition(what: bytes, body: bytes = b"{}") -> bytes:
    length = b"content-length: %d\r\n" % len(body)
    return request(b"POST", b"/v1/transactions/1/" + what, HOST + JSON + length, body)


def joint(more: bytes) -> bytes:
    body = b'{"topics":{"t":["m"]},%s}' % more
    length = b"content-length: %d\r\n" % len(body)
    return request(b"POST", b"/v1/namespaces/ns/publish", HOST + JSON + length, body)


KINDS = {
    "a poll": poll(),
    "a poll that waits": poll(b"?wait=0.01", b'{"startFrom":9000000000000}'),
    "a stream": poll(body=b'{"limit":1000}'),
    "an unknown path": request(target=b"/none/" + b"x" * 60_000),
    "an unknown query": poll(b"?" + b"x" * 10_000),
    "a head of many fields": request(fields=HOST + b"x: y\r\n" * 10_000),
    "a topic that is not there": publish().replace(b"/t/publish", b"/none/publish"),
    "a name that is too long": publish().replace(b"/t/publish", b"/%s/publish" % (b"x" * 60_000)),
    "changes of what is not in progress": transition(b"can-commit", b'{"changes":["c"]}'),
    "a commit of what is not in progress": transition(b"commit"),
    "an owner's sequence, again and again": joint(b'"owner":"o","sequence":1'),
    "an owner's sequence that is not one": joint(b'"owner":"o","sequence":-1'),
    **{name: ODD[name].sent for name in ODD},
}
LEAVING = {
    "within a head": PING[:-2],
    "within a body": publish()[:-3],
    "within a chunk": chunked(b"12\r\nabc"),
    "while it waits": poll(b"?wait=60", b'{"startFrom":9000000000000}'),
}


@pytest.mark.parametrize("in_parts", [False, True])
async def test_requests_of_each_kind_leave_no_cycle(server: Live, *, in_parts: bool) -> None:
    wires = Wires(server.app)
    left = {}
    for name, sent in KINDS.items():
        await ask(wires, sent, in_parts=in_parts)  # objects that are made only once may stay
        with collected() as found:
            await ask(wires, sent, in_parts=in_parts)
        if found:
            left[name] = found

    assert left == {}


async def test_clients_that_leave_leave_no_cycle(server: Live) -> None:
    wires = Wires(server.app)
    for name, sent in LEAVING.items():
        await ask(wires, sent, in_parts=False, leaves=True)
        with collected() as found:
            await ask(wires, sent, in_parts=False, leaves=True)

        assert not found, (name, found)


async def test_a_connection_keeps_nothing_of_polls_that_waited(server: Live) -> None:
    connection, _ = Wires(server.app).connect()
    for _ in range(3):
        connection.data_received(KINDS["a poll that waits"])
        await settled(connection)
    await turns(5)

    assert connection._waiters == []


async def test_no_operation_leaves_a_cycle_whether_it_succeeds_or_fails(server: Live) -> None:
    wires = Wires(server.app)
    left = {}
    for operation in OPERATIONS:
        for name in ("none", "x" * 1000, "1"):
            path = re.sub(r"\{\w+\}", name, operation.path.replace("{namespace}", "ns")).encode()
            for body in (b"{}", b'{"messages":["m"]}'):
                fields = HOST + JSON + b"content-length: %d\r\n" % len(body)
                sent = request(operation.method.encode(), path, fields, body)
                await ask(wires, sent, in_parts=False)
                with collected() as found:
                    await ask(wires, sent, in_parts=False)
                if found:
                    left[operation.name, name[:4], body] = found

    assert left == {}
