"""An event loop in a separate thread, which does not keep the program from ending.

Guarantees: a started call runs until it ends or is cancelled; after `end` returned True, none of
its threads is left, and every call has ended. It can end without starting a thread, so also while
the program ends.

A thread that waits for a call holds no lock that the loop's thread takes. So a signal handler, or a
finalizer that the garbage collector runs, may start and cancel calls while its thread waits for
another. That is why this does not use `anyio.from_thread` or `concurrent.futures`: a thread that is
interrupted within their conditions blocks the loop.
"""

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress
from threading import Lock, Thread, get_ident
from typing import Any, Generic, TypeVar, cast

from anyio import CancelScope

from tms.client.threads.daemon_threads import DaemonThreads

_LOOK_S = 1.0
"""How long a thread waits at a time. A signal that arrives just before the wait does not interrupt
it; its handler runs after it."""
Result = TypeVar("Result")


class LoopCall(Generic[Result]):
    """One call in the loop, for the thread that made it."""

    __slots__ = (
        "_error",
        "_function",
        "_is_cancelled",
        "_is_done",
        "_loop",
        "_over",
        "_result",
        "_scope",
        "_task",
        "is_over",
    )

    def __init__(self, function: Callable[[], Awaitable[Result]]) -> None:
        self._function = function
        self._loop: asyncio.AbstractEventLoop | None = None
        """None until it is passed to the loop."""
        self._scope: CancelScope | None = None
        self._is_cancelled = False
        self._task: asyncio.Task[None] | None = None
        self._result: Result | None = None
        self._error: BaseException | None = None
        self._is_done = False
        """Whether the call returned its result, or raised its error."""
        self._over = Lock()
        """Free once it is over; a thread that acquires it releases it for the next."""
        self._over.acquire()
        self.is_over = False
        """Whether it has ended, or will never begin."""

    def hand_over(
        self, loop: asyncio.AbstractEventLoop, begin: Callable[["LoopCall[Result]"], object]
    ) -> None:
        """Schedule `begin` in the loop. Raises `RuntimeError` after the loop's end."""
        self._loop = loop
        loop.call_soon_threadsafe(begin, self)

    def begin(self, when_over: Callable[["LoopCall[Any]"], None]) -> None:
        """Run it, and call `when_over` after it. Called in the loop."""
        assert self._loop is not None
        self._task = self._loop.create_task(self._run(when_over))

    async def _run(self, when_over: Callable[["LoopCall[Any]"], None]) -> None:
        """Run it, and wake its waiters, one turn of the loop before the task ends."""
        try:
            with CancelScope() as self._scope:
                if not self._is_cancelled:
                    self._result = await self._function()
                    self._is_done = True
        except BaseException as error:  # for the caller: in a task, an exit would stop the loop
            self._error, self._is_done = error, True
        finally:
            self._scope = None  # it refers to the task, which refers to this call
            when_over(self)
            self.lose()

    def lose(self) -> None:
        """Wake the waiters: the call will not end."""
        if not self.is_over:
            self.is_over = True
            with suppress(RuntimeError):  # another thread released it at the same moment
                self._over.release()

    def cancel(self) -> None:
        """Cancel it, except for shielded parts. It takes no lock and does not wait."""
        if self._loop is None:
            self.lose()
            return
        with suppress(RuntimeError):  # the loop has ended, and so has the call
            self._loop.call_soon_threadsafe(self._cancel)

    def _cancel(self) -> None:
        self._is_cancelled = True
        if self._scope is not None:
            self._scope.cancel()
        elif self._task is None:  # Ctrl-C arrived before it was passed to the loop
            self.lose()

    def wait(self, within_s: float | None = None) -> bool:
        """Wait up to `within_s` seconds, or without limit; return whether it is over."""
        while not self.is_over:  # Ctrl-C may have left the lock acquired
            if self._over.acquire(timeout=_LOOK_S if within_s is None else within_s):
                self._over.release()
                break
            if within_s is not None:
                return self.is_over
        return True

    def result(self, within_s: float | None = None) -> Result:
        """Return the call's result or raise its error. Call this once.

        Raises `asyncio.CancelledError` if it was cancelled, and `TimeoutError` after `within_s`.
        """
        if not self.wait(within_s):
            raise TimeoutError
        if not self._is_done:
            raise asyncio.CancelledError
        error, self._error = self._error, None
        try:
            if error is not None:
                raise error
            return cast("Result", self._result)
        finally:
            del error  # otherwise it keeps itself alive, by its traceback


class LoopThread:
    """A running event loop. A `start_blocking_portal` of anyio would block the program's exit."""

    def __init__(self) -> None:
        """Start the thread."""
        self.kept: object = None
        """The client, so that its connections are not collected before the thread closes them."""
        self._blocking = DaemonThreads("tms-client-blocking")
        self._loop = asyncio.new_event_loop()
        self._ended = asyncio.Event()
        self._calls: set[LoopCall[Any]] = set()
        self._closings: set[asyncio.Task[object]] = set()
        self._thread = Thread(target=self._run, name="tms-client", daemon=True)
        self._thread.start()

    def _run(self) -> None:
        loop = self._loop
        try:
            loop.set_default_executor(self._blocking)
            loop.run_until_complete(self._ended.wait())
            loop.run_until_complete(_cancel_what_is_left())
            loop.run_until_complete(loop.shutdown_asyncgens())
            loop.run_until_complete(asyncio.sleep(0))  # sockets are closed a turn later
        finally:
            loop.close()
            for call in tuple(self._calls):  # passed to the loop too late: they never begin
                call.lose()
            self._blocking.shutdown(wait=False)

    def is_current(self) -> bool:
        """Whether the caller is the loop's own thread, which must not wait for a call."""
        return get_ident() == self._thread.ident

    def start(self, call: LoopCall[Result]) -> LoopCall[Result]:
        """Start a call in the loop. Raises `RuntimeError` after `end`; the call is then over."""
        try:
            self._calls.add(call)
            call.hand_over(self._loop, self._begin)
        except BaseException:
            self._calls.discard(call)
            raise
        return call

    def _begin(self, call: LoopCall[Any]) -> None:
        if self._ended.is_set():
            call.lose()
        else:
            call.begin(self._calls.discard)

    def start_closing(self, close: Callable[[], Awaitable[object]]) -> None:
        """Call `close` in the loop soon, without waiting; its errors are ignored.

        It takes no lock, so the garbage collector may call it in any thread. After the end of the
        loop, and while it ends, it does nothing.
        """

        async def run() -> None:
            with suppress(Exception, SystemExit, KeyboardInterrupt):
                await close()

        def begin() -> None:
            if self._ended.is_set():  # it would never run; asyncio closes generators itself
                return
            task = self._loop.create_task(run())
            self._closings.add(task)
            task.add_done_callback(self._closings.discard)

        with suppress(RuntimeError):
            self._loop.call_soon_threadsafe(begin)

    async def finish_closings(self, within_s: float) -> None:
        """Wait for the calls of `start_closing`, which may have messages to give back."""
        closings = self._closings - {asyncio.current_task()}
        if closings:
            await asyncio.wait(closings, timeout=within_s)

    def stop(self) -> None:
        """Cancel running calls and end the thread soon, without waiting."""
        with suppress(RuntimeError):  # the loop has ended
            self._loop.call_soon_threadsafe(self._ended.set)

    def wait(self, within_s: float) -> bool:
        """Wait up to `within_s` seconds; return whether the thread has ended."""
        self._thread.join(within_s)
        return not self._thread.is_alive()

    def end(self, within_s: float | None = None) -> bool:
        """Stop, wait up to `within_s` seconds, and return whether the thread has ended."""
        self.stop()
        self._thread.join(within_s)
        if self._thread.is_alive():
            return False
        self._blocking.shutdown(wait=within_s is None)
        return True


async def _cancel_what_is_left() -> None:
    tasks = asyncio.all_tasks() - {asyncio.current_task()}
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
