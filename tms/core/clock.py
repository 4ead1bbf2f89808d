"""Time, as an argument.

Every rule that depends on time asks a `Clock`, so that a test sets the time instead of waiting for
it. Milliseconds since 1970-01-01 UTC, as in message ids. A clock may go backwards: whoever needs
time to ascend (`tms.messaging.sequence`) sees to it himself.
"""

import time
from typing import Protocol


class Clock(Protocol):
    """Tells the time in milliseconds since the epoch."""

    def now_ms(self) -> int:
        """Return the current time, in milliseconds since 1970-01-01 UTC."""
        ...


class SystemClock:
    """The machine's wall clock."""

    def now_ms(self) -> int:
        """Return the machine's time, in milliseconds since 1970-01-01 UTC."""
        return time.time_ns() // 1_000_000


class ManualClock:
    """A clock that stands still until it is moved. For tests, ours and our users'."""

    def __init__(self, now_ms: int) -> None:
        """Start at `now_ms`, milliseconds since the epoch."""
        self._now_ms = now_ms

    def now_ms(self) -> int:
        """Return the time last set."""
        return self._now_ms

    def set(self, now_ms: int) -> None:
        """Put the clock at `now_ms`, which may be in its past."""
        self._now_ms = now_ms

    def advance(self, by_ms: int) -> None:
        """Move the clock by `by_ms` milliseconds, backwards where negative."""
        self._now_ms += by_ms
