"""The counts and durations of the requests that one server has other servers answer.

The event loop's thread alone counts, as for `api.http.metrics`.
"""

from collections.abc import Iterator
from enum import StrEnum

from prometheus_client import Metric
from prometheus_client.core import CounterMetricFamily, HistogramMetricFamily
from prometheus_client.registry import Collector

from api.http.metrics import SECONDS
from tms.core.histogram import Histogram


class ForwardOutcome(StrEnum):
    """How a request for another server ended."""

    ANSWERED = "answered"
    NO_LEADER = "no_leader"
    BROKEN = "broken"


class ForwardMetrics(Collector):
    """The numbers of forwarded requests, for a `CollectorRegistry`."""

    def __init__(self) -> None:
        """Begin at nothing."""
        self._counts = dict.fromkeys(ForwardOutcome, 0)
        self._seconds = Histogram(SECONDS)

    def count(self, outcome: ForwardOutcome) -> None:
        """Add one request."""
        self._counts[outcome] += 1

    def took(self, seconds: float) -> None:
        """Add the duration of a request that was answered."""
        self._seconds.observe(seconds)

    def collect(self) -> Iterator[Metric]:
        """Give the metrics as they are now."""
        counts = CounterMetricFamily(
            "tms_forwarded",
            "Requests for other servers, by whether they were answered there.",
            labels=("outcome",),
        )
        for outcome, count in self._counts.items():
            counts.add_metric((outcome,), count)
        yield counts
        yield HistogramMetricFamily(
            "tms_forward_seconds",
            "Seconds from a request to its answer by another server, without polls that may wait.",
            self._seconds.buckets(),
            self._seconds.total,
        )
