"""Lets what runs in the bridge's loop call back into the thread that waits for it.

A participant of a transaction, a database connection above all, often belongs to the thread that
uses it. So the methods of a plain participant are called in that thread, which has nothing to do
while it waits for the loop.

Ctrl-C in that thread cancels what runs in the loop, and is raised when that has ended: what it
calls back for until then, a rollback, is still done. Wherever it comes, each job is answered: the
method runs once at most, and the loop is told how it ended, or that it was interrupted.
"""

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable
from contextlib import suppress
from functools import partial
from inspect import isawaitable, iscoroutinefunction
from queue import Empty, SimpleQueue
from typing import Any, ParamSpec, TypeVar

from tms.client.threads.bridge import Bridge, Life
from tms.client.threads.daemon_threads import for_future
from tms.client.threads.loop_thread import LoopCall

_LOOK_S = 1.0

Arguments = ParamSpec("Arguments")
Result = TypeVar("Result")


class _Job:
    """A method that the loop asks the thread to call."""

    def __init__(self, method: Callable[[], Any]) -> None:
        self._method = method
        self._loop = asyncio.get_running_loop()
        self.answer: asyncio.Future[Any] = self._loop.create_future()
        self._is_begun = False
        self._outcome: tuple[Any, BaseException | None] = None, RuntimeError("interrupted")
        self.is_running = False
        """Whether it is being done; a signal's handler that calls meanwhile must not do it too."""

    def do(self) -> None:
        """Call the method, and tell the loop. To be done again if Ctrl-C came within it."""
        self.is_running = True
        try:
            if not self._is_begun:
                self._is_begun = True
                self._outcome = self._called()
            self._loop.call_soon_threadsafe(self._tell)
        finally:
            self.is_running = False

    def _called(self) -> tuple[Any, BaseException | None]:
        try:
            return self._method(), None
        except Exception as error:
            return None, for_future(error)

    def _tell(self) -> None:
        result, error = self._outcome
        if self.answer.done():  # told already, or cancelled
            return
        if error is None:
            self.answer.set_result(result)
        else:
            self.answer.set_exception(error)


class CallingThread:
    """The thread that calls, one call at a time."""

    def __init__(self, bridge: Bridge) -> None:
        """Call through `bridge`."""
        self._bridge = bridge
        self._life: Life | None = None
        """That of the first call. No other process may go on with what was begun there."""
        self._jobs: deque[_Job] = deque()
        """Those that are not done yet, the running one too: Ctrl-C loses none of them."""
        self._wakes: SimpleQueue[None] = SimpleQueue()
        """Has an item for each change that the thread may wait for."""

    async def invoke(self, method: Callable[..., Any], *arguments: Any) -> Any:
        """Call a method in that thread; a coroutine function in the loop (`Invoke`)."""
        if iscoroutinefunction(method):
            return await method(*arguments)
        job = _Job(partial(method, *arguments))
        self._jobs.append(job)
        self._wakes.put(None)
        try:
            result = await job.answer
        finally:
            with suppress(ValueError):  # the next call must not find it
                self._jobs.remove(job)
        return await result if isawaitable(result) else result

    def call(
        self,
        function: Callable[Arguments, Awaitable[Result]],
        /,
        *arguments: Arguments.args,
        **named: Arguments.kwargs,
    ) -> Result:
        """Return what `function` gives in the loop, serving it meanwhile. Raises as `Bridge.call`.

        Called by one thread at a time. In a child of `os.fork()` it raises `RuntimeError` if the
        first call was the parent's.
        """
        self._life = self._life or self._bridge.life
        self.check_process()

        ended: list[None] = []

        async def run() -> Result:
            try:
                return await function(*arguments, **named)
            finally:
                ended.append(None)
                self._wakes.put(None)

        return self._bridge.serve(run, partial(self._serve, ended))

    def begin(self, transaction: object, function: Callable[[], Awaitable[object]]) -> None:
        """Call `function`, which begins a transaction; name it if the program ends within it."""
        self.call(function)
        self._bridge.life.open_transactions.add(transaction)

    def end(
        self,
        transaction: object,
        function: Callable[Arguments, Awaitable[object]],
        /,
        *arguments: Arguments.args,
        **named: Arguments.kwargs,
    ) -> None:
        """Call `function`, which ends a transaction that `begin` began."""
        self._bridge.life.open_transactions.discard(transaction)
        self.call(function, *arguments, **named)

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

    def _serve(self, ended: list[None], call: LoopCall[Any]) -> None:
        """Do what the loop asks for until `ended` has an item, or the call is over."""
        interruption: BaseException | None = None
        while not (ended or call.is_over):
            try:
                self.check_process()
                self._do_next()
            except BaseException as error:
                if self.is_parents:
                    raise
                interruption = error
                call.cancel()
        if interruption is not None:
            raise interruption

    def _do_next(self) -> None:
        for job in tuple(self._jobs):
            if not job.is_running:
                job.do()
                with suppress(ValueError):
                    self._jobs.remove(job)
                return
        with suppress(Empty):
            self._wakes.get(timeout=_LOOK_S)
