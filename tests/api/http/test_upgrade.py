"""A GET is upgraded if its operation offers that; each of several listeners has its own table."""

import asyncio
import json
from collections.abc import Iterable
from typing import cast

import pytest
from prometheus_client import CollectorRegistry

from api.app import create_app
from api.http.application import Application
from api.http.context import Context, ErrorAnswer
from api.http.exchange import Exchange
from api.http.metrics import RestMetrics
from api.http.operation import Operation
from api.http.server import ListeningAddress, serve
from tests.api.rest import Live, Wire
from tms.core.errors import TmsError
from tms.core.limits import Limits

pytestmark = pytest.mark.anyio


class Echo(asyncio.Protocol):
    """Sends back what comes."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast("asyncio.Transport", transport)

    def data_received(self, data: bytes) -> None:
        self.transport.write(b"<%s>" % data)


async def upgrade(exchange: Exchange) -> None:
    if exchange.asks_for(b"echo"):
        exchange.upgrade(Echo(), ((b"connection", b"upgrade"), (b"upgrade", b"echo")))
    else:
        await exchange.answer(200, b"no")


def operation(method: str, path: str) -> Operation:
    return Operation(
        name=f"{method} {path}",
        action=None,
        method=method,
        path=path,
        handler=upgrade,
        tag="Server",
        summary="",
        description="",
        success="",
        upgrades_to=b"echo" if method == "GET" else None,
    )


def terse(error: Exception) -> ErrorAnswer:
    status = error.status if isinstance(error, TmsError) else 500
    return ErrorAnswer(status, json.dumps({"error_code": status}).encode(), b"application/x", ())


async def start(served: Live, operations: Iterable[Operation]) -> tuple[list[int], asyncio.Event]:
    """Serve these beside TMS's own; return the ports of both, and what stops them."""
    own = create_app(served.services, Limits(), registry=CollectorRegistry())
    context = Context(
        **{
            **{name: getattr(own.context, name) for name in Context.__slots__},
            "error_form": terse,
        }
    )
    other = Application(context, RestMetrics(), operations)
    urls: list[str] = []
    stop, started = asyncio.Event(), asyncio.Event()

    def note(url: str) -> None:
        urls.append(url)
        if len(urls) == 2:
            started.set()

    served.others = asyncio.create_task(  # type: ignore[attr-defined]
        serve(
            [ListeningAddress(own, "127.0.0.1", 0), ListeningAddress(other, "127.0.0.1", 0)],
            limits=Limits(),
            on_started=note,
            on_stopping=lambda: None,
            stop=stop,
        )
    )
    await started.wait()
    return [int(url.rpartition(":")[2]) for url in urls], stop


async def connect(port: int) -> Wire:
    return Wire(*await asyncio.open_connection("127.0.0.1", port))


ASKS = "GET /echo HTTP/1.1\r\nhost: localhost\r\nconnection: Upgrade\r\nupgrade: echo\r\n\r\n"


async def test_listeners_have_a_table_and_a_form_of_errors_each(served: Live) -> None:
    (own, other), stop = await start(served, [operation("GET", "/echo")])
    answers = []
    for port, path in ((own, "/ping"), (own, "/echo"), (other, "/ping"), (other, "/echo")):
        wire = await connect(port)
        await wire.send("GET", path)
        status, headers, body = await wire.answer()
        answers.append((status, headers.get("content-type"), body[:14]))
        await wire.close()
    wire = await connect(other)
    wire.writer.write(b"no http\r\n\r\n")
    assert (await wire.answer())[1]["content-type"] == "application/x"
    await wire.close()
    stop.set()
    await served.others  # type: ignore[attr-defined]

    assert [status for status, _, _ in answers] == [200, 404, 404, 200]
    assert answers[1][1:] == ("application/json", b'{"error": {"co')
    assert answers[2][1:] == ("application/x", b'{"error_code":')


async def test_a_get_is_upgraded_where_its_operation_says_so(served: Live) -> None:
    (_, port), stop = await start(served, [operation("GET", "/echo"), operation("POST", "/echo")])
    wire = await connect(port)
    wire.writer.write(ASKS.encode())
    assert (await wire.reader.readuntil(b"\r\n\r\n")).startswith(b"HTTP/1.1 101 ")
    wire.writer.write(b"abc")
    assert await wire.reader.readexactly(5) == b"<abc>"
    await wire.close()

    for asked in (
        ASKS.replace("GET", "POST"),
        ASKS.replace("upgrade: echo", "upgrade: other"),
        ASKS.replace("connection: Upgrade\r\n", ""),
        ASKS.replace("\r\n\r\n", "\r\ncontent-length: 3\r\n\r\nabc"),
    ):
        wire = await connect(port)
        wire.writer.write(asked.encode())
        assert (await wire.answer())[2] == b"no", asked
        await wire.close()
    stop.set()
    await served.others  # type: ignore[attr-defined]


async def test_what_came_behind_an_upgrade_is_the_new_protocols(served: Live) -> None:
    (_, port), stop = await start(served, [operation("GET", "/echo")])
    wire = await connect(port)
    wire.writer.write(ASKS.encode() + b"first")
    await wire.reader.readuntil(b"\r\n\r\n")

    assert await wire.reader.readexactly(7) == b"<first>"
    stop.set()
    await served.others  # type: ignore[attr-defined]
    assert await wire.rest() == b""
    await wire.close()
