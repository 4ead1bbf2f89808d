"""A clock that tests move: it pauses in between, so that their times are exact."""

import itertools

from tms.core.runtime.clock import Clock

_boots = itertools.count(1)


class ManualClock(Clock):
    """A clock that pauses until it is moved."""

    def __init__(self, now_ms: int) -> None:
        """Start at `now_ms`, milliseconds since the epoch, on a machine that has just started."""
        self._now_ms = now_ms
        self._steady_ms = 0
        self._boot = next(_boots)

    def now_ms(self) -> int:
        """Return the time last set."""
        return self._now_ms

    def steady_ms(self) -> int:
        """Return by how much time has passed, in milliseconds."""
        return self._steady_ms

    @property
    def boot_id(self) -> str:
        """Which start of which machine this is."""
        return str(self._boot)

    def set(self, now_ms: int) -> None:
        """Put the clock at `now_ms`, which may be in its past; forwards, time passes."""
        self._steady_ms += max(0, now_ms - self._now_ms)
        self._now_ms = now_ms

    def advance(self, by_ms: int) -> None:
        """Move the clock by `by_ms` milliseconds, backwards where negative."""
        self.set(self._now_ms + by_ms)

    def step(self, by_ms: int) -> None:
        """Set the wall alone, forward or back, while no time passes."""
        self._now_ms += by_ms

    def reboot(self) -> None:
        """Start the machine again: steady time begins again."""
        self._steady_ms = 0
        self._boot = next(_boots)
