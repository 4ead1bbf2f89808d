"""A clock that only tests move: otherwise it pauses, so that times are exact."""

import itertools

from tms.core.runtime.clock import Clock

_boots = itertools.count(1)


class ManualClock(Clock):
    """A clock that pauses until a test moves it."""

    def __init__(self, now_ms: int) -> None:
        """Start at `now_ms`, milliseconds since the epoch, on a machine that has just started."""
        self._now_ms = now_ms
        self._steady_ms = 0
        self._boot = next(_boots)

    def now_ms(self) -> int:
        """Return the time last set."""
        return self._now_ms

    def steady_ms(self) -> int:
        """Return how much time has passed, in milliseconds."""
        return self._steady_ms

    @property
    def boot_id(self) -> str:
        """Return the id of this boot of this machine."""
        return str(self._boot)

    def set(self, now_ms: int) -> None:
        """Set the clock to `now_ms`. Steady time passes too, unless this sets the clock back."""
        self._steady_ms += max(0, now_ms - self._now_ms)
        self._now_ms = now_ms

    def advance(self, by_ms: int) -> None:
        """Move the clock by `by_ms` milliseconds, backwards if it is negative."""
        self.set(self._now_ms + by_ms)

    def step(self, by_ms: int) -> None:
        """Change the wall time alone, forward or back; no steady time passes."""
        self._now_ms += by_ms

    def reboot(self) -> None:
        """Restart the machine: steady time begins again at 0."""
        self._steady_ms = 0
        self._boot = next(_boots)
