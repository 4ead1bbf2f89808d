"""Runs coroutines without a task up to their second await.

Most requests wait once, for a flush or for a read. A task would cost more than the rest of their
work. Before its second await the coroutine has no task, unless the first is `sleep(0)`. So it must
not use timeouts or `current_task` until then; tests fail if it does (`tests/taskless_guard.py`).
The first await must be a future or `sleep(0)`.
"""

import asyncio
from collections.abc import Coroutine, Generator
from types import coroutine
from typing import Any


class TasklessCall:
    """A coroutine that runs without a task up to its second wait, and then in a task."""

    __slots__ = ("_awaited", "_calls", "_loop", "_running", "_tasks")

    def __init__(
        self,
        running: Coroutine[Any, Any, None],
        loop: asyncio.AbstractEventLoop,
        tasks: "set[asyncio.Task[None]]",
        calls: "set[TasklessCall]",
    ) -> None:
        """Join `calls` while it waits without a task; its task joins `tasks`."""
        self._running = running
        self._loop = loop
        self._tasks = tasks
        self._calls = calls
        self._awaited: Any = None
        """The awaited future; None for a turn of the loop."""

    def start(self) -> None:
        """Run it up to its first wait, and schedule the rest."""
        if not self._waits():
            return
        awaited = self._awaited
        if awaited is None:
            self._leave()
        else:
            awaited._asyncio_future_blocking = False  # noqa: SLF001  as a task does
            awaited.add_done_callback(self._go_on)
            self._calls.add(self)

    def take_task(self) -> None:
        """Create its task now, so that it can be waited for and cancelled.

        If it is to continue in the next turn of the loop, it does so first.
        """
        if self._awaited.remove_done_callback(self._go_on):
            self._calls.discard(self)
            self._leave()

    def _go_on(self, _: object) -> None:
        self._calls.discard(self)
        if self._waits():
            self._leave()

    def _waits(self) -> bool:
        """Run it up to its next wait; return whether it waits, and has not ended."""
        try:
            self._awaited = self._running.send(None)
        except StopIteration:
            return False
        return True

    def _leave(self) -> None:
        task = self._loop.create_task(_finish(self._running, self._awaited))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)


async def _finish(running: Coroutine[Any, Any, None], awaited: Any) -> None:
    await _rest(running, awaited)


@coroutine
def _rest(running: Coroutine[Any, Any, None], awaited: Any) -> Generator[Any, Any, None]:
    if awaited is not None:
        awaited._asyncio_future_blocking = True  # noqa: SLF001  a task requires it
    while True:
        thrown: BaseException | None = None
        try:
            yield awaited
        except BaseException as error:  # the coroutine raised it, whatever it is
            thrown = error
        try:
            awaited = running.send(None) if thrown is None else running.throw(thrown)
        except StopIteration:
            return
