"""Counts of what members do with the messages of groups, for Prometheus and the group itself.

Plain numbers, one group's at hand where its commands are. At most `series_max` groups, those used
first, keep theirs while they leave memory and come back, and have series of their own. The rest is
counted together, as in `tms.messaging.traffic`.

Used from the event loop's thread alone.
"""

from bisect import bisect_left
from collections.abc import Collection, Iterator, Sequence

from prometheus_client.metrics_core import (
    CounterMetricFamily,
    HistogramMetricFamily,
    Metric,
)

from tms.core.limits import MS_PER_S
from tms.core.values.group_counts import COUNTED, GroupCounts
from tms.core.values.histogram import Histogram
from tms.core.values.message import first_id_at, published_ms
from tms.core.values.topic import TopicId
from tms.messaging.traffic import OTHER

_SECONDS = (0.01, 0.03, 0.1, 0.3, 1.0, 3.0, 10.0, 30.0, 100.0, 300.0, 1_000.0, 10_000.0, 100_000.0)
_LABELS = ("namespace", "topic", "group")
_Name = tuple[TopicId, str]


class Tally:
    """The numbers of one group."""

    __slots__ = (*COUNTED, "ack_seconds")

    def __init__(self) -> None:
        self.taken = self.retried = self.acked = self.failed = self.dead = 0
        self.gone = self.skipped = self.refused = self.limited = 0
        self.ack_seconds = Histogram(_SECONDS)
        """The times from publish to ack."""

    def ack(self, ids: Sequence[bytes], now_ms: int) -> None:
        """Count acknowledged messages, whose ids ascend.

        Their times are found by bisection, so that a large ack costs little more than a small one.
        The sum takes the mean of the first and the last in each bucket.
        """
        self.acked += len(ids)
        end = len(ids)
        while end:
            age_ms: float = max(0, now_ms - published_ms(ids[end - 1]))
            first = 0
            if end > 1:
                at = bisect_left(_SECONDS, age_ms / MS_PER_S)
                if at < len(_SECONDS):
                    oldest_ms = max(0, now_ms - int(_SECONDS[at] * MS_PER_S))
                    first = min(bisect_left(ids, first_id_at(oldest_ms), 0, end), end - 1)
                age_ms = (age_ms + max(0, now_ms - published_ms(ids[first]))) / 2
            self.ack_seconds.observe(age_ms / MS_PER_S, end - first)
            end = first

    def add(self, other: "Tally") -> None:
        """Add the numbers of another."""
        for name in COUNTED:
            setattr(self, name, getattr(self, name) + getattr(other, name))
        self.ack_seconds.add(other.ack_seconds)

    def shown(self) -> GroupCounts:
        """Return the numbers as they are now."""
        return GroupCounts(*(getattr(self, name) for name in COUNTED))


class CountsByGroup:
    """The numbers of all groups of one store."""

    def __init__(self, series_max: int) -> None:
        """Give at most `series_max` groups numbers of their own."""
        self._series_max = series_max
        self._groups: dict[_Name, tuple[int, Tally]] = {}
        """With the version by which a group of the name was created."""
        self._in_memory: set[Tally] = set()
        """Those of the rest whose groups are in memory."""
        self._rest = Tally()

    def begin(self, topic_id: TopicId, name: str, created: int) -> Tally:
        """Return what a group that comes into memory adds to."""
        known = self._groups.get((topic_id, name))
        if known is not None and known[0] == created:
            return known[1]
        counts = Tally()
        if known is not None or len(self._groups) < self._series_max:
            self._groups[topic_id, name] = created, counts
        else:
            self._in_memory.add(counts)
        return counts

    def end(self, counts: Tally) -> None:
        """Keep what a group has counted that leaves memory."""
        if counts in self._in_memory:
            self._in_memory.remove(counts)
            self._rest.add(counts)

    def forget(self, topic_id: TopicId, name: str) -> None:
        """Forget a group that is deleted."""
        self._groups.pop((topic_id, name), None)

    def keep(self, names: Collection[_Name]) -> None:
        """Forget the groups that are not among `names`: they are deleted."""
        for name in self._groups.keys() - names:
            del self._groups[name]

    def collect(self) -> Iterator[Metric]:
        """Give the numbers as they are now."""
        rest = Tally()
        for each in (self._rest, *self._in_memory):
            rest.add(each)
        series = [((t.namespace, t.name, name), e) for (t, name), (_, e) in self._groups.items()]
        series.append(((OTHER, OTHER, OTHER), rest))
        for number, help_text in COUNTED.items():
            family = CounterMetricFamily(f"tms_group_{number}", help_text, labels=_LABELS)
            for values, counts in series:
                family.add_metric(values, getattr(counts, number))
            yield family
        seconds = HistogramMetricFamily(
            "tms_group_ack_seconds",
            "Seconds from the publication of a message to its ack in this group.",
            labels=_LABELS,
        )
        for values, counts in series:
            seconds.add_metric(values, counts.ack_seconds.buckets(), counts.ack_seconds.total)
        yield seconds
