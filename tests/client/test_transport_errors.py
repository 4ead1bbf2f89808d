"""Whatever a client's connections raise becomes one of our errors, and the client continues.

Methods of asyncio's connections are replaced by ones that raise the faults.
"""

import asyncio
import contextlib
import ssl
import traceback
from asyncio.selector_events import _SelectorSocketTransport  # type: ignore[attr-defined]
from collections.abc import AsyncIterator, Callable
from typing import Any

import anyio
import pytest

import tms.aio
from tests.client.faulty_server import FaultyServer, answer
from tms.client.remote.http import Http
from tms.core.errors import AnswerLost, OutcomeUnknown, ServerUnreachable, TmsError
from tms.outgoing.connection import UpstreamConnection

pytestmark = pytest.mark.anyio

FAULTS = [
    AttributeError("'NoneType' object has no attribute 'getpeername'"),
    RuntimeError(
        "unable to perform operation on <TCPTransport closed=True>; the handler is closed"
    ),
    anyio.ClosedResourceError(),
    anyio.BusyResourceError("reading from"),
    OSError(9, "Bad file descriptor"),
    ssl.SSLError(1, "APPLICATION_DATA_AFTER_CLOSE_NOTIFY"),
    ValueError("I/O operation on closed file"),
    AssertionError(),
]
BODY = b"x" * 300_000
"""Larger than a single read."""


@pytest.fixture
async def server() -> AsyncIterator[str]:
    """The URL of a server that keeps its connections."""
    writers: list[asyncio.StreamWriter] = []

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % len(BODY)
        writers.append(writer)
        with contextlib.suppress(OSError, asyncio.IncompleteReadError):
            while True:
                await reader.readuntil(b"\r\n\r\n")
                writer.write(head + BODY)
                await writer.drain()

    async with await asyncio.start_server(serve, "127.0.0.1", 0) as listening:
        yield f"http://127.0.0.1:{listening.sockets[0].getsockname()[1]}"
        listening.close()
        for writer in writers:
            writer.transport.abort()


class Faults:
    """Replaces a method, and raises a fault at one of its calls."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self._monkeypatch = monkeypatch
        self.raised = 0

    def put(self, owner: type, method: str, fault: Exception, call: int = 0) -> None:
        inner: Callable[..., Any] = getattr(owner, method)
        calls = iter(range(1_000_000))

        def tell(*arguments: Any, **named: Any) -> Any:
            if next(calls) != call:
                return inner(*arguments, **named)
            self.raised += 1
            if method == "abort":
                inner(*arguments, **named)
            if method != "data_received":
                raise fault
            connection = arguments[0]  # as a transport does if reading fails
            connection._transport._force_close(fault)
            return None

        self._monkeypatch.setattr(owner, method, tell)


@pytest.fixture
def faults(monkeypatch: pytest.MonkeyPatch) -> Faults:
    return Faults(monkeypatch)


@pytest.mark.parametrize("fault", FAULTS, ids=repr)
@pytest.mark.parametrize("polls", [False, True])
@pytest.mark.parametrize(
    "place",
    [
        (asyncio.BaseEventLoop, "create_connection", 0, ServerUnreachable),
        (_SelectorSocketTransport, "write", 0, OutcomeUnknown),
        (UpstreamConnection, "data_received", 0, OutcomeUnknown),
        (UpstreamConnection, "data_received", 1, OutcomeUnknown),
    ],
)
async def test_each_fault_is_an_error_of_ours_and_the_next_request_is_answered(
    server: str,
    faults: Faults,
    fault: Exception,
    place: tuple[type, str, int, type[TmsError]],
    *,
    polls: bool,
) -> None:
    owner, method, call, kind = place
    http = Http(server, timeout_s=10, compress=False)
    http._first_contact.is_over = True
    faults.put(owner, method, fault, call)
    with pytest.raises(kind):
        await asked(http, polls=polls)
    assert faults.raised == 1
    assert await asked(http, polls=polls) == BODY
    await http.close()


@pytest.mark.parametrize("fault", FAULTS, ids=repr)
@pytest.mark.parametrize("method", ["is_closing", "abort"])
async def test_a_connection_that_was_kept_and_is_broken_is_not_used_again(
    server: str, faults: Faults, fault: Exception, method: str
) -> None:
    """The fault must affect neither a later request nor the closing of the client."""
    http = Http(server, timeout_s=10, compress=False)
    assert await asked(http) == BODY
    faults.put(_SelectorSocketTransport, method, fault)
    assert await asked(http) == BODY
    await http.close()
    assert faults.raised == 1


async def test_errors_of_the_callers_own_code_pass(server: str) -> None:
    http = Http(server, timeout_s=10, compress=False)
    for fault in (AttributeError("mine"), OSError("mine"), OutcomeUnknown(reason="mine")):
        with pytest.raises(type(fault)) as raised:
            await read(http, fault)
        assert raised.value is fault
        assert await asked(http) == BODY
    await http.close()


async def test_an_answer_that_is_cut_is_not_known() -> None:
    with FaultyServer(answer(200, b"half", announced=8)) as server:
        http = Http(server.url, timeout_s=10, compress=False)
        with pytest.raises(OutcomeUnknown):
            await asked(http, polls=True)
        await http.close()


async def read(http: Http, fault: Exception) -> None:
    async with http.stream("x", b"", "", {}, 0) as (_, parts):
        async for _ in parts:
            raise fault


async def asked(http: Http, *, polls: bool = False) -> bytes:
    if not polls:
        return await http.send("GET", "x")
    async with http.stream("x", b"", "", {}, 0) as (_, parts):
        return b"".join([part async for part in parts])


async def test_an_error_is_reported_without_those_of_the_libraries_below() -> None:
    async with await tms.aio.connect("http://127.0.0.1:1", retry_for_s=0) as client:
        with pytest.raises(ServerUnreachable) as unreachable:
            await client.topics()
    with FaultyServer(b"") as server:
        async with await tms.aio.connect(server.url, retry_for_s=0) as client:
            with pytest.raises(AnswerLost) as lost:
                await client.topics()

    for error in (unreachable.value, lost.value):
        shown = "".join(traceback.format_exception(error))
        assert "Traceback" in shown
        assert "\nDuring handling" not in shown
        assert "\nThe above exception" not in shown
