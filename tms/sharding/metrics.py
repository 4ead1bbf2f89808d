"""The metrics of shards as one: each sample has the label `shard`, unless there is only one."""

from collections.abc import Iterator, Mapping

from prometheus_client import CollectorRegistry
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector

_LABEL = "shard"


class ShardMetrics(Collector):
    """Collects what the registries of shards have, by the shards' numbers as they are now."""

    def __init__(self, registries: Mapping[int, CollectorRegistry], *, is_labelled: bool) -> None:
        self._registries = registries
        self._is_labelled = is_labelled

    def describe(self) -> list[Metric]:
        """Return nothing: the names are known to each shard's registry."""
        return []

    def collect(self) -> Iterator[Metric]:
        """Give each metric once, with the samples of all shards."""
        found: dict[str, Metric] = {}
        for shard, registry in sorted(self._registries.items()):
            if not self._is_labelled:
                yield from registry.collect()
                continue
            for metric in registry.collect():
                joint = found.get(metric.name)
                if joint is None:
                    joint = Metric(metric.name, metric.documentation, metric.type, metric.unit)
                    found[metric.name] = joint
                joint.samples += [
                    sample._replace(labels={**sample.labels, _LABEL: str(shard)})
                    for sample in metric.samples
                ]
        yield from found.values()
