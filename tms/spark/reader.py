"""How Spark reads topics: the parts shared by batches and streams, and batches.

Guarantees that every partition returns exactly the messages in its ranges, in order, or fails, even
if the topic is deleted, recreated, or expires while it is read (`failOnDataLoss`, the default). A
repeated task returns the same rows, because its ranges are below the topic's stable end.
"""

import logging
import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime

import pyarrow as pa
from pyspark.sql.datasource import (
    DataSourceReader,
    EqualTo,
    Filter,
    GreaterThan,
    GreaterThanOrEqual,
    In,
    InputPartition,
    LessThan,
    LessThanOrEqual,
)

from tms.client.reading.start import ms_of
from tms.core.errors import DataLost, InvalidRequest, TopicNotFound
from tms.core.values.filter_expressions import FieldTest, Operator, text_of
from tms.core.values.filters import filter_of
from tms.core.values.message import FIRST_ID, LAST_ID, first_id_at
from tms.spark.offsets import Offset, Offsets, Standings, end_of
from tms.spark.option_types import ReadOptions
from tms.spark.option_values import ceiling_ms
from tms.spark.plan import Loss, Plan, Range, packed, parts_for, plan
from tms.spark.prerequisites import without_own_trace
from tms.spark.rows import spark_rows
from tms.spark.server import SparkServer
from tms.spark.typed.names import AS_RAW
from tms.spark.typed.reading import TypedRows
from tms.spark.typed.schema import ReaderSchema

SPANS_FIRST = 8
"""Into how many spans a plan's ranges are split before their size is known."""

_log = logging.getLogger("tms.spark")


class TaskRanges(InputPartition):
    """The ranges of one task."""

    def __init__(self, ranges: Sequence[Range]) -> None:
        """Read `ranges` in order."""
        super().__init__(None)
        self.ranges = tuple(ranges)


@dataclass(frozen=True, slots=True)
class ReadPlan:
    """The plan of a read with its columns: everything that a task needs except its ranges."""

    options: ReadOptions
    schema: pa.Schema
    reader: ReaderSchema | None = None
    """The schema that decodes payloads; None for untyped rows."""

    def rows(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Yield the rows of a partition. Raises `DataLost`."""
        if not isinstance(partition, TaskRanges):
            return  # Spark passes this if there are no partitions.
        with SparkServer(self.options.connection) as server:
            as_wanted = self._as_wanted(server)
            for one in partition.ranges:
                yield from self._rows_of(server, one, as_wanted)
            self._check_nothing_was_lost(server, partition.ranges)

    def _as_wanted(self, server: SparkServer) -> Callable[[pa.RecordBatch, str], pa.RecordBatch]:
        """Return a function that converts a topic's rows from the server's form to Spark's."""
        if self.reader is None:
            return lambda rows, topic: spark_rows(rows, topic, self.schema)
        return TypedRows(server.schemas, self.reader, self.schema).rows

    def _rows_of(
        self,
        server: SparkServer,
        one: Range,
        as_wanted: Callable[[pa.RecordBatch, str], pa.RecordBatch],
    ) -> Iterator[pa.RecordBatch]:
        try:
            for rows in server.rows(one, self.options.isolation, self.options.filter):
                yield as_wanted(rows, one.topic)
        except TopicNotFound:
            loss = Loss(one.topic, "the topic was deleted", Offset(one.start), None)
            self.lose([loss])

    def _check_nothing_was_lost(self, server: SparkServer, ranges: Sequence[Range]) -> None:
        """Check again after reading: what is gone now may have been gone earlier."""
        if not self.options.fail_on_data_loss:
            return
        topics = dict.fromkeys(one.topic for one in ranges)
        standings, _ = server.standings(topics, self.options.isolation)
        kept = _kept_from_start(standings)
        for one in ranges:
            start = Offset(one.start if one.claimed else FIRST_ID, one.generation)
            end = Offset(one.end, one.generation)
            self.lose(plan({one.topic: start}, {one.topic: end}, kept).losses)

    def lose(self, losses: Iterable[Loss]) -> None:
        """Raise `DataLost`, or log the loss, as the options say."""
        for loss in losses:
            detail = {
                "topic": loss.topic,
                "reason": loss.reason,
                "expected_from": str(loss.start),
                "left_from": loss.now.hex() if loss.now else None,
            }
            if self.options.fail_on_data_loss:
                raise DataLost(**detail)
            _log.warning("data lost: %s", detail)

    def partitions(self, server: SparkServer, ranges: Sequence[Range]) -> list[TaskRanges]:
        """Return partitions of about equal size that read `ranges`."""
        if not ranges:
            return []
        least = self.options.partitions_min
        spans = server.splits(ranges, -(-max(SPANS_FIRST, 2 * (least or 0)) // len(ranges)))
        size = sum(span.size for span in spans)
        parts = parts_for(size, least, os.cpu_count() or 1)
        if 2 * parts > max(SPANS_FIRST, len(spans)):
            spans = server.splits(ranges, -(-2 * parts // len(ranges)))
        of_topic = {one.topic: one for one in ranges}
        return [
            TaskRanges(
                [of_topic[part.topic]._replace(start=part.start, end=part.end) for part in run]
            )
            for run in packed(spans, parts)
        ]


def _kept_from_start(standings: Standings) -> Standings:
    return {
        topic: standing and standing._replace(kept_from=standing.start)
        for topic, standing in standings.items()
    }


def standings_for(
    server: SparkServer,
    topics: Iterable[str],
    start: Offsets,
    reading: ReadPlan,
    nothing_behind: Mapping[tuple[str, Offset], int],
) -> tuple[Standings, int]:
    """Return the state of topics, and which parts are complete for a reader at `start`.

    `nothing_behind` has times, in the server's milliseconds, at which a topic had no message after
    an offset, so messages published before have not been missed.
    """
    standings, time_ms = server.standings(topics, reading.options.isolation)
    by_topic = dict(standings)
    for topic, offset in start.items():
        standing = by_topic.get(topic)
        if standing is None or not FIRST_ID < offset.position < standing.start:
            continue
        before = standing.expired_before
        if first_id_at(nothing_behind.get((topic, offset), 0)) < before:
            by_topic[topic] = standing._replace(kept_from=min(before, standing.start))
    return by_topic, time_ms


class BatchReader(DataSourceReader):
    """Reads the messages between the bounds in the options."""

    def __init__(
        self, options: ReadOptions, schema: pa.Schema, reader: ReaderSchema | None = None
    ) -> None:
        """Contact no server yet."""
        self.reading = ReadPlan(options, schema, reader)
        self.topics: frozenset[str] | None = None
        """The only topics that a filter accepts."""
        self.start = FIRST_ID
        self.end = LAST_ID

    @without_own_trace
    def partitions(self) -> Sequence[InputPartition]:
        """Return the tasks' partitions. Raises `TopicNotFound`, `DataLost`, `CannotRun`."""
        options = self.reading.options
        with SparkServer(options.connection) as server:
            server.check_arrow()
            names = options.chosen(server.topics() if options.pattern is not None else ())
            planned = self._plan(server, names)
            self.reading.lose(planned.losses)
            return list(self.reading.partitions(server, planned.ranges))

    def _plan(self, server: SparkServer, names: Sequence[str]) -> Plan:
        options = self.reading.options
        topics = [name for name in names if self.topics is None or name in self.topics]
        standings, _ = server.standings(topics, options.isolation)
        starts: dict[str, Offset] = {}
        ends: dict[str, Offset] = {}
        for topic, standing in standings.items():
            if standing is None:
                if options.pattern is not None:
                    continue  # It was deleted after the topics were listed.
                raise TopicNotFound(topic=topic)
            starts[topic] = options.start_in(topic, standing)
            end = end_of(options.ending.of(topic), standing)
            ends[topic] = end._replace(position=min(end.position, self.end))
        there, _ = standings_for(server, ends, starts, self.reading, {})
        whole = plan(starts, ends, there)
        ranges = [one._replace(start=max(one.start, self.start)) for one in whole.ranges]
        return Plan([one for one in ranges if one.start < one.end], whole.losses)

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Yield a partition's rows."""
        return self.reading.rows(partition)


class PushdownReader(BatchReader):
    """A batch reader that lets the server skip what filters on topic, time or key exclude."""

    def pushFilters(self, filters: list[Filter]) -> Iterable[Filter]:  # noqa: N802  Spark's name
        """Use the filters that it can; return the others, which Spark applies."""
        for one in filters:
            if not self._take(self._of_message(one)):
                yield one

    def _of_message(self, condition: Filter) -> Filter | None:
        """Return a filter in the columns of untyped rows, None if it is about a field."""
        if self.reading.reader is None:
            return condition
        [name, *within] = getattr(condition, "attribute", None) or [""]
        if within or name not in AS_RAW:
            return None
        return replace(condition, attribute=(AS_RAW[name],))  # type: ignore[call-arg]

    def _take(self, condition: Filter | None) -> bool:
        match condition:
            case EqualTo(("topic",), str(topic)):
                self._keep_topics({topic})
            case In(("topic",), tuple() | list() as topics):
                self._keep_topics(set(topics))
            case EqualTo(("timestamp",), datetime() as time):
                self._keep_times(ceiling_ms(time), ms_of(time) + 1)
            case GreaterThanOrEqual(("timestamp",), datetime() as time):
                self._keep_times(ceiling_ms(time), None)
            case GreaterThan(("timestamp",), datetime() as time):
                self._keep_times(ms_of(time) + 1, None)
            case LessThan(("timestamp",), datetime() as time):
                self._keep_times(0, ceiling_ms(time))
            case LessThanOrEqual(("timestamp",), datetime() as time):
                self._keep_times(0, ms_of(time) + 1)
            case EqualTo(("key",), bytes() | bytearray() as key):
                return self._keep_key(bytes(key))
            case _:
                return False
        return True

    def _keep_key(self, key: bytes) -> bool:
        """Read only messages with a key, unless the filter would be too long."""
        options = self.reading.options
        test = text_of(FieldTest(None, Operator.EQUALS, key))
        chosen = test if options.filter is None else f"{test} and ({options.filter})"
        try:
            filter_of(chosen)
        except InvalidRequest:
            return False
        self.reading = replace(self.reading, options=replace(options, filter=chosen))
        return True

    def _keep_topics(self, topics: set[str]) -> None:
        self.topics = frozenset(topics if self.topics is None else self.topics & topics)

    def _keep_times(self, first_ms: int, end_ms: int | None) -> None:
        self.start = max(self.start, first_id_at(max(0, first_ms)))
        if end_ms is not None:
            self.end = min(self.end, first_id_at(max(0, end_ms)))
