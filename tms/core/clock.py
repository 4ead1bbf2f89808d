"""Time, as an argument.

Every rule that depends on time asks a `Clock`, so that a test sets the time instead of waiting for
it. Milliseconds since 1970-01-01 UTC, as in message ids. A clock may go backwards: whoever needs
time to ascend (`tms.messaging.sequence`) sees to it himself, and whoever measures how long
something takes (`tms.transactions.service`) asks for the steady time, which does not.
"""

import time
from typing import Protocol

from tms.core.cluster import HeldLease


class Clock(Protocol):
    """Tells the time in milliseconds since the epoch."""

    def now_ms(self) -> int:
        """Return the current time, in milliseconds since 1970-01-01 UTC."""
        ...

    def steady_ms(self) -> int:
        """Return milliseconds since some moment before; they go on whatever the time is set to."""
        ...


class SystemClock:
    """The machine's wall clock."""

    def now_ms(self) -> int:
        """Return the machine's time, in milliseconds since 1970-01-01 UTC."""
        return time.time_ns() // 1_000_000

    def steady_ms(self) -> int:
        """Return milliseconds of the machine's monotonic clock."""
        return time.monotonic_ns() // 1_000_000


class KeyTime:
    """The time that keys are given by: a clock's, within what a lease allows."""

    def __init__(self, clock: Clock, lease: HeldLease) -> None:
        """Follow `clock` above the ceiling of the leaders before, and not above our own."""
        self._clock = clock
        self._lease = lease

    def now_ms(self) -> int:
        """Return the time, in milliseconds since 1970-01-01 UTC."""
        lease = self._lease
        return min(max(self._clock.now_ms(), lease.keys_after_ms + 1), lease.keys_until_ms)

    def steady_ms(self) -> int:
        """Return the clock's steady time."""
        return self._clock.steady_ms()


class ManualClock:
    """A clock that stands still until it is moved. For tests, ours and our users'."""

    def __init__(self, now_ms: int) -> None:
        """Start at `now_ms`, milliseconds since the epoch."""
        self._now_ms = now_ms
        self._steady_ms = 0

    def now_ms(self) -> int:
        """Return the time last set."""
        return self._now_ms

    def steady_ms(self) -> int:
        """Return by how much it was moved forwards, in milliseconds."""
        return self._steady_ms

    def set(self, now_ms: int) -> None:
        """Put the clock at `now_ms`, which may be in its past."""
        self._steady_ms += max(0, now_ms - self._now_ms)
        self._now_ms = now_ms

    def advance(self, by_ms: int) -> None:
        """Move the clock by `by_ms` milliseconds, backwards where negative."""
        self.set(self._now_ms + by_ms)
