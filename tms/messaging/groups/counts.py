"""Counts of what members do with the messages of groups, for Prometheus and the group itself.

At most `series_max` groups, those used first, have series of their own, and keep their counts while
they are not in memory. All others are counted together, as in `tms.messaging.traffic`.

Used from the event loop's thread alone.
"""

from bisect import bisect_left
from collections.abc import Collection, Iterator, Sequence
from itertools import repeat
from operator import sub, truediv
from struct import unpack

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
_TOGETHER = 64
_MS_OF_ID = "q12x"
"""The time in a message id, for `struct`."""
_LABELS = ("namespace", "topic", "group")
_Name = tuple[TopicId, str]


class Tally:
    """The counts of one group."""

    __slots__ = (*COUNTED, "_single", "ack_seconds")

    def __init__(self) -> None:
        self.taken = self.retried = self.acked = self.failed = self.dead = 0
        self.gone = self.skipped = self.refused = self.limited = 0
        self.ack_seconds = Histogram(_SECONDS)
        """The seconds from publish to ack."""
        self._single: list[tuple[int, bytes]] = []
        """Acks of one message that are not counted yet: when, and the message's id."""

    def ack(self, ids: Sequence[bytes], now_ms: int) -> None:
        """Count acknowledged messages, whose ids ascend.

        Their times are found by bisection, so that a large ack costs little more than a small one.
        The sum takes the mean of the first and the last in each bucket.
        """
        if len(ids) == 1:  # the most frequent ack
            self._single.append((now_ms, ids[0]))
            if len(self._single) == _TOGETHER:
                self.count_all()
            return
        end = len(ids)
        self.acked += end
        while end:
            age_ms: float = max(0, now_ms - published_ms(ids[end - 1]))
            first = 0
            at = bisect_left(_SECONDS, age_ms / MS_PER_S)
            if at < len(_SECONDS):
                oldest_ms = max(0, now_ms - int(_SECONDS[at] * MS_PER_S))
                first = min(bisect_left(ids, first_id_at(oldest_ms), 0, end), end - 1)
            age_ms = (age_ms + max(0, now_ms - published_ms(ids[first]))) / 2
            self.ack_seconds.observe_often(age_ms / MS_PER_S, end - first)
            end = first

    def count_all(self) -> None:
        """Count the acks of one message that are not counted yet, by few calls for all of them."""
        if not self._single:
            return
        acked_ms, ids = zip(*self._single, strict=True)
        self._single.clear()
        self.acked += len(ids)
        ages_ms = map(sub, acked_ms, unpack(f">{_MS_OF_ID * len(ids)}", b"".join(ids)))
        ages_s = map(truediv, map(max, ages_ms, repeat(0)), repeat(MS_PER_S))
        self.ack_seconds.observe_all(list(ages_s))

    def add(self, other: "Tally") -> None:
        """Add another group's counts."""
        other.count_all()
        for name in COUNTED:
            setattr(self, name, getattr(self, name) + getattr(other, name))
        self.ack_seconds.add(other.ack_seconds)

    def shown(self) -> GroupCounts:
        """Return the present counts."""
        self.count_all()
        return GroupCounts(*(getattr(self, name) for name in COUNTED))


class CountsByGroup:
    """The counts of all groups of one store."""

    def __init__(self, series_max: int) -> None:
        """Keep counts of their own for at most `series_max` groups."""
        self._series_max = series_max
        self._groups: dict[_Name, tuple[int, Tally]] = {}
        """The counts of each group, with the version that created it."""
        self._in_memory: set[Tally] = set()
        """The counts of other groups that are in memory."""
        self._rest = Tally()
        """The counts of other groups that have left memory."""

    def begin(self, topic_id: TopicId, name: str, created: int) -> Tally:
        """Return the counts of a group that is being loaded; the group adds to them."""
        kept = self._groups.get((topic_id, name))
        if kept is not None and kept[0] == created:
            return kept[1]
        counts = Tally()
        if kept is not None or len(self._groups) < self._series_max:
            self._groups[topic_id, name] = created, counts
        else:
            self._in_memory.add(counts)
        return counts

    def end(self, counts: Tally) -> None:
        """Keep the counts of a group that leaves memory."""
        if counts in self._in_memory:
            self._in_memory.remove(counts)
            self._rest.add(counts)

    def forget(self, topic_id: TopicId, name: str) -> None:
        """Forget a group that is deleted."""
        self._groups.pop((topic_id, name), None)

    def keep(self, names: Collection[_Name]) -> None:
        """Forget the groups that are not in `names`: they were deleted."""
        for name in self._groups.keys() - names:
            del self._groups[name]

    def collect(self) -> Iterator[Metric]:
        """Yield the present counts."""
        rest = Tally()
        for counts in (self._rest, *self._in_memory):
            rest.add(counts)
        series = [((t.namespace, t.name, name), e) for (t, name), (_, e) in self._groups.items()]
        series.append(((OTHER, OTHER, OTHER), rest))
        for _, counts in series:
            counts.count_all()
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
