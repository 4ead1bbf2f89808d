"""Counts of values by size, in plain integers.

For hot paths of a single thread: there is nothing to lock, so an observation takes well under a
microsecond. The metrics endpoint converts it to its own form on request.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from itertools import accumulate


class Histogram:
    """How many values were at most each bound, and their sum."""

    __slots__ = ("_bounds", "counts", "total")

    def __init__(self, bounds: Sequence[float]) -> None:
        """Count by `bounds`, ascending; one more bucket takes larger values."""
        self._bounds = bounds
        self.counts = [0] * (len(bounds) + 1)
        self.total = 0.0
        """The sum of all values."""

    def observe(self, value: float) -> None:
        """Count a value."""
        self.counts[bisect_left(self._bounds, value)] += 1
        self.total += value

    def observe_often(self, value: float, times: int) -> None:
        """Count a value several times."""
        self.counts[bisect_left(self._bounds, value)] += times
        self.total += value * times

    def observe_all(self, values: Sequence[float]) -> None:
        """Count values, in steps for the buckets they are in rather than for each value."""
        ascending, start = sorted(values), 0
        while start < len(ascending):
            at = bisect_left(self._bounds, ascending[start])
            is_last = at == len(self._bounds)
            end = len(ascending) if is_last else bisect_right(ascending, self._bounds[at])
            self.counts[at] += end - start
            start = end
        self.total += sum(values)

    def add(self, other: "Histogram") -> None:
        """Count the values of another one with the same bounds too."""
        self.counts = [one + more for one, more in zip(self.counts, other.counts, strict=True)]
        self.total += other.total

    def buckets(self) -> list[tuple[str, float]]:
        """Return each bound, as text, with the number of values up to it: Prometheus's form."""
        bounds = [*(str(float(bound)) for bound in self._bounds), "+Inf"]
        return list(zip(bounds, map(float, accumulate(self.counts)), strict=True))
