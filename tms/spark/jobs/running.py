"""A streaming query until it has ended, and what it told of its batches meanwhile."""

from collections.abc import Callable, Mapping
from typing import Any

from pyspark.sql.streaming.query import StreamingQuery

LOOK_S = 1
"""How often the query is asked. It keeps the reports of its last hundred batches."""

Report = Mapping[str, Any]
"""The observations of one batch, by name."""
OnBatch = Callable[[int, Report], None]
"""Called for each batch that is done, with its number and what it observed."""


def nothing(number: int, report: Report) -> None:
    """Tell nobody."""


def run_to_its_end(query: StreamingQuery, observation: str, on_batch: OnBatch) -> list[Report]:
    """Return what each batch of this run observed under a name, once the query has ended.

    Raises `StreamingQueryException` as the query does; when interrupted, stops it.
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
