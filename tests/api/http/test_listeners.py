"""Each of several listeners has a table of its own."""

import asyncio
import json
from collections.abc import Iterable
from dataclasses import replace
from typing import Any

import pytest
from prometheus_client import CollectorRegistry

from api.app import create_app
from api.http.application import Application
from api.http.context import context_of
from api.http.errors import ErrorAnswer
from api.http.exchange import Exchange
from api.http.listener.server import ListeningAddress, serve
from api.http.metrics import RestMetrics
from api.http.operation import Operation
from tests.api.rest import Live, Wire, serving
from tests.waiting import until
from tms.core.errors import TmsError
from tms.core.limits import Limits

pytestmark = pytest.mark.anyio


async def say(exchange: Exchange) -> None:
    await exchange.answer(200, b"said")


def operation(method: str, path: str) -> Operation:
    return Operation(
        name=f"{method} {path}",
        action=None,
        method=method,
        path=path,
        handler=say,
        tag="Server",
        summary="",
        description="",
        success="",
    )


def terse(error: Exception) -> ErrorAnswer:
    status = error.status if isinstance(error, TmsError) else 500
    return ErrorAnswer(status, json.dumps({"error_code": status}).encode(), b"application/x", ())


async def start(served: Live, operations: Iterable[Operation]) -> tuple[list[int], asyncio.Event]:
    """Serve these operations beside TMS's own; return both ports, and the event that stops both."""
    own = create_app(served.services, Limits(), registry=CollectorRegistry())
    other = Application(context_of(Limits(), error_form=terse), RestMetrics(), operations)
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


async def test_listeners_have_a_table_and_a_form_of_errors_each(served: Live) -> None:
    (own, other), stop = await start(served, [operation("GET", "/say")])
    answers = []
    for port, path in ((own, "/ping"), (own, "/say"), (other, "/ping"), (other, "/say")):
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


async def test_a_body_that_came_and_nobody_wanted_does_not_stop_the_next_request(
    anyio_backend: object,
) -> None:
    """One byte less would not pause reading; one more might not arrive before the pause."""
    begun = asyncio.Event()

    async def refuse(exchange: Exchange) -> None:
        begun.set()
        connection: Any = exchange.connection
        await until(lambda: connection._body.is_complete)
        await exchange.answer(404, b"no")

    late = replace(operation("POST", "/late"), handler=refuse)
    app = Application(context_of(Limits()), RestMetrics(), [late, operation("GET", "/say")])
    async with serving(app, Limits()) as (url, _):
        wire = await connect(int(url.rpartition(":")[2]))
        await wire.send("POST", "/late", b"", {"content-length": "65537"})
        await begun.wait()
        wire.writer.write(b"x" * 65537)
        assert (await wire.answer())[0] == 404
        await wire.send("GET", "/say")
        assert (await wire.answer())[0] == 200
        await wire.close()
