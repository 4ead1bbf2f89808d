"""Detects that this process stood still: it was stopped, its machine slept, its loop was blocked.

Requests that arrived in the meantime wait unread in its sockets. So code that measures how long
others were silent must start to measure again. Used from the event loop's thread alone.
"""

import asyncio
from typing import Final

from tms.core.runtime.clock import Clock

STOOD_STILL_MS: Final = 1_000
"""A pause of this length counts as a standstill."""
_BEAT_S: Final = 0.25


class Heartbeat:
    """A timer that beats regularly; a late beat reveals a standstill."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._loop = asyncio.get_running_loop()
        self._timer: asyncio.TimerHandle | None = None
        self._last_ms = 0
        self._stood_still = False

    def start(self) -> None:
        """Start to beat, unless it does already."""
        if self._timer is None:
            self._last_ms = self._clock.standstill_ms()
            self._timer = self._loop.call_later(_BEAT_S, self._beat)

    def stop(self) -> None:
        """Stop beating."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def stood_still(self) -> bool:
        """Return whether the process stood still since the last call."""
        self._look()
        result, self._stood_still = self._stood_still, False
        return result

    def _look(self) -> None:
        now_ms = self._clock.standstill_ms()
        if self._timer is not None and now_ms - self._last_ms > STOOD_STILL_MS:
            self._stood_still = True
        self._last_ms = now_ms

    def _beat(self) -> None:
        self._look()
        self._timer = self._loop.call_later(_BEAT_S, self._beat)
