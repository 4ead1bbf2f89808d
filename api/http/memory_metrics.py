"""Metrics of the entries kept in memory, for Prometheus; docs/memory.md has the bounds."""

from collections.abc import Iterator

from prometheus_client import CollectorRegistry, Metric
from prometheus_client.core import GaugeMetricFamily

from tms.core.runtime.memory_kinds import SERVER_KINDS, MemoryEntries


class MemoryMetrics:
    """The counts of one server."""

    def __init__(self, registry: CollectorRegistry) -> None:
        """Offer the metrics in `registry`."""
        self.entries = MemoryEntries(SERVER_KINDS)
        registry.register(self)

    def collect(self) -> Iterator[Metric]:
        """Yield the current metrics."""
        gauge = GaugeMetricFamily(
            "tms_server_memory_entries",
            "Entries that the server keeps in memory by kind; docs/memory.md has the bounds.",
            labels=("kind",),
        )
        for kind, count in self.entries.counts():
            gauge.add_metric((kind,), count)
        yield gauge
