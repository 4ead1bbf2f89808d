"""What the messaging service counts, for Prometheus.

What the hot path counts are plain numbers, turned into metrics when they are asked for: Prometheus'
own would take a lock at each publish and poll.
"""

from collections.abc import Callable, Iterator

from prometheus_client import CollectorRegistry
from prometheus_client.metrics_core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    HistogramMetricFamily,
    Metric,
)

from tms.core.histogram import Histogram

_SECONDS = (0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 1.0, 5.0)
_COUNTS = (1, 2, 5, 10, 20, 50, 100, 200, 500, 1_000, 5_000, 20_000, 100_000)

_COUNTERS = {
    "published_messages": "Messages published, plain and transactional.",
    "published_bytes": "Bytes of payloads published.",
    "stored_messages": "Payloads stored for a later publish.",
    "stored_bytes": "Bytes of payloads stored.",
    "failed_requests": "Publish, store and rollback requests that the store failed.",
    "rejected_requests": "Requests refused because the queue was full.",
    "rolled_back_messages": "Entries rolled back.",
    "polled_messages": "Messages given to pollers.",
    "polled_bytes": "Bytes given to pollers, ids included.",
    "cache_hits": "Parts of polls served from memory.",
    "cache_misses": "Parts of polls that read a table.",
    "lone_flushes": "Durable writes of a request that came alone, by the event loop itself.",
    "stopped_polls": "Polls that stopped at an entry whose transaction is in progress.",
}

_HISTOGRAMS = {
    "flush_seconds": "Time of one durable write, from its thread being asked to its answer.",
    "flush_requests": "Requests that shared one durable write.",
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
        self.lone_flushes = 0
        self.stopped_polls = 0
        self.last_stopped_at: int | None = None
        """The write pointer that a poll was last stopped at."""
        self.age_s: Callable[[int], float | None] = lambda _: None
        """Gives the age of what is in progress under a write pointer, None where nothing is."""
        self._gauges: dict[str, tuple[str, Callable[[], float]]] = {}
        self.flush_seconds = Histogram(_SECONDS)
        self.flush_requests = Histogram(_COUNTS)
        registry.register(self)

    @property
    def requests(self) -> int:
        """A number that goes up while there are requests: messages written, parts of polls."""
        written = self.published_messages + self.stored_messages + self.rolled_back_messages
        return written + self.cache_hits + self.cache_misses

    def gauge(self, name: str, help_text: str, value: Callable[[], float]) -> None:
        """Offer the gauge `tms_{name}` whose value is asked for at each collection."""
        self._gauges[name] = (help_text, value)

    def collect(self) -> Iterator[Metric]:
        """Give the counters and gauges as they stand."""
        for name, help_text in _COUNTERS.items():
            yield CounterMetricFamily(f"tms_{name}", help_text, value=getattr(self, name))
        yield self._stopped_at()
        for name, help_text in _HISTOGRAMS.items():
            histogram: Histogram = getattr(self, name)
            yield HistogramMetricFamily(
                f"tms_{name}", help_text, histogram.buckets(), histogram.total
            )
        for name, (help_text, value) in self._gauges.items():
            yield GaugeMetricFamily(f"tms_{name}", help_text, value=value())

    def _stopped_at(self) -> Metric:
        """Return the transaction that readers are stopped at, as far as the last stop tells."""
        stopped = GaugeMetricFamily(
            "tms_stopped_at_transaction_seconds",
            "Age of the transaction in progress that a poll was last stopped at.",
            labels=("write_pointer",),
        )
        pointer = self.last_stopped_at
        age_s = None if pointer is None else self.age_s(pointer)
        if age_s is not None:
            stopped.add_metric((str(pointer),), age_s)
        return stopped
