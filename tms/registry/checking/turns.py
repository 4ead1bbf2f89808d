"""Turns at a scarce resource, with a limit for each caller.

Requests of one caller are served in order. Callers take turns: after a turn, a caller goes to the
end of the line. A caller that has its share waits while others continue. Used on one event loop.
"""

import asyncio
from collections import OrderedDict, deque
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from tms.core.runtime.shares import Shares

Waiting = deque["asyncio.Future[None]"]


class Turns:
    """A number of concurrent turns."""

    def __init__(self, count: int) -> None:
        self._shares = Shares(count)
        self._waiting: OrderedDict[str | None, Waiting] = OrderedDict()
        """By caller; the last one to have a turn is last. It has only callers that wait."""

    @asynccontextmanager
    async def turn(self, sharer: str | None) -> AsyncIterator[None]:
        """Wait for a turn, and hold it inside. `sharer` is the principal to count, or None."""
        if sharer in self._waiting or not self._shares.room(sharer):
            await self._wait(sharer)
        else:
            self._shares.add(sharer)
        try:
            yield
        finally:
            self._give_back(sharer)

    async def _wait(self, sharer: str | None) -> None:
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.setdefault(sharer, deque()).append(turn)
        try:
            await turn
        except asyncio.CancelledError:
            if turn.cancelled():
                self._forget(sharer, turn)
            else:
                self._give_back(sharer)  # It had just been given a turn.
            raise

    def _forget(self, sharer: str | None, turn: "asyncio.Future[None]") -> None:
        waiting = self._waiting.get(sharer, deque())
        if turn in waiting:
            waiting.remove(turn)
            if not waiting:
                del self._waiting[sharer]

    def _give_back(self, sharer: str | None) -> None:
        self._shares.add(sharer, -1)
        for name in [*self._waiting]:
            while name in self._waiting and self._shares.room(name):
                turn = self._waiting[name][0]
                self._forget(name, turn)
                if name in self._waiting:
                    self._waiting.move_to_end(name)
                if not turn.done():
                    self._shares.add(name)
                    turn.set_result(None)
                    break
