"""Lets threads call coroutines, which run in one event loop on a thread of its own.

Guarantees: any thread may call at any time; a call that is interrupted (Ctrl-C) or overtaken by
`close` is cancelled in the loop, and has ended there when it raises here; after `close` the loop's
thread has ended. A call must not be made from the loop's own thread.
"""

from collections.abc import AsyncGenerator, Awaitable, Callable, Iterable, Iterator
from concurrent.futures import CancelledError, Future
from contextlib import ExitStack, suppress
from threading import Event, Lock
from typing import Any, TypeVar

from anyio.from_thread import start_blocking_portal

from tms.core.errors import OutcomeUnknown

CANCEL_S_MAX = 5.0
"""How long an interrupted call waits for its end in the loop."""

Result = TypeVar("Result")


class Bridge:
    """One event loop on a thread of its own."""

    def __init__(self) -> None:
        """Start the thread."""
        self._lock = Lock()
        """Held while a call is handed over, so that none is once the loop ends."""
        self._closed = False
        self._running: set[Future[Any]] = set()
        self._half_read: set[AsyncGenerator[Any, None]] = set()
        self._thread = ExitStack()
        self._portal = self._thread.enter_context(start_blocking_portal(name="tms-client"))

    def call(
        self,
        function: Callable[[], Awaitable[Result]],
        meanwhile: Callable[[Callable[[], object]], None] | None = None,
    ) -> Result:
        """Return what `function` gives in the loop, raise what it raises.

        `meanwhile` is run in this thread until then; it is given what cancels `function`. Raises
        `RuntimeError` after `close`, and `OutcomeUnknown` where `close` came meanwhile.
        """
        ended = Event()

        async def run() -> Result:
            try:
                return await function()
            finally:
                ended.set()

        with self._lock:
            if self._closed:
                raise RuntimeError("the client is closed")
            future = self._portal.start_task_soon(run)
            self._running.add(future)
        try:
            if meanwhile is not None:
                meanwhile(future.cancel)
            return future.result()
        except CancelledError:
            raise OutcomeUnknown(reason="the client was closed meanwhile") from None
        except BaseException:
            if future.cancel():
                ended.wait(CANCEL_S_MAX)
            raise
        finally:
            self._running.discard(future)

    def iterate(self, blocks: AsyncGenerator[Iterable[Result], None]) -> Iterator[Result]:
        """Give what is in `blocks`, crossing to the loop once a block. Raises as `call`."""
        self._half_read.add(blocks)
        try:
            while (block := self.call(lambda: anext(blocks, None))) is not None:
                yield from block
        finally:
            self._half_read.discard(blocks)
            # After `close` there is nothing left to close.
            with suppress(RuntimeError, OutcomeUnknown):
                self.call(blocks.aclose)

    def close(self, last: Callable[[], Awaitable[None]] | None = None) -> None:
        """Cancel the calls that run, call `last`, end the thread. Twice is the same as once."""
        with self._lock:
            if self._closed:
                return
            self._closed = True
        for future in tuple(self._running):
            future.cancel()
        try:
            self._portal.call(self._close_half_read)
            if last is not None:
                self._portal.call(last)
        finally:
            self._portal.call(self._portal.stop, True)
            self._thread.close()

    async def _close_half_read(self) -> None:
        for blocks in tuple(self._half_read):
            # One that runs has been cancelled, and ends without this.
            with suppress(RuntimeError):
                await blocks.aclose()
