"""Counts of values by size, in plain integers.

For hot paths of a single thread: there is nothing to lock, so an observation takes well under a
microsecond. The metrics endpoint converts it to its own form on request.
"""

from bisect import bisect_left
from collections.abc import Sequence
from itertools import accumulate


class Histogram:
    """How many values were at most each bound, and their sum."""

    __slots__ = ("_bounds", "_counts", "total")

    def __init__(self, bounds: Sequence[float]) -> None:
        """Count by `bounds`, ascending; one more bucket takes larger values."""
        self._bounds = bounds
        self._counts = [0] * (len(bounds) + 1)
        self.total = 0.0
        """The sum of all values."""

    def observe(self, value: float) -> None:
        """Count a value."""
        self._counts[bisect_left(self._bounds, value)] += 1
        self.total += value

    def buckets(self) -> list[tuple[str, float]]:
        """Return each bound, as text, with the number of values up to it: Prometheus's form."""
        bounds = [*(str(float(bound)) for bound in self._bounds), "+Inf"]
        return list(zip(bounds, map(float, accumulate(self._counts)), strict=True))
