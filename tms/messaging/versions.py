"""The first versions of subscriptions: never one that an earlier one of the same name had.

A first version is the time in microseconds, and each move adds one. So if a subscription or its
topic is deleted and created again, versions that a consumer remembers are older than the new one. A
clock may be set back, so a first version is also above all versions that this process has seen, and
above all that earlier processes assigned, which the store's mark bounds (`tms.messaging.mark`).
"""

_US_PER_MS = 1_000


class Versions:
    """The versions of one store's subscriptions. Used from the event loop's thread alone."""

    def __init__(self, greatest: int = 0) -> None:
        """Begin above `greatest`."""
        self._greatest = greatest

    def first(self, now_ms: int) -> int:
        """Return the version of a subscription created at a time, in ms since 1970."""
        self._greatest = max(self._greatest + 1, now_ms * _US_PER_MS)
        return self._greatest

    def record(self, version: int) -> None:
        """Record a version that a subscription has or had."""
        self._greatest = max(self._greatest, version)
