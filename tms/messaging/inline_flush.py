"""Says whether the event loop writes a flush itself, instead of the write thread.

A flush in the write thread needs two changes of threads. That is a fifth of the time of a single
publish. So if requests come one at a time, the loop writes by itself. The risk is that everything
else waits if the disk is slow once. So the loop does it only

1. if the loop is the server's. In an application's loop other work would wait at each publish;
2. if the store is in this process. A remote store may be gone, and needs long to say so;
3. after several fast flushes in a row with one request each, and none waiting;
4. while nobody polls, because a slow write would delay polls;
5. while the write thread has nothing to do;
6. but not every 32nd time. Every 32nd flush goes to the write thread all the same, to find out
   whether other requests are waiting.

After two requests at once, a poll, a failure or a slow write the write thread has the flushes
again.
"""

from tms.messaging.metrics import MessagingMetrics

_IN_A_ROW = 4
"""Few: also a good disk is slow once in a hundred times, and then as quick as before."""
_QUICK_S = 0.001
"""Where a disk takes longer, the changes of threads are a small part of it."""
_THREAD_EVERY = 32
"""Each so many flushes the write thread has one; that costs less than a hundredth of the time."""


class InlineFlushPolicy:
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
            and self._in_a_row % _THREAD_EVERY != 0
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
