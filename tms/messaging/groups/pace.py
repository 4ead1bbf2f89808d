"""Limits how many messages the takes of a group get per second. A restart resets it.

Used from the event loop's thread alone; times are steady.
"""

from typing import Final

from tms.core.runtime.rates import Rate

_PARTS_PER_S: Final = 20


class Pace:
    """Counts the messages of one group's takes against the rate of its settings."""

    def __init__(self) -> None:
        self._rate = Rate(1)
        self.allowed_ms = 0
        """When the rate allows messages that it refused to a take; 0 if it refused none."""

    def allow(self, per_s: int, limit: int, now_ms: int) -> int:
        """Return how many of `limit` messages the rate allows, and count them as taken.

        Return 0 rather than less than a twentieth of a second allows; otherwise waiting takes would
        be answered one message at a time.
        """
        rate = self._rate_of(per_s)
        minimum = min(limit, max(1, per_s // _PARTS_PER_S))
        allowed = min(limit, rate.available(now_ms))
        if allowed < minimum:
            self.allowed_ms = now_ms + max(1, rate.wait_ms(minimum, now_ms))
            return 0
        rate.take(allowed, now_ms)
        return allowed

    def take_less(self, count: int, now_ms: int) -> None:
        """Return messages to the rate that were allowed but not taken."""
        if count:
            self._rate.give_back(count, now_ms)

    def is_used_up(self, per_s: int, now_ms: int) -> bool:
        """Whether the rate allows nothing now; a rate of 0 allows everything."""
        return per_s > 0 and not self._rate_of(per_s).available(now_ms)

    def next_ms(self, other_ms: int | None) -> int | None:
        """Return the earlier of `other_ms` and the time when the rate allows what it refused."""
        if not self.allowed_ms:
            return other_ms
        return self.allowed_ms if other_ms is None else min(other_ms, self.allowed_ms)

    def pass_to(self, now_ms: int) -> None:
        """Clear `allowed_ms` once that time has passed."""
        if self.allowed_ms <= now_ms:
            self.allowed_ms = 0

    def _rate_of(self, per_s: int) -> Rate:
        """Return the rate; a new one starts with its full amount."""
        if self._rate.per_period != per_s:
            self._rate = Rate(per_s)
        return self._rate
