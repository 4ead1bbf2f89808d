"""Merges the metrics of shards: each sample has the label `shard`, unless there is only one."""

from collections.abc import Iterator, Mapping

from prometheus_client import CollectorRegistry
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector

_LABEL = "shard"


class ShardMetrics(Collector):
    """Collects the metrics in the registries of the present shards, by shard number."""

    def __init__(self, registries: Mapping[int, CollectorRegistry], *, is_labelled: bool) -> None:
        self._registries = registries
        self._is_labelled = is_labelled

    def describe(self) -> list[Metric]:
        """Return nothing: each shard's registry knows the names."""
        return []

    def collect(self) -> Iterator[Metric]:
        """Yield each metric once, with the samples of all shards."""
        merged: dict[str, Metric] = {}
        for shard, registry in sorted(self._registries.items()):
            if not self._is_labelled:
                yield from registry.collect()
                continue
            for metric in registry.collect():
                joint = merged.get(metric.name)
                if joint is None:
                    joint = Metric(metric.name, metric.documentation, metric.type, metric.unit)
                    merged[metric.name] = joint
                joint.samples += [
                    sample._replace(labels={**sample.labels, _LABEL: str(shard)})
                    for sample in metric.samples
                ]
        yield from merged.values()
