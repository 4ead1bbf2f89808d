"""Runs coroutines without a task up to their second await.

Most requests wait once, for a flush or for a read. Their task would cost more than the rest of
their work. Before its second await the coroutine has no task, unless the first is `sleep(0)`. So
until then do not use timeouts or `current_task`; in tests that fails (`tests/taskless_guard.py`).
The first await must be a future or `sleep(0)`.
"""

import asyncio
from collections.abc import Coroutine, Generator
from types import coroutine
from typing import Any


class TasklessCall:
    """A coroutine that runs up to its second wait at once, and from there on in a task."""

    __slots__ = ("_awaited", "_calls", "_loop", "_running", "_tasks")

    def __init__(
        self,
        running: Coroutine[Any, Any, None],
        loop: asyncio.AbstractEventLoop,
        tasks: "set[asyncio.Task[None]]",
        calls: "set[TasklessCall]",
    ) -> None:
        """Be among `calls` while it waits without a task, and its task among `tasks`."""
        self._running = running
        self._loop = loop
        self._tasks = tasks
        self._calls = calls
        self._awaited: Any = None
        """The awaited future; None for a turn of the loop."""

    def start(self) -> None:
        """Run it up to where it waits first, and have it go on from there."""
        if not self._waits():
            return
        awaited = self._awaited
        if awaited is None:
            self._leave()
        else:
            awaited._asyncio_future_blocking = False  # noqa: SLF001  as a task that heard of it
            awaited.add_done_callback(self._go_on)
            self._calls.add(self)

    def take_task(self) -> None:
        """Have a task already now, by which it can be waited for and cancelled.

        Where it is to go on in the next turn of the loop, it does so first.
        """
        if self._awaited.remove_done_callback(self._go_on):
            self._calls.discard(self)
            self._leave()

    def _go_on(self, _: object) -> None:
        self._calls.discard(self)
        if self._waits():
            self._leave()

    def _waits(self) -> bool:
        """Run it up to where it waits; return whether it does, or has ended."""
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
        awaited._asyncio_future_blocking = True  # noqa: SLF001  how a task knows what it awaits
    while True:
        thrown: BaseException | None = None
        try:
            yield awaited
        except BaseException as error:  # it is the coroutine's, whatever it is
            thrown = error
        try:
            awaited = running.send(None) if thrown is None else running.throw(thrown)
        except StopIteration:
            return
