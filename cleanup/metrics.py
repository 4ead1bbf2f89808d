"""The counts of cleanup, for Prometheus; plain numbers until Prometheus reads them."""

from collections.abc import Callable, Iterator

from prometheus_client import CollectorRegistry
from prometheus_client.metrics_core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    Metric,
    SummaryMetricFamily,
)

from cleanup.runner import Runner
from tms.core.runtime.clock import Clock


class CleanupMetrics:
    """The numbers of one runner."""

    def __init__(
        self,
        registry: CollectorRegistry,
        runner: Runner,
        clock: Clock,
        held_ms: Callable[[], int | None],
    ) -> None:
        """Register the metrics in `registry`; `held_ms` is as `TopicRules.held_ms`."""
        self._runner = runner
        self._held_ms = held_ms
        self._clock = clock
        self._began_ms = clock.now_ms()
        registry.register(self)

    def collect(self) -> Iterator[Metric]:
        """Yield the metrics as they are now."""
        counts = self._runner.counts
        scanned = CounterMetricFamily(
            "tms_cleanup_scanned_rows", "Rows that cleanup read.", labels=("reason",)
        )
        for reason, count in list(counts.scanned.items()):
            scanned.add_metric((reason,), count)
        yield scanned
        dropped = CounterMetricFamily(
            "tms_cleanup_dropped_rows", "Rows that cleanup deleted.", labels=("table", "reason")
        )
        for (table, reason), count in list(counts.dropped.items()):
            dropped.add_metric((table, reason), count)
        yield dropped
        yield CounterMetricFamily(
            "tms_cleanup_dropped_bytes",
            "Bytes of the rows that cleanup deleted.",
            counts.dropped_bytes,
        )
        yield CounterMetricFamily(
            "tms_cleanup_inverted_rows",
            "Messages of invalid transactions that cleanup marked as rolled back.",
            counts.inverted,
        )
        yield CounterMetricFamily(
            "tms_cleanup_failed_passes", "Passes of cleanup that failed.", counts.failed_passes
        )
        yield SummaryMetricFamily(
            "tms_cleanup_pass_seconds",
            "Seconds that passes of cleanup took, without failed ones.",
            count_value=counts.passes,
            sum_value=counts.pass_seconds,
        )
        held_ms, now_ms = self._held_ms(), self._clock.now_ms()
        yield GaugeMetricFamily(
            "tms_cleanup_bound_held_seconds",
            "Age of the oldest message of an open transaction that the bound of a topic waits for.",
            0.0 if held_ms is None else max(0, now_ms - held_ms) / 1000,
        )
        last = self._runner.last_pass
        begun_ms = self._began_ms if last is None else last.started_ms
        yield GaugeMetricFamily(
            "tms_cleanup_lag_seconds",
            "Seconds since the last finished pass of cleanup began, or since the server started.",
            max(0, self._clock.now_ms() - begun_ms) / 1000,
        )
