"""gRPC's own event loop, in a thread of its own, for all sessions of the process.

gRPC's asyncio hands what is late to the event loop that asked, and fails in another where that
has been closed. Here it has one loop, which ends with the process. What it tells is posted to the
loop of the session, in order.
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


async def there(work: Coroutine[Any, Any, T]) -> T:
    """Return what `work` does in gRPC's loop; where the caller is cancelled, so is it."""
    return await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(work, _loop()))


class Home:
    """The event loop of a session, as gRPC's thread sees it."""

    def __init__(self) -> None:
        """Take the loop that runs now."""
        self._loop = asyncio.get_running_loop()

    def post(self, call: Callable[..., None], *arguments: Any) -> None:
        """Have the session's loop make a call, after those that were posted before."""
        with suppress(RuntimeError):  # it is closed: nobody listens any more
            self._loop.call_soon_threadsafe(call, *arguments)
