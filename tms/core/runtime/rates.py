"""A rate that holds on average, as a token bucket.

Each use adds to a debt that shrinks at the rate; the debt may be at most one period's amount. A
single larger use is allowed if there is no debt; the next one must wait longer then. So in any time
no more is used than the rate and one period's amount, or the rate and one such use. Nothing is
rounded: it counts in parts of which a whole number is paid off each millisecond.
"""

from tms.core.limits import MS_PER_S


class Rate:
    """One rate, and what was taken under it and is unpaid. It is used from one thread."""

    __slots__ = ("_at_ms", "_period_ms", "_unpaid", "per_period")

    def __init__(self, per_period: int, period_ms: int = MS_PER_S) -> None:
        """Allow `per_period`, 1 or more, in each period of `period_ms` milliseconds."""
        self.per_period = per_period
        self._period_ms = period_ms
        self._unpaid = 0
        self._at_ms = 0
        """When that was so, in steady time."""

    def _unpaid_at(self, now_ms: int) -> int:
        return max(0, self._unpaid - (now_ms - self._at_ms) * self.per_period)

    def wait_ms(self, amount: int, now_ms: int) -> int:
        """Return after how long so much may be taken; zero or less: now. `now_ms` is steady."""
        may_be_unpaid = max(0, self._period_ms * (self.per_period - amount))
        return -((may_be_unpaid - self._unpaid_at(now_ms)) // self.per_period)

    def take(self, amount: int, now_ms: int) -> None:
        """Take, whether there is so much or not."""
        self._unpaid = self._unpaid_at(now_ms) + amount * self._period_ms
        self._at_ms = now_ms

    def give_back(self, amount: int, now_ms: int) -> None:
        """Undo a taking of so much."""
        self._unpaid = max(0, self._unpaid_at(now_ms) - amount * self._period_ms)
        self._at_ms = now_ms

    def is_paid(self, now_ms: int) -> bool:
        """Whether nothing is unpaid, so that it is as a new one."""
        return not self._unpaid_at(now_ms)


def in_seconds(wait_ms: int) -> int:
    """Return a wait in whole seconds, rounded up, for Retry-After."""
    return -(-wait_ms // MS_PER_S)
