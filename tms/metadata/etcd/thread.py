"""gRPC's own event loop, in a thread of its own, for all sessions of the process.

gRPC's asyncio delivers late results to the event loop that called, and fails in another if that one
is closed. Here it has one loop, which ends with the process. Its results are posted to the loop of
the session, in order.
"""

import asyncio
import threading
from collections.abc import Callable, Coroutine
from contextlib import suppress
from typing import Any, TypeVar

T = TypeVar("T")

_lock = threading.Lock()
_loops: list[asyncio.AbstractEventLoop] = []


def _loop() -> asyncio.AbstractEventLoop:
    with _lock:
        if not _loops:
            loop = asyncio.new_event_loop()
            threading.Thread(target=loop.run_forever, name="etcd", daemon=True).start()
            _loops.append(loop)
        return _loops[0]


async def in_grpc_loop(work: Coroutine[Any, Any, T]) -> T:
    """Return the result of `work` in gRPC's loop; a cancelled caller cancels it."""
    return await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(work, _loop()))


class Home:
    """The event loop of a session, as gRPC's thread sees it."""

    def __init__(self) -> None:
        """Refer to the running loop."""
        self._loop = asyncio.get_running_loop()

    def post(self, call: Callable[..., None], *arguments: Any) -> None:
        """Make a call in the session's loop, after those posted before."""
        with suppress(RuntimeError):  # the loop is closed
            self._loop.call_soon_threadsafe(call, *arguments)
