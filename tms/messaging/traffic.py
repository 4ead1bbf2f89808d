"""The messages that are published to and polled from each topic and namespace, for Prometheus.

A publish or poll adds to one `Traffic`, to which its topic's state refers; everything else is
summed at a collection. At most `series_max` topics and as many namespaces have numbers of their
own, those used first since the server started. The rest is counted together, under a reserved name.
The numbers of a deleted topic are no longer shown, but stay in those of its namespace.

Used from the event loop's thread alone.
"""

from collections.abc import Iterable, Iterator

from prometheus_client.metrics_core import CounterMetricFamily, Metric

from tms.core.values.topic import TopicId

OTHER = "(other)"
"""The name for all without numbers of their own; no topic or namespace can have it."""

_NUMBERS = {
    "published_messages": "Messages published to this {of}.",
    "published_bytes": "Bytes of the payloads published to this {of}.",
    "polled_messages": "Messages returned to polls of this {of}, or read by those with a filter.",
    "polled_bytes": "Bytes returned to polls of this {of}, or read by those with a filter.",
}


class Traffic:
    """The messages published and polled since the server started."""

    __slots__ = tuple(_NUMBERS)

    def __init__(self) -> None:
        self.published_messages = 0
        self.published_bytes = 0
        self.polled_messages = 0
        self.polled_bytes = 0

    def add(self, other: "Traffic") -> None:
        """Add the numbers of another."""
        for name in _NUMBERS:
            setattr(self, name, getattr(self, name) + getattr(other, name))


class _Namespace:
    """The traffic of a namespace that is not counted by topic."""

    __slots__ = ("deleted", "rest")

    def __init__(self) -> None:
        self.rest = Traffic()
        """The traffic of topics without numbers of their own."""
        self.deleted = Traffic()
        """The traffic of deleted topics that had numbers of their own."""


class TrafficByTopic:
    """The numbers of all topics and namespaces of one service."""

    def __init__(self, series_max: int) -> None:
        """Give at most `series_max` topics, and as many namespaces, numbers of their own."""
        self._series_max = series_max
        self._topics: dict[TopicId, Traffic] = {}
        self._namespaces: dict[str, _Namespace] = {}
        self._others = _Namespace()

    def of(self, topic_id: TopicId) -> Traffic:
        """Return the `Traffic` in which to count a topic."""
        traffic = self._topics.get(topic_id)
        if traffic is not None:
            return traffic
        if len(self._topics) >= self._series_max:
            return self._namespace(topic_id.namespace).rest
        self._namespace(topic_id.namespace)
        traffic = self._topics[topic_id] = Traffic()
        return traffic

    def _namespace(self, name: str) -> _Namespace:
        traffic = self._namespaces.get(name)
        if traffic is None:
            if len(self._namespaces) >= self._series_max:
                return self._others
            traffic = self._namespaces[name] = _Namespace()
        return traffic

    def deleted(self, topic_id: TopicId) -> None:
        """Stop showing a topic."""
        traffic = self._topics.pop(topic_id, None)
        if traffic is not None:
            self._namespace(topic_id.namespace).deleted.add(traffic)

    def collect(self) -> Iterator[Metric]:
        """Yield the current numbers."""
        rest = Traffic()
        by_namespace = {OTHER: Traffic()}
        for name, namespace in (*self._namespaces.items(), (OTHER, self._others)):
            total = by_namespace.setdefault(name, Traffic())
            total.add(namespace.rest)
            total.add(namespace.deleted)
            rest.add(namespace.rest)
        for topic_id, traffic in self._topics.items():
            by_namespace.get(topic_id.namespace, by_namespace[OTHER]).add(traffic)
        by_topic = [((t.namespace, t.name), traffic) for t, traffic in self._topics.items()]
        yield from _families("topic", ("namespace", "topic"), [*by_topic, ((OTHER, OTHER), rest)])
        yield from _families(
            "namespace", ("namespace",), [((name,), total) for name, total in by_namespace.items()]
        )


def _families(
    of: str, labels: tuple[str, ...], series: Iterable[tuple[tuple[str, ...], Traffic]]
) -> Iterator[Metric]:
    traffics = list(series)
    for name, help_text in _NUMBERS.items():
        family = CounterMetricFamily(f"tms_{of}_{name}", help_text.format(of=of), labels=labels)
        for values, traffic in traffics:
            family.add_metric(values, getattr(traffic, name))
        yield family
