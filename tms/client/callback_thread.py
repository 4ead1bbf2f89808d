"""Lets what runs in the bridge's loop call back into the thread that waits for it.

A participant of a transaction, a database connection above all, often belongs to the thread that
uses it. So the methods of a plain participant are called in that thread, which has nothing to do
while it waits for the loop.

Ctrl-C in that thread cancels what runs in the loop, and is raised when that has ended: what it
calls back for until then, a rollback, is still done.
"""

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress
from inspect import isawaitable, iscoroutinefunction
from queue import Empty, SimpleQueue
from typing import Any, ParamSpec, TypeVar

from tms.client.bridge import Bridge, Life
from tms.client.loop_thread import LoopCall

_LOOK_S = 1.0

Arguments = ParamSpec("Arguments")
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
        loop = asyncio.get_running_loop()
        done: asyncio.Future[Any] = loop.create_future()

        def tell(result: Any, error: Exception | None) -> None:
            if done.cancelled():
                return
            if error is None:
                done.set_result(result)
            else:
                done.set_exception(error)

        def job() -> None:
            try:
                result = method(*arguments)
            except Exception as error:
                loop.call_soon_threadsafe(tell, None, error)
            except BaseException:  # Ctrl-C: for this thread, and the loop must not wait for ever
                loop.call_soon_threadsafe(tell, None, RuntimeError("interrupted"))
                raise
            else:
                loop.call_soon_threadsafe(tell, result, None)

        self._jobs.put(job)
        result = await done
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

        async def run() -> Result:
            try:
                return await function(*arguments, **named)
            finally:
                self._jobs.put(None)

        return self._bridge.serve(run, self._serve)

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

    def _serve(self, call: LoopCall[Any]) -> None:
        """Do what the loop asks for until the call is over."""
        interruption: BaseException | None = None
        while True:
            self.check_process()
            try:
                # Ctrl-C may take what has just been got, the last of all too: then the call tells.
                job = self._jobs.get(timeout=_LOOK_S)
                if job is None:
                    break
                job()
            except Empty:
                if call.is_over:
                    with suppress(Empty):  # it came just now; the next call must not find it
                        self._jobs.get_nowait()
                    break
            except BaseException as error:
                interruption = error
                call.cancel()
        if interruption is not None:
            raise interruption
