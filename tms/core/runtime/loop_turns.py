"""Turns of the event loop for others during long work that never waits."""

import asyncio
from time import monotonic

_TURN_S = 0.01


class LoopTurns:
    """Measures how long one piece of work has had the event loop."""

    __slots__ = ("_ends",)

    def __init__(self) -> None:
        """Start with the turn that the work has now."""
        self._ends = monotonic() + _TURN_S

    async def give(self) -> None:
        """Give other tasks a turn if this one has taken 10 ms; otherwise return at once."""
        if monotonic() >= self._ends:
            await asyncio.sleep(0)
            self._ends = monotonic() + _TURN_S
