"""Decides whether a server reaches the store, and may claim a lease or must give it up. Pure.

A server checks the store all the time, as often as the lease. A check answered in time shows that
the store was reached when the check was sent.

1. A free lease is claimed only by a server that reached the store within the time of a lease, or
   that is the only one.
2. A leader gives up its lease if none of its checks was answered for the time of a lease, another
   server reports that it reaches the store, and a check sent after that report failed too. So if
   the store is away for all, the leader stays, even if another server is the first to notice that
   the store is back.
3. A server that gave up a lease claims none for three times the time of a lease, unless it is the
   only one.

Only time without gaps between checks counts: a process that was paused knows nothing.
"""

import math
from dataclasses import dataclass

from tms.cluster.lease import GAP

GIVEN_UP_LEASES = 3
"""The number of leases for which a server claims none after it has given one up."""


@dataclass(slots=True)
class StoreReach:
    """A server's knowledge of its own way to the store, by its steady clock in seconds."""

    lease_s: float
    reached_s: float = -math.inf
    """When the latest answered check was sent."""
    unserved_from_s: float | None = None
    """When the first failed check since then was sent; None if the latest was answered."""
    failed_s: float = -math.inf
    """When the latest failed check was sent."""
    other_from_s: float | None = None
    """Since when another server is known to reach the store, while this one does not."""
    claims_from_s: float = -math.inf
    """When this server may claim a lease again."""
    _looked_s: float = -math.inf

    def answered(self, sent_s: float, now_s: float) -> None:
        """Record a check that was answered in time."""
        self.reached_s = max(self.reached_s, sent_s)
        self.unserved_from_s = self.other_from_s = None
        self._looked_s = now_s

    def failed(self, sent_s: float, now_s: float) -> None:
        """Record a check that was not."""
        gap_s = self.lease_s * GAP
        if now_s - sent_s > gap_s:  # this process was paused in the meantime
            sent_s, self.unserved_from_s = now_s, None
        if self.unserved_from_s is None or sent_s - self._looked_s > gap_s:
            self.unserved_from_s, self.other_from_s = sent_s, None
        self.failed_s, self._looked_s = sent_s, now_s

    @property
    def is_reached(self) -> bool:
        """Whether the latest check was answered."""
        return self.unserved_from_s is None and self.reached_s > -math.inf

    def may_claim(self, now_s: float) -> bool:
        """Whether a server that is not alone may claim a lease."""
        return now_s - self.reached_s <= self.lease_s and now_s >= self.claims_from_s

    def hear(self, now_s: float, *, does_another_reach: bool) -> bool:
        """Record the others' reports; return whether to give up the lease."""
        since_s = self.unserved_from_s
        if since_s is None or not does_another_reach:
            self.other_from_s = None
            return False
        if self.other_from_s is None:
            self.other_from_s = now_s
        return now_s - since_s >= self.lease_s and self.failed_s > self.other_from_s

    def give_up(self, now_s: float) -> None:
        """Record that the lease is left to the others."""
        self.claims_from_s = now_s + GIVEN_UP_LEASES * self.lease_s
        self.other_from_s = None
