"""The share of each caller in the requests that may be on their way to one other server.

1. There are at most `FORWARDED_MAX`. Of these one caller may have all except a reserve of a tenth
   (`tms.core.runtime.shares`), so nobody can stop what others ask for.
2. A request that finds no room waits for `WAIT_S_MAX` at most. If some becomes free, that caller is
   served who was served longest ago, each in the order of its requests.

Used from the event loop's thread alone.
"""

import asyncio
from collections import deque

from tms.core.errors import TooManyConnections
from tms.core.runtime.shares import Shares

FORWARDED_MAX = 1_000
WAIT_S_MAX = 5.0


class ForwardShares:
    """The requests on their way to one other server."""

    def __init__(self) -> None:
        self._shares = Shares(FORWARDED_MAX)
        self._waiting: dict[str, deque[asyncio.Future[None]]] = {}
        """By caller; whoever was served last is last."""

    async def enter(self, sharer: str) -> None:
        """Count a request of a caller in, once there is room; it needs a task.

        Raises `TooManyConnections` if there is none in time. `leave` follows if this returns.
        """
        if self._shares.room(sharer) > 0:  # who waits has none
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
        """Count a request out, and let those in for which there is room now."""
        self._shares.add(sharer, -1)
        if self._waiting:
            self._let_in()

    def _let_in(self) -> None:
        for sharer in list(self._waiting):
            if self._shares.used >= self._shares.bound:
                return
            waiters = self._waiting[sharer]
            while waiters and waiters[0].done():  # it was given up, and says so in its turn
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
