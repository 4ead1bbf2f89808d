"""A rate that holds on average, as a token bucket.

Each use adds to a debt that shrinks at the rate; the debt may be at most one period's amount. A
single larger use is allowed if there is no debt; the next one then waits longer. So the use in any
time is at most what the rate allows, plus one period's amount or one such larger use. Nothing is
rounded: the unit is chosen so that each millisecond pays off a whole number of units.
"""

from tms.core.limits import MS_PER_S


class Rate:
    """One rate and its unpaid debt. It is used from one thread."""

    __slots__ = ("_at_ms", "_period_ms", "_unpaid", "per_period")

    def __init__(self, per_period: int, period_ms: int = MS_PER_S) -> None:
        """Allow `per_period`, 1 or more, in each period of `period_ms` milliseconds."""
        self.per_period = per_period
        self._period_ms = period_ms
        self._unpaid = 0
        self._at_ms = 0
        """The steady time at which `_unpaid` was right."""

    def _unpaid_at(self, now_ms: int) -> int:
        return max(0, self._unpaid - (now_ms - self._at_ms) * self.per_period)

    def wait_ms(self, amount: int, now_ms: int) -> int:
        """Return the ms until `amount` may be taken; 0 or less means now. `now_ms` is steady."""
        may_be_unpaid = max(0, self._period_ms * (self.per_period - amount))
        return -((may_be_unpaid - self._unpaid_at(now_ms)) // self.per_period)

    def available(self, now_ms: int) -> int:
        """Return how much may be taken now."""
        may_be_unpaid = self._period_ms * self.per_period - self._unpaid_at(now_ms)
        return max(0, may_be_unpaid // self._period_ms)

    def take(self, amount: int, now_ms: int) -> None:
        """Take `amount`, even if it exceeds the rate."""
        self._unpaid = self._unpaid_at(now_ms) + amount * self._period_ms
        self._at_ms = now_ms

    def give_back(self, amount: int, now_ms: int) -> None:
        """Return an amount that was taken."""
        self._unpaid = max(0, self._unpaid_at(now_ms) - amount * self._period_ms)
        self._at_ms = now_ms

    def is_paid(self, now_ms: int) -> bool:
        """Whether there is no debt, as with a new rate."""
        return not self._unpaid_at(now_ms)


def in_seconds(wait_ms: int) -> int:
    """Return a wait in whole seconds, rounded up, for Retry-After."""
    return -(-wait_ms // MS_PER_S)
