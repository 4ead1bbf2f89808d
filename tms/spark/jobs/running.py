"""Runs a streaming query to its end, and collects the observations of its batches."""

from collections.abc import Callable, Mapping
from typing import Any

from pyspark.sql.streaming.query import StreamingQuery

LOOK_S = 1
"""How often the query is polled. It keeps the reports of its last hundred batches."""

Report = Mapping[str, Any]
"""The observations of one batch, by name."""
OnBatch = Callable[[int, Report], None]
"""Called for each completed batch, with its number and its observations."""


def nothing(number: int, report: Report) -> None:
    """Ignore the batch."""


def run_to_its_end(query: StreamingQuery, observation: str, on_batch: OnBatch) -> list[Report]:
    """Return the observations of each batch under a name, once the query has ended.

    Raises the query's `StreamingQueryException`; stops the query when interrupted.
    """
    reports: dict[int, Report] = {}
    try:
        has_ended = False
        while not has_ended:
            has_ended = bool(query.awaitTermination(LOOK_S))
            for progress in query.recentProgress:
                observed = progress.observedMetrics.get(observation)
                if observed is not None and progress.batchId not in reports:
                    reports[progress.batchId] = observed.asDict()
                    on_batch(progress.batchId, reports[progress.batchId])
    finally:
        query.stop()
    return [reports[number] for number in sorted(reports)]
