"""The counts of REST, kept in plain numbers and turned into metrics on request.

Counting costs well under a microsecond per request: only the event loop's thread counts, so no lock
is needed, and the collector reads the numbers at a collection.
"""

from collections.abc import Iterator

from prometheus_client import Metric
from prometheus_client.core import CounterMetricFamily, HistogramMetricFamily
from prometheus_client.registry import Collector

from tms.core.values.histogram import Histogram

SECONDS = (0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)
"""Upper bounds of the histogram's buckets."""


class OperationMetrics:
    """The numbers of one operation."""

    __slots__ = ("bytes_in", "bytes_out", "requests", "seconds")

    def __init__(self) -> None:
        self.requests: dict[int, int] = {}
        self.bytes_in = 0
        self.bytes_out = 0
        self.seconds = Histogram(SECONDS)
        """The durations of requests."""

    def count(self, status: int, bytes_in: int, bytes_out: int) -> None:
        """Add one request."""
        self.requests[status] = self.requests.get(status, 0) + 1
        self.bytes_in += bytes_in
        self.bytes_out += bytes_out


class RestMetrics(Collector):
    """The numbers of all operations, for a `CollectorRegistry`."""

    def __init__(self, prefix: str = "tms_http") -> None:
        """Prefix the names of the metrics with `prefix`."""
        self._prefix = prefix
        self._operations: dict[str, OperationMetrics] = {}

    def of(self, operation: str) -> OperationMetrics:
        """Return the numbers of `operation`; the caller keeps them and adds to them."""
        return self._operations.setdefault(operation, OperationMetrics())

    def collect(self) -> Iterator[Metric]:
        """Yield the current metrics."""
        requests = CounterMetricFamily(
            f"{self._prefix}_requests",
            "Requests by operation and status; 499 means that the client left before its answer.",
            labels=("operation", "status"),
        )
        bytes_in = CounterMetricFamily(
            f"{self._prefix}_request_bytes",
            "Bytes of the bodies of requests, as they were sent.",
            labels=("operation",),
        )
        bytes_out = CounterMetricFamily(
            f"{self._prefix}_response_bytes",
            "Bytes of the bodies of answers, before compression.",
            labels=("operation",),
        )
        seconds = HistogramMetricFamily(
            f"{self._prefix}_request_seconds",
            "Seconds from a request to its answer, without polls that waited for a message.",
            labels=("operation",),
        )
        for name, numbers in self._operations.items():
            if not numbers.requests:
                continue  # there are 157 operations, and a histogram of each has 16 series
            for status, count in list(numbers.requests.items()):
                requests.add_metric((name, str(status)), count)
            bytes_in.add_metric((name,), numbers.bytes_in)
            bytes_out.add_metric((name,), numbers.bytes_out)
            seconds.add_metric((name,), numbers.seconds.buckets(), numbers.seconds.total)
        yield from (requests, bytes_in, bytes_out, seconds)
