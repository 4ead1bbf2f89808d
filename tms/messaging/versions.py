"""The versions that subscriptions begin with: none that one of the same name had before.

A first version is the time in microseconds, and each move adds one: so what a consumer knows of a
subscription that was deleted, or whose topic was, is behind that of one made again. A clock may be
set back. So a first version is above all that this process knows of, too, and above all that the
processes before gave: the store's mark says so (`tms.messaging.mark`).
"""

_US_PER_MS = 1_000


class Versions:
    """The versions of one store's subscriptions. Used from the event loop's thread alone."""

    def __init__(self, greatest: int = 0) -> None:
        """Begin above `greatest`."""
        self._greatest = greatest

    def first(self, now_ms: int) -> int:
        """Return the version of a subscription that is made at a time, in ms since 1970."""
        self._greatest = max(self._greatest + 1, now_ms * _US_PER_MS)
        return self._greatest

    def known(self, version: int) -> None:
        """Take note of a version that a subscription has or had."""
        self._greatest = max(self._greatest, version)
