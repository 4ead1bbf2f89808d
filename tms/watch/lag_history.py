"""How far readers were behind in the last hour, in memory: a point a minute, up to 1 MB."""

from array import array
from collections.abc import Sequence
from heapq import nlargest
from math import isnan, nan
from typing import NamedTuple

from tms.core.values.lags import ReaderLag

EVERY_S = 60
POINTS = 60
READERS_MAX = 1_000

ReaderName = tuple[str, str, str]
"""A namespace, a topic in it, and a reader of the topic."""


class LagPoints(NamedTuple):
    """The points of one reader, the oldest first; None if unknown."""

    times_ms: Sequence[int]
    messages: Sequence[float | None]
    seconds: Sequence[float | None]


class LagHistory:
    """The points of readers; if there are too many, of those furthest behind."""

    def __init__(self) -> None:
        self._times_ms: list[int] = []
        self._readers: dict[ReaderName, tuple[array[float], array[float]]] = {}
        self._count = 0

    def add(self, time_ms: int, lags: Sequence[ReaderLag]) -> None:
        """Add a point."""
        self._times_ms = [*self._times_ms[-(POINTS - 1) :], time_ms]
        at = self._count % POINTS
        self._count += 1
        kept: dict[ReaderName, tuple[array[float], array[float]]] = {}
        for lag in nlargest(READERS_MAX, lags, key=lambda each: each.seconds):
            name = (lag.namespace, lag.topic, lag.name)
            rings = self._readers.get(name) or (
                array("f", [nan]) * POINTS,
                array("f", [nan]) * POINTS,
            )
            rings[0][at], rings[1][at] = lag.messages, lag.seconds
            kept[name] = rings
        self._readers = kept

    def of(self, name: ReaderName) -> LagPoints | None:
        """Return the points of a reader; None if it has none."""
        rings = self._readers.get(name)
        if rings is None:
            return None
        order = [
            number % POINTS for number in range(self._count - len(self._times_ms), self._count)
        ]
        messages, seconds = ([_known(ring[at]) for at in order] for ring in rings)
        return LagPoints(self._times_ms, messages, seconds)


def _known(value: float) -> float | None:
    return None if isnan(value) else value
