"""Lets what runs in the bridge's loop call back into the thread that waits for it.

A participant of a transaction, a database connection above all, often belongs to the thread that
uses it. So the methods of a plain participant are called in that thread, which has nothing to do
while it waits for the loop.

Ctrl-C in that thread cancels what runs in the loop, and is raised when that has ended: what it
calls back for until then, a rollback, is still done.
"""

import asyncio
from collections.abc import Awaitable, Callable
from concurrent.futures import Future
from contextlib import suppress
from functools import partial
from inspect import isawaitable, iscoroutinefunction
from queue import Empty, SimpleQueue
from threading import Event
from typing import Any, TypeVar

from tms.client.bridge import Bridge, Life

_LOOK_S = 1.0

Result = TypeVar("Result")


class CallingThread:
    """The thread that calls, one call at a time."""

    def __init__(self, bridge: Bridge) -> None:
        """Call through `bridge`."""
        self._bridge = bridge
        self._life: Life | None = None
        """That of the first call. No other process may go on with what was begun there."""
        self._jobs: SimpleQueue[Callable[[], None] | None] = SimpleQueue()

    async def invoke(self, method: Callable[..., Any], *arguments: Any) -> Any:
        """Call a method in that thread; a coroutine function in the loop (`Invoke`)."""
        if iscoroutinefunction(method):
            return await method(*arguments)
        done: Future[Any] = Future()

        def job() -> None:
            try:
                done.set_result(method(*arguments))
            except Exception as error:
                done.set_exception(error)
            except BaseException:  # Ctrl-C: for this thread, and the loop must not wait for ever
                done.set_exception(RuntimeError("interrupted"))
                raise

        self._jobs.put(job)
        result = await asyncio.wrap_future(done)
        return await result if isawaitable(result) else result

    def call(self, function: Callable[[], Awaitable[Result]]) -> Result:
        """Return what `function` gives in the loop, serving it meanwhile. Raises as `Bridge.call`.

        Called by one thread at a time. In a child of `os.fork()` it raises `RuntimeError` where the
        first call was the parent's.
        """
        self._life = self._life or self._bridge.life
        self.check_process()
        ended = Event()

        async def run() -> Result:
            try:
                return await function()
            finally:
                self._jobs.put(None)
                ended.set()

        return self._bridge.call(run, partial(self._serve, ended))

    @property
    def is_parents(self) -> bool:
        """Whether the first call was made by the parent of this process."""
        return self._life is not None and self._life is not self._bridge.life

    def check_process(self) -> None:
        """Raise `RuntimeError` in a child that was forked after the first call."""
        if self.is_parents:
            raise RuntimeError(
                "the transaction was begun before os.fork() and is the parent's: "
                "begin another in the child"
            )

    def note_begun(self, transaction: object) -> None:
        """Have a transaction named where the program ends within it."""
        self._bridge.life.open_transactions.add(transaction)

    def note_ended(self, transaction: object) -> None:
        """Say no more of it."""
        self._bridge.life.open_transactions.discard(transaction)

    def _serve(self, ended: Event, cancel: Callable[[], object]) -> None:
        """Do what the loop asks for until it has ended."""
        interruption: BaseException | None = None
        while True:
            self.check_process()
            try:
                # Ctrl-C may take what has just been got, the last of all too: then `ended` tells.
                job = self._jobs.get(timeout=_LOOK_S)
                if job is None:
                    break
                job()
            except Empty:
                if ended.is_set():
                    with suppress(Empty):  # it came just now; the next call must not find it
                        self._jobs.get_nowait()
                    break
            except BaseException as error:
                interruption = error
                cancel()
        if interruption is not None:
            raise interruption
