"""Says whether a flush is written in the event loop's own thread, rather than in the write lane.

To the lane and back are two changes of threads: a fifth of the time of a publish that comes alone.
So where requests come one at a time and nothing else is asked for, the loop writes itself. What it
puts at stake is that all else waits where the disk is slow for once. So it does so only

1. where the loop is the server's: in an application's, with the embedded client, other work would
   wait at each publish; and on a store that is this process's own: one elsewhere may be gone, and
   then takes long to say so;
2. after some flushes in a row that had one request each, with none behind it, succeeded, and were
   quick;
3. while nobody polls: polls are what a slow write would hold up;
4. while the write lane has nothing to do, which was asked for before;
5. but for one of some: while the loop writes it does not see who else has come, as the next request
   shows that waits behind a flush of the lane.

Two requests at once, a poll, a failure or a slow write, and the lane has the flushes again.
"""

from tms.messaging.metrics import MessagingMetrics

_IN_A_ROW = 4
"""Few: also a good disk is slow once in a hundred times, and then as quick as before."""
_QUICK_S = 0.001
"""Where a disk takes longer, the changes of threads are a small part of it."""
_LANE_EVERY = 32
"""Of lone flushes: what the lane takes longer for one is then under a hundredth of all."""


class LoneFlushes:
    """Keeps count of the flushes of one request."""

    def __init__(self, metrics: MessagingMetrics, *, allowed: bool) -> None:
        """Go by the polls that `metrics` counts; say never where it is not `allowed` at all."""
        self._metrics = metrics
        self._wanted: float = _IN_A_ROW if allowed else float("inf")
        self._in_a_row = 0
        self._polls = 0
        """Parts of polls at the end of the last flush."""

    def has_come(self, requests: int) -> bool:
        """Return whether a flush of so many requests is one more of them."""
        return (
            requests == 1
            and self._in_a_row >= self._wanted
            and self._in_a_row % _LANE_EVERY != 0
            and self._polls == self._polled()
        )

    def ended(self, requests: int, waiting: int, seconds: float, *, failed: bool) -> None:
        """Note a flush: how many requests it had, how many wait behind it, and what it took."""
        polls = self._polled()
        is_lone = requests == 1 and not waiting and polls == self._polls
        self._in_a_row = self._in_a_row + 1 if is_lone and seconds <= _QUICK_S and not failed else 0
        self._polls = polls

    def _polled(self) -> int:
        return self._metrics.cache_hits + self._metrics.cache_misses
