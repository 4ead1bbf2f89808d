"""Clocks are arguments: the clocks of a process, and which of its times each rule uses.

No other code reads a clock. Times are in milliseconds since 1970-01-01 UTC, as in message ids. A
machine's wall clock may be set forward or back by days, so servers use a clock that does not
believe a step at once (`tms.core.runtime.trusted_clock`). While a step is in doubt there are two
candidates: the wall clock, and the time before the step plus what has passed since.

- `now_ms` is the trusted time. It follows the wall clock as long as that runs evenly.
- `keys_ms` is the later candidate, so a message lives for its whole ttl whichever is right.
- `expiry_ms` is the earlier candidate, so nothing expires because of a step.
- `steady_ms` measures how long something takes. It runs while the machine sleeps, so waking up is
  not a step. `SessionTime` starts with the time of its creation and continues by steady time.
- `deletion_ms` is `expiry_ms` for deletions: it is remembered, because the time may go back
  afterwards, and a cache must not show what was deleted.

Unless a step is in doubt, and always with a clock that is not trusted (`SystemClock`), all of these
except the steady times are the wall clock's. Any thread may call them.
"""

import time
from collections.abc import Callable
from functools import cache, partial
from pathlib import Path
from typing import Protocol

from tms.core.runtime.held_lease import HeldLease


class Clock(Protocol):
    """The time in milliseconds since the epoch, for each kind of rule."""

    def now_ms(self) -> int:
        """Return the current time, in milliseconds since 1970-01-01 UTC."""
        ...

    def steady_ms(self) -> int:
        """Return milliseconds since an arbitrary moment; setting the time does not affect them."""
        ...

    def standstill_ms(self) -> int:
        """Return the machine's steady time, by which a process finds that it was stopped.

        It is 0 for a clock that does not run by itself, because it says nothing about the process.
        """
        return 0

    def keys_ms(self) -> int:
        """Return the time for the keys of new messages and the ends of tokens."""
        return self.now_ms()

    def expiry_ms(self) -> int:
        """Return the time that decides what has expired."""
        return self.now_ms()

    def deletion_ms(self) -> int:
        """Return the time that decides what may be deleted because it has expired."""
        return self.expiry_ms()

    def candidates(self) -> tuple[int, int]:
        """Return the trusted time and the wall's, equal unless a step is in doubt."""
        now_ms = self.now_ms()
        return now_ms, now_ms

    deleted_ms: int = 0
    """The greatest `deletion_ms` that was returned; 0 if it is not remembered."""

    def readers(self) -> tuple[Callable[[], int], Callable[[], int]]:
        """Return the cheapest functions for the wall clock and steady time, in nanoseconds."""
        return lambda: self.now_ms() * 1_000_000, lambda: self.steady_ms() * 1_000_000

    @property
    def boot_id(self) -> str:
        """Identifies the boot since which steady time counts; empty if it is not known."""
        return ""


class SystemClock(Clock):
    """The machine's clocks. The time is the wall clock's, even after it was set."""

    def now_ms(self) -> int:
        """Return the machine's time, in milliseconds since 1970-01-01 UTC."""
        return time.time_ns() // 1_000_000

    def steady_ms(self) -> int:
        """Return milliseconds since the machine was booted, including time asleep."""
        return _steady_ns() // 1_000_000

    def standstill_ms(self) -> int:
        """Return steady time."""
        return self.steady_ms()

    def readers(self) -> tuple[Callable[[], int], Callable[[], int]]:
        """Return the system's own functions, unless a subclass replaces the methods."""
        kind = type(self)
        is_plain = (kind.now_ms, kind.steady_ms) == _SYSTEMS
        return (time.time_ns, _steady_ns) if is_plain else super().readers()

    @property
    def boot_id(self) -> str:
        """Identifies this boot of this machine; empty if the system does not say."""
        return _boot_id()


_SYSTEMS = SystemClock.now_ms, SystemClock.steady_ms
_steady_ns: Callable[[], int] = (
    partial(time.clock_gettime_ns, time.CLOCK_BOOTTIME)
    if hasattr(time, "CLOCK_BOOTTIME")
    else time.monotonic_ns
)


@cache
def _boot_id() -> str:
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text("ascii").strip()
    except OSError:
        return ""


class SessionTime:
    """The time of its creation, and steady from then on, even if the clock is set."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._offset_ms = clock.now_ms() - clock.steady_ms()

    def now_ms(self) -> int:
        """Return the time, in milliseconds since 1970."""
        return self._clock.steady_ms() + self._offset_ms


class KeyTime(Clock):
    """The time from which keys are made: a clock's, within what a lease allows."""

    def __init__(self, clock: Clock, lease: HeldLease) -> None:
        """Follow `clock`, above the ceiling of earlier leaders and not above our own."""
        self._clock = clock
        self._lease = lease

    def steady_ms(self) -> int:
        """Return the clock's steady time."""
        return self._clock.steady_ms()

    def now_ms(self) -> int:
        """Return the time, in milliseconds since 1970-01-01 UTC."""
        lease = self._lease
        return min(max(self._clock.keys_ms(), lease.keys_after_ms + 1), lease.keys_until_ms)
