"""The counts of the messaging service, for Prometheus.

The hot path counts in plain numbers, which become metrics at a collection: Prometheus' own would
take a lock at each publish and poll.
"""

from collections.abc import Callable, Iterable, Iterator
from typing import Protocol

from prometheus_client import CollectorRegistry
from prometheus_client.metrics_core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    HistogramMetricFamily,
    Metric,
)

from tms.core.runtime.memory_kinds import MemoryEntries
from tms.core.values.histogram import Histogram


class Collector(Protocol):
    """An object with metrics."""

    def collect(self) -> Iterable[Metric]:
        """Return their current values."""
        ...


_SECONDS = (0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 1.0, 5.0)
_COUNTS = (1, 2, 5, 10, 20, 50, 100, 200, 500, 1_000, 5_000, 20_000, 100_000)

_COUNTERS = {
    "published_messages": "Messages published, in transactions or not.",
    "published_bytes": "Bytes of the payloads published.",
    "stored_messages": "Messages stored in a transaction, to be published later.",
    "stored_bytes": "Bytes of the payloads stored, to be published later.",
    "failed_requests": "Requests to publish, store or roll back that the store failed to write.",
    "rejected_requests": "Requests that were refused because the queue of writes was full.",
    "rolled_back_messages": "Messages rolled back.",
    "polled_messages": "Messages returned to polls, or read by those with a filter.",
    "polled_bytes": "Bytes returned to polls, or read by those with a filter; with their ids.",
    "cache_hits": "Parts of polls that were read from memory.",
    "cache_misses": "Parts of polls that were read from the store.",
    "inline_flushes": "Writes of a single request, made without another thread.",
    "stopped_polls": "Polls that stopped at a message whose transaction was in progress.",
}

_HISTOGRAMS = {
    "flush_seconds": "Seconds that a write to the store took, including the wait for its thread.",
    "flush_requests": "Requests that one write to the store served.",
}


class MessagingMetrics:
    """Counters as attributes, gauges as callables, histograms of flushes."""

    def __init__(self, registry: CollectorRegistry) -> None:
        """Offer the metrics in `registry`."""
        self.published_messages = 0
        self.published_bytes = 0
        self.stored_messages = 0
        self.stored_bytes = 0
        self.failed_requests = 0
        self.rejected_requests = 0
        self.rolled_back_messages = 0
        self.polled_messages = 0
        self.polled_bytes = 0
        self.cache_hits = 0
        self.cache_misses = 0
        self.inline_flushes = 0
        self.stopped_polls = 0
        self.last_stopped_at: int | None = None
        """The write pointer at which a poll last stopped."""
        self.age_s: Callable[[int], float | None] = lambda _: None
        """Returns the age of a write pointer's transaction, None if it is not in progress."""
        self.memory = MemoryEntries()
        self._included: list[Collector] = []
        self._gauges: dict[str, tuple[str, Callable[[], float]]] = {}
        self.flush_seconds = Histogram(_SECONDS)
        self.flush_requests = Histogram(_COUNTS)
        registry.register(self)

    @property
    def requests(self) -> int:
        """A number that increases with requests: messages written plus parts of polls."""
        written = self.published_messages + self.stored_messages + self.rolled_back_messages
        return written + self.cache_hits + self.cache_misses

    def gauge(self, name: str, help_text: str, value: Callable[[], float]) -> None:
        """Offer the gauge `tms_{name}`, whose value is computed at each collection."""
        self._gauges[name] = (help_text, value)

    def include(self, others: Collector) -> None:
        """Offer the metrics of `others` too."""
        self._included.append(others)

    def collect(self) -> Iterator[Metric]:
        """Yield the current counters and gauges."""
        for name, help_text in _COUNTERS.items():
            yield CounterMetricFamily(f"tms_{name}", help_text, value=getattr(self, name))
        yield self._stopped_at()
        yield self._memory_entries()
        for name, help_text in _HISTOGRAMS.items():
            histogram: Histogram = getattr(self, name)
            yield HistogramMetricFamily(
                f"tms_{name}", help_text, histogram.buckets(), histogram.total
            )
        for name, (help_text, value) in self._gauges.items():
            yield GaugeMetricFamily(f"tms_{name}", help_text, value=value())
        for others in self._included:
            yield from others.collect()

    def _memory_entries(self) -> Metric:
        entries = GaugeMetricFamily(
            "tms_memory_entries",
            "Entries kept in memory by kind; docs/memory.md has the bounds.",
            labels=("kind",),
        )
        for kind, count in self.memory.counts():
            entries.add_metric((kind,), count)
        return entries

    def _stopped_at(self) -> Metric:
        """Return the age of the transaction at which a poll last stopped."""
        stopped = GaugeMetricFamily(
            "tms_stopped_at_transaction_seconds",
            "Age of the transaction in progress at which the last poll stopped.",
        )
        pointer = self.last_stopped_at
        age_s = None if pointer is None else self.age_s(pointer)
        if age_s is not None:
            stopped.add_metric((), age_s)
        return stopped
