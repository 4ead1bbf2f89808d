"""The registry's metrics."""

from collections.abc import Iterator

from prometheus_client import Metric
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
from prometheus_client.registry import Collector

from tms.registry.log.service import Registry


class SchemaMetrics(Collector):
    """Metrics of a registry, for a `CollectorRegistry`."""

    def __init__(self, registry: Registry) -> None:
        self._registry = registry

    def collect(self) -> Iterator[Metric]:
        """Yield the current metrics."""
        registry = self._registry
        yield GaugeMetricFamily(
            "tms_registry_versions",
            "Versions of all subjects, soft-deleted ones too.",
            registry.state.versions_count,
        )
        yield GaugeMetricFamily("tms_registry_subjects", "Subjects.", len(registry.state.subjects))
        yield CounterMetricFamily(
            "tms_registry_readings", "How often the log was read to its end.", registry.log.readings
        )
        yield CounterMetricFamily(
            "tms_registry_writes_refused",
            "Writes that were decided again, because another server was faster.",
            registry.log.refused,
        )
        yield CounterMetricFamily(
            "tms_registry_checkers_killed",
            "Processes that checked schemas and took too long or died.",
            registry.checker.killed,
        )
        mastership = registry.mastership
        is_master = mastership is not None and mastership.is_master
        yield GaugeMetricFamily(
            "tms_registry_is_master",
            "1 if this server is the elected master, which is the only one that writes.",
            int(is_master),
        )
        yield CounterMetricFamily(
            "tms_registry_begun",
            "How often this server became the master.",
            0 if mastership is None else mastership.begun,
        )
        yield GaugeMetricFamily(
            "tms_registry_sequence",
            "The sequence of the last record that was read.",
            registry.state.last_sequence,
        )
        yield GaugeMetricFamily(
            "tms_registry_epoch",
            "The epoch of the newest master; 0 if there is none.",
            registry.state.epoch,
        )
