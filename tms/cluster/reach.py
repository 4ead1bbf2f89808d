"""Whether a server reaches the store, and which lease it may claim, or must give up. Pure.

A server looks at the store all along, as often as at the lease. A look that was answered in time
says that the store was reached when the look was sent.

1. A lease that is free is claimed only by a server that reached the store within the time of a
   lease, or that is alone: it has nobody to leave the lease to.
2. A leader gives its lease up if no look of its own was answered for the time of a lease, another
   server tells that it reaches the store, and a look that was sent after that was heard failed too.
   So if the store is away for all, the leader stays, also when the others notice first that the
   store is back.
3. A server that gave a lease up claims none for three times that time, unless it is alone.

Only time counts in which looks were made all along: a process that was paused knows nothing.
"""

import math
from dataclasses import dataclass

from tms.cluster.lease import GAP

GIVEN_UP_LEASES = 3
"""For how many leases a server claims none after it has given one up."""


@dataclass(slots=True)
class StoreReach:
    """A server's knowledge of its own way to the store, by its steady clock in seconds."""

    lease_s: float
    reached_s: float = -math.inf
    """When the latest look was sent that was answered."""
    unserved_from_s: float | None = None
    """When the first look was sent of those that have failed since; None: the latest did not."""
    failed_s: float = -math.inf
    """When the latest look was sent that failed."""
    other_from_s: float | None = None
    """Since when another server is known to reach the store, while this one does not."""
    claims_from_s: float = -math.inf
    """When this server may claim a lease again."""
    _looked_s: float = -math.inf

    def answered(self, sent_s: float, now_s: float) -> None:
        """Take note of a look that was answered in time."""
        self.reached_s = max(self.reached_s, sent_s)
        self.unserved_from_s = self.other_from_s = None
        self._looked_s = now_s

    def failed(self, sent_s: float, now_s: float) -> None:
        """Take note of a look that was not."""
        gap_s = self.lease_s * GAP
        if now_s - sent_s > gap_s:  # this process was paused meanwhile
            sent_s, self.unserved_from_s = now_s, None
        if self.unserved_from_s is None or sent_s - self._looked_s > gap_s:
            self.unserved_from_s, self.other_from_s = sent_s, None
        self.failed_s, self._looked_s = sent_s, now_s

    @property
    def is_reached(self) -> bool:
        """Whether the latest look was answered."""
        return self.unserved_from_s is None and self.reached_s > -math.inf

    def may_claim(self, now_s: float) -> bool:
        """Whether a server that is not alone may claim a lease."""
        return now_s - self.reached_s <= self.lease_s and now_s >= self.claims_from_s

    def hear(self, now_s: float, *, does_another_reach: bool) -> bool:
        """Take note of what the others tell; return whether the lease is to be given up."""
        since_s = self.unserved_from_s
        if since_s is None or not does_another_reach:
            self.other_from_s = None
            return False
        if self.other_from_s is None:
            self.other_from_s = now_s
        return now_s - since_s >= self.lease_s and self.failed_s > self.other_from_s

    def give_up(self, now_s: float) -> None:
        """Take note that the lease is left to the others."""
        self.claims_from_s = now_s + GIVEN_UP_LEASES * self.lease_s
        self.other_from_s = None
