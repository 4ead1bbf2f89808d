"""Metrics of the server's clock, for Prometheus."""

from collections.abc import Iterator

from prometheus_client import CollectorRegistry, Metric
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily

from tms.core.runtime.trusted_clock import TrustedClock


class ClockMetrics:
    """The numbers of one clock."""

    def __init__(self, registry: CollectorRegistry, clock: TrustedClock) -> None:
        """Offer the metrics in `registry`."""
        self._clock = clock
        registry.register(self)

    def collect(self) -> Iterator[Metric]:
        """Yield the current metrics."""
        yield GaugeMetricFamily(
            "tms_clock_step_seconds",
            "How much the machine's clock is ahead of the server's time.",
            self._clock.state().step_s,
        )
        yield CounterMetricFamily(
            "tms_clock_steps", "How often the machine's clock stepped.", self._clock.steps
        )
