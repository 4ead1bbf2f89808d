"""Lets code in the bridge's loop call back into the thread that waits for it.

A participant of a transaction, such as a database connection, often belongs to the thread that uses
it. So the methods of a plain participant are called in that thread, which is idle while it waits
for the loop.

Ctrl-C in that thread cancels the call in the loop, and is raised when the call has ended: callbacks
until then, such as a rollback, are still run. Wherever it arrives, each job gets an answer: the
method runs at most once, and the loop gets its result or error, or learns that it was interrupted.
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
        """Whether it is running, so that a signal handler that calls does not run it too."""

    def do(self) -> None:
        """Call the method and pass its outcome to the loop. Repeat this if Ctrl-C interrupts it."""
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
        if self.answer.done():  # answered already, or cancelled
            return
        if error is None:
            self.answer.set_result(result)
        else:
            self.answer.set_exception(error)


class CallingThread:
    """A calling thread, with one call at a time."""

    def __init__(self, bridge: Bridge) -> None:
        """Call through `bridge`."""
        self._bridge = bridge
        self._life: Life | None = None
        """The process of the first call. No other process may continue its work."""
        self._jobs: deque[_Job] = deque()
        """Those that are not finished, including the running one: Ctrl-C loses none of them."""
        self._wakes: SimpleQueue[None] = SimpleQueue()
        """Gets an item for each event that the thread may wait for."""

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
            with suppress(ValueError):  # the next call must not run it
                self._jobs.remove(job)
        return await result if isawaitable(result) else result

    def call(
        self,
        function: Callable[Arguments, Awaitable[Result]],
        /,
        *arguments: Arguments.args,
        **named: Arguments.kwargs,
    ) -> Result:
        """Call `function` in the loop, and run its callbacks here. Raises as `Bridge.call`.

        Used by one thread at a time. Raises `RuntimeError` in a child of `os.fork()` if the first
        call was the parent's.
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
        """Call `function`, which begins a transaction, and register that until `end`."""
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
        """Whether the parent of this process made the first call."""
        return self._life is not None and self._life is not self._bridge.life

    def check_process(self) -> None:
        """Raise `RuntimeError` in a child that was forked after the first call."""
        if self.is_parents:
            raise RuntimeError(
                "the transaction was begun before os.fork() and is the parent's: "
                "begin another in the child"
            )

    def _serve(self, ended: list[None], call: LoopCall[Any]) -> None:
        """Run the loop's jobs until `ended` has an item, or the call is over."""
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
