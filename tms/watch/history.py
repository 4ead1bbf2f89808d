"""The figures of a server's last hour, in memory: a point every ten seconds.

It has totals, and the rates of the `TOPICS_MAX` recently busiest topics; about 3 MB.
"""

from array import array
from collections.abc import Mapping, Sequence
from heapq import nlargest
from math import isnan, nan
from typing import NamedTuple

STEP_S = 10
POINTS = 360
TOPICS_MAX = 200
_FADING = 0.98
"""The weight of a topic's earlier traffic after a step, when the busiest are chosen."""
_MS_PER_S = 1000


class TopicTraffic(NamedTuple):
    """The messages and bytes of a topic: totals since the server began, or rates per second."""

    messages_in: float = 0.0
    bytes_in: float = 0.0
    messages_out: float = 0.0
    bytes_out: float = 0.0

    @property
    def messages(self) -> float:
        """In both directions."""
        return self.messages_in + self.messages_out


TopicName = tuple[str, str]
"""A namespace, and a topic's name in it."""


class _Ring:
    """The last values of one figure."""

    __slots__ = ("values",)

    def __init__(self, typecode: str) -> None:
        self.values = array(typecode, [nan]) * POINTS


class _Topic:
    """The rates of one topic."""

    __slots__ = ("activity", "rings")

    def __init__(self) -> None:
        self.activity = 0.0
        self.rings = [_Ring("f") for _ in TopicTraffic._fields]


class History:
    """The points of the last hour."""

    def __init__(self) -> None:
        self._times = _Ring("d")
        self._sums: dict[str, _Ring] = {}
        self._topics: dict[TopicName, _Topic] = {}
        self._last: Mapping[TopicName, TopicTraffic] = {}
        self._count = 0

    def add(
        self, time_ms: int, sums: Mapping[str, float], topics: Mapping[TopicName, TopicTraffic]
    ) -> None:
        """Add a point: figures by name, and topics' traffic since the server began."""
        at = self._count % POINTS
        before_ms = self._times.values[at - 1]
        step_s = max(0.001, (time_ms - before_ms) / _MS_PER_S) if self._count else None
        self._times.values[at] = time_ms
        for name in sums.keys() - self._sums.keys():
            self._sums[name] = _Ring("d")
        for name, ring in self._sums.items():
            ring.values[at] = sums.get(name, nan)
        for topic in self._topics.values():
            topic.activity *= _FADING
            for ring in topic.rings:
                ring.values[at] = nan
        if step_s is not None:
            self._add_topics(at, step_s, topics)
        self._last = topics
        self._count += 1

    def _add_topics(self, at: int, step_s: float, topics: Mapping[TopicName, TopicTraffic]) -> None:
        for name in self._topics.keys() - topics.keys():
            del self._topics[name]  # The topic was deleted.
        rates = {
            name: TopicTraffic(
                *(max(0.0, new - old) / step_s for new, old in zip(now, before, strict=True))
            )
            for name, now in topics.items()
            if now != (before := self._last.get(name, _NO_TRAFFIC)) or name in self._topics
        }
        for name, kept in self._topics.items():
            kept.activity += rates[name].messages
        self._take_in({name: rate.messages for name, rate in rates.items()})
        for name, kept in self._topics.items():
            for ring, rate in zip(kept.rings, rates[name], strict=True):
                ring.values[at] = rate

    def _take_in(self, activities: Mapping[TopicName, float]) -> None:
        """Keep the busiest topics from now on, in place of quieter ones."""
        new = [each for each in activities if each not in self._topics]
        for name in nlargest(TOPICS_MAX, new, key=activities.__getitem__):
            if len(self._topics) >= TOPICS_MAX:
                least = min(self._topics, key=lambda each: self._topics[each].activity)
                if self._topics[least].activity >= activities[name]:
                    return
                del self._topics[least]
            kept = self._topics[name] = _Topic()
            kept.activity = activities[name]

    def _order(self) -> list[int]:
        """Return the indexes of the points, the oldest first."""
        if self._count <= POINTS:
            return list(range(self._count))
        first = self._count % POINTS
        return [*range(first, POINTS), *range(first)]

    def times_ms(self) -> list[int]:
        """Return the times of the points."""
        return [int(self._times.values[at]) for at in self._order()]

    def values(self, name: str) -> list[float | None]:
        """Return a figure at each point; None if unknown."""
        ring = self._sums.get(name)
        return [None if ring is None else _known(ring.values[at]) for at in self._order()]

    def rates(self, name: str) -> list[float | None]:
        """Return a figure's growth per second before each point; a restart counts from 0."""
        values, times = self.values(name), self.times_ms()
        values_per_s: list[float | None] = [None] if values else []
        for index in range(1, len(values)):
            old, new = values[index - 1], values[index]
            span_s = max(1, times[index] - times[index - 1]) / _MS_PER_S
            values_per_s.append(
                None if old is None or new is None else max(0.0, new - old) / span_s
            )
        return values_per_s

    def topic(self, name: TopicName) -> Mapping[str, Sequence[float | None]] | None:
        """Return a topic's rates at each point, by fields of `TopicTraffic`; None if not kept."""
        kept = self._topics.get(name)
        if kept is None:
            return None
        order = self._order()
        return {
            field: [_known(ring.values[at]) for at in order]
            for field, ring in zip(TopicTraffic._fields, kept.rings, strict=True)
        }

    def latest(self, namespace: str) -> dict[str, TopicTraffic]:
        """Return the latest rates of a namespace's topics that are kept."""
        at = (self._count - 1) % POINTS
        return {
            name: TopicTraffic(*(_known(ring.values[at]) or 0.0 for ring in kept.rings))
            for (of, name), kept in self._topics.items()
            if of == namespace
        }

    def busiest(self, count: int) -> list[TopicName]:
        """Return the recently busiest topics."""
        return sorted(self._topics, key=lambda each: -self._topics[each].activity)[:count]

    def before(self, seconds: float, now_ms: int, name: str) -> tuple[float, float] | None:
        """Return a figure's value about that long ago, and how long ago exactly; None if unknown.

        The oldest point counts if none is that old.
        """
        ring = self._sums.get(name)
        if ring is None:
            return None
        earlier = None
        for at in self._order():
            age_s = (now_ms - self._times.values[at]) / _MS_PER_S
            if earlier is not None and age_s < seconds:
                break
            if not isnan(ring.values[at]):
                earlier = ring.values[at], age_s
        return earlier


_NO_TRAFFIC = TopicTraffic()


def _known(value: float) -> float | None:
    return None if isnan(value) else value
