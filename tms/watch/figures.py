"""A server's figures at one moment, from its metrics, over all its shards."""

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass, field

from prometheus_client import CollectorRegistry, Metric

from tms.watch.history import TopicName, TopicTraffic

_SUMS = {
    "tms_published_messages": "messages_in",
    "tms_published_bytes": "bytes_in",
    "tms_polled_messages": "messages_out",
    "tms_polled_bytes": "bytes_out",
    "tms_transactions_in_progress": "in_progress",
    "tms_transactions_invalid": "invalid",
    "process_resident_memory_bytes": "memory_bytes",
}
_TRAFFIC = {
    "tms_topic_published_messages": 0,
    "tms_topic_published_bytes": 1,
    "tms_topic_polled_messages": 2,
    "tms_topic_polled_bytes": 3,
}
_REQUESTS = "tms_http_requests"
_SECONDS = "tms_http_request_seconds"
_TIMED = ("publish", "poll")
_SAMPLES_AT_ONCE = 200
"""After a metric with more samples the event loop gets a turn."""
_OTHER = "(other)"

Buckets = Mapping[float, float]
"""How many requests took at most that number of seconds."""


@dataclass(slots=True)
class Figures:
    """The figures."""

    sums: dict[str, float] = field(default_factory=dict)
    refused: dict[int, float] = field(default_factory=dict)
    """Refused requests since the server began, by status."""
    topics: dict[TopicName, TopicTraffic] = field(default_factory=dict)
    seconds: dict[str, dict[float, float]] = field(default_factory=dict)
    """By operation."""


async def taken(registry: CollectorRegistry) -> Figures:
    """Return the current figures of a registry."""
    figures = Figures()
    traffic: dict[TopicName, list[float]] = {}
    for metric in registry.collect():
        _add(figures, traffic, metric)
        if len(metric.samples) > _SAMPLES_AT_ONCE:
            await asyncio.sleep(0)
    figures.topics = {name: TopicTraffic(*values) for name, values in traffic.items()}
    return figures


def _add(figures: Figures, traffic: dict[TopicName, list[float]], metric: Metric) -> None:
    name = _SUMS.get(metric.name)
    if name is not None:
        figures.sums[name] = sum(sample.value for sample in metric.samples)
    elif metric.name in _TRAFFIC:
        at = _TRAFFIC[metric.name]
        for sample in metric.samples:
            labels = sample.labels
            if labels["topic"] != _OTHER:
                numbers = traffic.setdefault((labels["namespace"], labels["topic"]), [0.0] * 4)
                numbers[at] += sample.value
    elif metric.name == _REQUESTS:
        figures.sums["requests"] = sum(sample.value for sample in metric.samples)
        for sample in metric.samples:
            status = int(sample.labels["status"])
            figures.refused[status] = figures.refused.get(status, 0.0) + sample.value
    elif metric.name == _SECONDS:
        for sample in metric.samples:
            operation = sample.labels["operation"]
            if operation in _TIMED and "le" in sample.labels:
                bound = float(sample.labels["le"])
                figures.seconds.setdefault(operation, {})[bound] = sample.value


def quantile(share: float, before: Buckets, now: Buckets) -> float | None:
    """Return the time within which a share of the requests was answered; None without any.

    It is the upper bound of a bucket, of the last bucket the lower one.
    """
    counts = {bound: count - before.get(bound, 0.0) for bound, count in now.items()}
    bounds = sorted(counts)
    if not bounds or counts[bounds[-1]] <= 0:
        return None
    target = share * counts[bounds[-1]]
    return next((bound for bound in bounds[:-1] if counts[bound] >= target), bounds[-2])
