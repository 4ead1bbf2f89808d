"""Time, as an argument: the clocks of a process, and what each rule may ask.

Nobody else reads a clock. Milliseconds since 1970-01-01 UTC, as in message ids. A machine's wall
clock may be set forward and back, by days. So servers have one that does not believe a step at once
(`tms.core.runtime.trusted_clock`). While a step is in doubt there are two candidates: the wall, and
the time before with what has passed since.

- `now_ms` is the trusted time. It follows the wall as long as that goes evenly.
- `keys_ms` is the later of both: what is published lives for its whole ttl, whoever is right.
- `expiry_ms` is the earlier of both: nothing expires by a step.
- `steady_ms` measures how long something takes. It goes on while the machine sleeps, so waking up
  is not a step. `SessionTime` is the time when it was made, and steady from there.
- `deletion_ms` is as `expiry_ms`, for whoever deletes: it is remembered, because the time may go
  back after that, and what was deleted must not be shown from a cache.

Without a doubt, and always with a clock that is not trusted (`SystemClock`), all of
these but the steady ones are the wall's time. Any thread may ask.
"""

import time
from collections.abc import Callable
from functools import cache, partial
from pathlib import Path
from typing import Protocol

from tms.core.runtime.held_lease import HeldLease


class Clock(Protocol):
    """Tells the time in milliseconds since the epoch, for each kind of rule."""

    def now_ms(self) -> int:
        """Return the current time, in milliseconds since 1970-01-01 UTC."""
        ...

    def steady_ms(self) -> int:
        """Return milliseconds since some moment before; they go on whatever the time is set to."""
        ...

    def standstill_ms(self) -> int:
        """Return steady time of the machine, by which a process finds that it stood still.

        It is 0 for a clock that does not go by itself, because that tells nothing of the process.
        """
        return 0

    def keys_ms(self) -> int:
        """Return the time that new messages and tokens' ends are of."""
        return self.now_ms()

    def expiry_ms(self) -> int:
        """Return the time by which things have grown old."""
        return self.now_ms()

    def deletion_ms(self) -> int:
        """Return the time by which things that have grown old may be deleted."""
        return self.expiry_ms()

    def candidates(self) -> tuple[int, int]:
        """Return the trusted time and the wall's, which are the same without a doubt."""
        now_ms = self.now_ms()
        return now_ms, now_ms

    deleted_ms: int = 0
    """The greatest `deletion_ms` that anybody was told; 0 if it is not remembered."""

    def readers(self) -> tuple[Callable[[], int], Callable[[], int]]:
        """Return what reads the wall and steady time, in nanoseconds, at the least cost."""
        return lambda: self.now_ms() * 1_000_000, lambda: self.steady_ms() * 1_000_000

    @property
    def boot_id(self) -> str:
        """Since which boot of which machine steady time counts; empty if that is not known."""
        return ""


class SystemClock(Clock):
    """The machine's clocks. The time is the wall's, whatever that was set to."""

    def now_ms(self) -> int:
        """Return the machine's time, in milliseconds since 1970-01-01 UTC."""
        return time.time_ns() // 1_000_000

    def steady_ms(self) -> int:
        """Return milliseconds since the machine was started, its sleep included."""
        return _steady_ns() // 1_000_000

    def standstill_ms(self) -> int:
        """Return steady time."""
        return self.steady_ms()

    def readers(self) -> tuple[Callable[[], int], Callable[[], int]]:
        """Return the system's own functions, unless others stand in for the methods."""
        kind = type(self)
        is_plain = (kind.now_ms, kind.steady_ms) == _SYSTEMS
        return (time.time_ns, _steady_ns) if is_plain else super().readers()

    @property
    def boot_id(self) -> str:
        """Which boot of which machine this is; empty if the system does not say."""
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
    """The time when it was made, and what has passed since, whatever the clock is set to."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._offset_ms = clock.now_ms() - clock.steady_ms()

    def now_ms(self) -> int:
        """Return the time, in milliseconds since 1970."""
        return self._clock.steady_ms() + self._offset_ms


class KeyTime(Clock):
    """The time that keys are given by: a clock's, within what a lease allows."""

    def __init__(self, clock: Clock, lease: HeldLease) -> None:
        """Follow `clock` above the ceiling of the leaders before, and not above our own."""
        self._clock = clock
        self._lease = lease

    def steady_ms(self) -> int:
        """Return the clock's steady time."""
        return self._clock.steady_ms()

    def now_ms(self) -> int:
        """Return the time, in milliseconds since 1970-01-01 UTC."""
        lease = self._lease
        return min(max(self._clock.keys_ms(), lease.keys_after_ms + 1), lease.keys_until_ms)
