"""Has a test fail in which a request asks for its task while it has none (`api.http.taskless`).

Otherwise it may seem to work: a request that comes behind another one begins within that one's
task, and is given that, so that a timeout of the second would cancel the first.
"""

import asyncio
import threading
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from unittest.mock import patch

from anyio._backends import _asyncio as anyio_on_asyncio

from api.http.taskless import TasklessCall

_RULE = (
    "A taskless handler asks for its task, as timeouts do, before its second await. It has none yet"
    " (api/http/taskless.py): let it wait for a turn of the event loop first, asyncio.sleep(0)."
)


class AskedForTask(AssertionError):
    """Raised where the task is asked for."""


class _Now(threading.local):
    """How many taskless calls run in this thread, one within the other."""

    depth = 0


@contextmanager
def taskless_guard() -> Iterator[list[str]]:
    """Raise `AskedForTask` at each wrong question, and give where they were asked."""
    asked: list[str] = []
    now, waits, current_task = _Now(), TasklessCall._waits, asyncio.current_task

    def guarded(call: TasklessCall) -> bool:
        now.depth += 1
        try:
            return waits(call)
        finally:
            now.depth -= 1

    def task(*args: Any) -> asyncio.Task[Any] | None:
        if now.depth:
            asked.append("".join([_RULE, "\n", *traceback.format_stack(limit=12)[:-1]]))
            raise AskedForTask(_RULE)
        return current_task(*args)

    with (
        patch.object(TasklessCall, "_waits", guarded),
        patch("asyncio.current_task", task),
        patch("asyncio.tasks.current_task", task),
        patch.object(anyio_on_asyncio, "current_task", task),
    ):
        yield asked
