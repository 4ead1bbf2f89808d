"""One event loop in a thread of its own, which does not keep the program from ending.

Guarantees: what is started runs until it ends or its future is cancelled; after `end` returned True
no thread of it is left. It needs no thread that is not there yet to end, so that it can do so while
the program ends.
"""

import asyncio
from collections.abc import Awaitable, Callable
from concurrent.futures import Future
from contextlib import suppress
from threading import Thread
from typing import TypeVar

from anyio.from_thread import BlockingPortal

from tms.client.daemon_threads import DaemonThreads

Result = TypeVar("Result")


class LoopThread:
    """A running event loop. `anyio.from_thread.start_blocking_portal` waits for its end at exit."""

    def __init__(self) -> None:
        """Start the thread, and return when the loop runs."""
        self._blocking = DaemonThreads("tms-client-blocking")
        started: Future[BlockingPortal] = Future()
        self._thread = Thread(target=self._run, args=(started,), name="tms-client", daemon=True)
        self._thread.start()
        self._portal = started.result()

    def _run(self, started: Future[BlockingPortal]) -> None:
        loop = asyncio.new_event_loop()
        try:
            loop.set_default_executor(self._blocking)
            loop.run_until_complete(self._serve(started))
            loop.run_until_complete(_cancel_what_is_left())
            loop.run_until_complete(loop.shutdown_asyncgens())
            loop.run_until_complete(asyncio.sleep(0))  # sockets are closed a round after all else
        except BaseException as error:
            if started.done():
                raise
            started.set_exception(error)
        finally:
            loop.close()

    async def _serve(self, started: Future[BlockingPortal]) -> None:
        self._loop, self._ended = asyncio.get_running_loop(), asyncio.Event()
        async with BlockingPortal() as portal:
            started.set_result(portal)
            await self._ended.wait()
            await portal.stop(cancel_remaining=True)

    def start(self, function: Callable[[], Awaitable[Result]]) -> Future[Result]:
        """Call `function` in the loop; the future is of what it gives. Cancelling it cancels that.

        Raises `RuntimeError` after `end`.
        """
        return self._portal.start_task_soon(function)

    def end(self, within_s: float | None = None) -> bool:
        """Cancel what runs and end the thread; return whether it ended within so many seconds."""
        with suppress(RuntimeError):  # it has ended
            self._loop.call_soon_threadsafe(self._ended.set)
        self._thread.join(within_s)
        if self._thread.is_alive():
            return False
        self._blocking.shutdown(wait=within_s is None)
        return True


async def _cancel_what_is_left() -> None:
    left = asyncio.all_tasks() - {asyncio.current_task()}
    for task in left:
        task.cancel()
    await asyncio.gather(*left, return_exceptions=True)
