"""The threads that the service waits for tables on, so that the event loop never does.

One lane writes: one flush at a time, in order. Others read. A call crosses threads once each way.
"""

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import ParamSpec, TypeVar

from tms.core.errors import Stopping

P = ParamSpec("P")
T = TypeVar("T")


class Lanes:
    """A write lane of one thread, and read lanes."""

    def __init__(self, *, read_lanes: int) -> None:
        self._closed = False
        self._writes = ThreadPoolExecutor(1, thread_name_prefix="tms-write")
        self._reads = ThreadPoolExecutor(read_lanes, thread_name_prefix="tms-read")

    async def write(self, call: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """Return what `call` returns, made in the write lane after all that was asked before."""
        return await self._run(self._writes, call, *args, **kwargs)

    async def read(self, call: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """Return what `call` returns, made in a read lane."""
        return await self._run(self._reads, call, *args, **kwargs)

    def close(self) -> None:
        """Wait for the calls under way and end the threads. Later calls raise `Stopping`."""
        self._closed = True
        self._writes.shutdown(wait=True)
        self._reads.shutdown(wait=True)

    async def _run(
        self,
        lane: ThreadPoolExecutor,
        call: Callable[P, T],
        *args: P.args,
        **kwargs: P.kwargs,
    ) -> T:
        if self._closed:
            raise Stopping
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(lane, lambda: call(*args, **kwargs))
