"""The share of each caller in the requests, or in the streams, forwarded to one other server.

1. At most `FORWARDED_MAX` are under way. One caller may have all of these except a reserve of a
   tenth (`tms.core.runtime.shares`), so that no caller can block the others.
2. A request that finds no room waits for at most `WAIT_S_MAX`. When room becomes free, the caller
   served longest ago is next, each in the order of its requests.

Used from the event loop's thread alone.
"""

import asyncio
from collections import deque

from tms.core.errors import TooManyConnections
from tms.core.runtime.shares import Shares

FORWARDED_MAX = 1_000
WAIT_S_MAX = 5.0


class ForwardShares:
    """The requests that are forwarded to one other server."""

    def __init__(self) -> None:
        self._shares = Shares(FORWARDED_MAX)
        self._waiting: dict[str, deque[asyncio.Future[None]]] = {}
        """By caller; the one served last is last."""

    async def enter(self, sharer: str) -> None:
        """Count a request of a caller, once there is room; it needs a task.

        Raises `TooManyConnections` if there is none in time. If it returns, call `leave` later.
        """
        if self._shares.room(sharer) > 0:  # a caller with waiting requests has none
            self._shares.add(sharer)
            return
        waiter = asyncio.get_running_loop().create_future()
        self._waiting.setdefault(sharer, deque()).append(waiter)
        try:
            async with asyncio.timeout(WAIT_S_MAX):
                await waiter
        except BaseException as error:
            if waiter.done() and not waiter.cancelled():
                self.leave(sharer)
            else:
                self._forget(sharer, waiter)
            if isinstance(error, TimeoutError):
                raise TooManyConnections(forwarded_max=FORWARDED_MAX) from None
            raise

    def leave(self, sharer: str) -> None:
        """Stop counting a request, and admit those for which there is room now."""
        self._shares.add(sharer, -1)
        if self._waiting:
            self._let_in()

    def _let_in(self) -> None:
        for sharer in list(self._waiting):
            if self._shares.used >= self._shares.bound:
                return
            waiters = self._waiting[sharer]
            while waiters and waiters[0].done():  # it was cancelled, and ends in its own turn
                waiters.popleft()
            if waiters and self._shares.room(sharer) > 0:
                self._shares.add(sharer)
                waiters.popleft().set_result(None)
                del self._waiting[sharer]
                if waiters:
                    self._waiting[sharer] = waiters
            elif not waiters:
                del self._waiting[sharer]

    def _forget(self, sharer: str, waiter: "asyncio.Future[None]") -> None:
        waiters = self._waiting.get(sharer, deque())
        if waiter in waiters:
            waiters.remove(waiter)
            if not waiters:
                del self._waiting[sharer]
