"""An endpoint that reads a body and answers with nothing, or with N bytes (`/bytes/N/…`).

It runs on the same HTTP, loop and settings as TMS, so its rate is the limit that HTTP sets.
"""

import asyncio
import sys
from functools import lru_cache
from typing import cast

import uvloop

from api.http.application import Application
from api.http.context import context_of
from api.http.endpoint import Endpoint
from api.http.errors import ErrorAnswer, answer_of
from api.http.exchange import OK, Exchange
from api.http.listener.server import ListeningAddress, serve
from api.http.metrics import OperationMetrics
from api.http.operation import Operation
from api.http.request_body import read_body
from api.http.router import Router
from tms.core.limits import Limits


@lru_cache
def _answer_to(path: str) -> bytes:
    parts = path.split("/")
    return bytes(int(parts[2])) if parts[1] == "bytes" else b""


async def _answer(exchange: Exchange) -> None:
    await read_body(exchange)
    await exchange.answer(OK, _answer_to(exchange.path))


_OPERATION = Operation(
    name="empty",
    method="POST",
    path="/",
    handler=_answer,
    action=None,
    tag="",
    summary="",
    description="",
    success="",
    is_taskless=True,
)


class _App:
    """One endpoint for every path."""

    def __init__(self) -> None:
        endpoint = Endpoint(_answer, context_of(Limits()), OperationMetrics(), _OPERATION)
        self.routes = Router((), lambda _code, _detail: endpoint)

    @staticmethod
    def error(error: Exception) -> ErrorAnswer:
        return answer_of(error)


async def _main() -> None:
    await serve(
        [ListeningAddress(cast("Application", _App()), "127.0.0.1", 0)],
        limits=Limits(),
        on_started=lambda url: print(f"An empty endpoint is at {url} now.", flush=True),
        on_stopping=lambda: None,
    )


if __name__ == "__main__":
    sys.setswitchinterval(0.0005)
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(_main())
