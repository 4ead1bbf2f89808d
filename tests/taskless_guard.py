"""Fails a test in which a taskless handler asks for its task too early (`taskless`).

Otherwise it may seem to work: a request that arrives after another one begins within that one's
task, and would get it, so that a timeout of the second would cancel the first. And a request whose
body arrives after its head has a task from the start, as those of most clients in tests do. So the
rule is checked for all requests to taskless operations, by what they await once their body is
complete.
"""

import asyncio
import threading
import traceback
from collections.abc import Coroutine, Generator, Iterator
from contextlib import contextmanager, nullcontext
from types import coroutine
from typing import Any
from unittest.mock import patch

from anyio._backends import _asyncio as anyio_on_asyncio

from api.http.endpoint import Endpoint
from api.http.exchange import Exchange
from api.http.listener.connection import HttpConnection
from api.http.protocol.taskless import TasklessCall

_RULE = (
    "A taskless handler asks for its task, as timeouts do, before its second await. It has none"
    " yet (api/http/protocol/taskless.py): let it wait for a turn of the event loop first, by"
    " asyncio.sleep(0)."
)


class AskedForTask(AssertionError):
    """Raised at the place that asks for the task."""


class _Now(threading.local):
    """How many nested calls in this thread have no task yet."""

    depth = 0

    @contextmanager
    def taskless(self) -> Iterator[None]:
        self.depth += 1
        try:
            yield
        finally:
            self.depth -= 1


_now = _Now()


@coroutine
def _held_to_rule(
    running: Coroutine[Any, Any, None], exchange: Exchange
) -> Generator[Any, Any, None]:
    """Run a request as if its body had arrived with its head."""
    awaits, thrown = 0, None
    while True:
        try:
            with _now.taskless() if awaits < 2 else nullcontext():
                awaited = running.send(None) if thrown is None else running.throw(thrown)
        except StopIteration:
            return
        finally:
            thrown = None  # its frames refer to this one
        if awaited is None:
            awaits += 2  # after a turn of the loop it has a task
        elif not exchange.body_unread:
            awaits += 1
        try:
            yield awaited
        except BaseException as error:  # the request gets it, whatever it is
            thrown = error


@contextmanager
def taskless_guard() -> Iterator[list[str]]:
    """Raise `AskedForTask` at each premature request for a task; yield the places of these."""
    asked: list[str] = []
    waits, run, current_task = TasklessCall._waits, HttpConnection._run, asyncio.current_task

    def guarded_waits(call: TasklessCall) -> bool:
        with _now.taskless():
            return waits(call)

    async def guarded_run(wire: HttpConnection, exchange: Exchange, endpoint: Endpoint) -> None:
        running = run(wire, exchange, endpoint)
        await (_held_to_rule(running, exchange) if endpoint.is_taskless else running)

    def task(*args: Any) -> asyncio.Task[Any] | None:
        if _now.depth:
            asked.append("".join([_RULE, "\n", *traceback.format_stack(limit=12)[:-1]]))
            raise AskedForTask(_RULE)
        return current_task(*args)

    with (
        patch.object(TasklessCall, "_waits", guarded_waits),
        patch.object(HttpConnection, "_run", guarded_run),
        patch("asyncio.current_task", task),
        patch("asyncio.tasks.current_task", task),
        patch.object(anyio_on_asyncio, "current_task", task),
    ):
        yield asked
