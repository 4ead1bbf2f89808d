"""How Spark reads topics as a stream, in consecutive batches.

Guarantees that a batch, once its end is in the checkpoint, always has the same rows, and that
nothing is left out between batches: a topic that was deleted, recreated or overtaken by its time to
live is a loss, which fails the stream or is logged (`failOnDataLoss`). So is a topic in the
checkpoint that is no longer read; its offset is kept, and reading continues there if it comes back.
New topics are read from their oldest message on.
"""

import time
from collections.abc import Iterator, Sequence
from typing import Any, NoReturn

import pyarrow as pa
from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import (
    ReadAllAvailable,
    ReadLimit,
    ReadMaxBytes,
    ReadMaxRows,
    SupportsTriggerAvailableNow,
)

from tms.core.errors import TmsError, TopicNotFound
from tms.spark.offsets import Offset, Offsets, read_back, written
from tms.spark.option_types import ReadOptions
from tms.spark.plan import latest, left, plan, shares
from tms.spark.prerequisites import without_own_trace
from tms.spark.reader import ReadPlan, standings_for
from tms.spark.server import SparkServer
from tms.spark.typed.schema import ReaderSchema


class StreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Reads new messages, in one long-lived process of the driver; tasks have copies of it."""

    def __init__(
        self, options: ReadOptions, schema: pa.Schema, reader: ReaderSchema | None = None
    ) -> None:
        """Contact no server yet."""
        self._reading = ReadPlan(options, schema, reader)
        self._open_server: SparkServer | None = None
        self._target: Offsets | None = None
        """The end of a run that takes what is available now."""
        self._nothing_behind: dict[tuple[str, Offset], int] = {}
        """By topic, when its end was last read, with no message after it."""
        self._ends: Offsets = {}
        self._waits_until = 0.0
        """Until when a batch waits for `rows_min` messages, by the monotonic clock."""
        self._told_left: set[str] = set()
        """Topics that are no longer read, and whose loss was reported."""

    def __getstate__(self) -> dict[str, Any]:
        """Leave out what a task does not need."""
        return {"_reading": self._reading}

    @property
    def _server(self) -> SparkServer:
        if self._open_server is None:
            self._open_server = SparkServer(self._reading.options.connection)
            self._open_server.check_arrow()
        return self._open_server

    def _topics(self, also: Offsets) -> Sequence[str]:
        options = self._reading.options
        if options.pattern is None:
            return options.chosen(())
        return options.chosen({*self._server.topics(), *also})

    @without_own_trace
    def initialOffset(self) -> dict[str, str]:  # noqa: N802  Spark's names, here and below
        """Return where a new stream starts. Raises `TopicNotFound`."""
        options = self._reading.options
        standings, _ = self._server.standings(self._topics({}), options.isolation)
        starts: dict[str, Offset] = {}
        for topic, standing in standings.items():
            if standing is not None:
                starts[topic] = options.start_in(topic, standing)
            elif options.pattern is None:
                raise TopicNotFound(topic=topic)
        return written(starts)

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802
        """Return the limit of a batch; `latestOffset` applies both limits itself."""
        options = self._reading.options
        if options.rows_per_trigger is not None:
            return ReadMaxRows(options.rows_per_trigger)
        if options.bytes_per_trigger is not None:
            return ReadMaxBytes(options.bytes_per_trigger)
        return ReadAllAvailable()

    @without_own_trace
    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802
        """Record what is available now: this run stops there."""
        standings, _ = self._server.standings(self._topics({}), self._reading.options.isolation)
        self._target, _ = latest({}, standings)

    @without_own_trace
    def latestOffset(  # noqa: N802
        self, start: dict[str, str], limit: ReadLimit
    ) -> dict[str, str]:
        """Return where the next batch ends. Raises `DataLost`."""
        begin = read_back(start)
        topics = self._topics(begin)
        kept, losses = left(begin, topics)
        self._reading.lose(loss for loss in losses if loss.topic not in self._told_left)
        self._told_left |= kept.keys()
        begin = {topic: at for topic, at in begin.items() if topic not in kept}
        standings, time_ms = standings_for(
            self._server, topics, begin, self._reading, self._nothing_behind
        )
        offset, losses = latest(begin, standings)
        self._reading.lose(losses)
        ends: Offsets = offset
        self._ends = {**offset, **kept}
        self._nothing_behind = {
            key: seen_ms for key, seen_ms in self._nothing_behind.items() if key in begin.items()
        } | dict.fromkeys(offset.items(), time_ms)
        if self._target is not None:
            ends = _no_further(ends, begin, self._target)
        elif self._is_to_wait(begin, ends):
            return start
        if not isinstance(limit, ReadAllAvailable):
            ends = self._limited(begin, ends)
        return written({**ends, **kept})

    def _is_to_wait(self, begin: Offsets, ends: Offsets) -> bool:
        """Whether a batch should wait for more messages; the first one of a run does not."""
        options, now = self._reading.options, time.monotonic()
        if options.rows_min is None:
            return False
        if now < self._waits_until:
            there, _ = self._server.standings(ends, options.isolation)
            ranges = plan(begin, ends, there).ranges
            first = self._server.first(ranges, options.isolation, options.rows_min)
            if sum(reach.messages for reach in first) < options.rows_min:
                return True
        self._waits_until = now + options.delay_s
        return False

    def _limited(self, begin: Offsets, ends: Offsets) -> Offsets:
        """Return the ends that a trigger's limits on rows and bytes allow."""
        options = self._reading.options
        there, _ = self._server.standings(ends, options.isolation)
        ranges = plan(begin, ends, there).ranges
        if not ranges:
            return ends
        rows, size = options.rows_per_trigger, options.bytes_per_trigger
        sizes = dict.fromkeys((one.topic for one in ranges), 1)
        if len(ranges) > 1:
            sizes = {span.topic: span.size for span in self._server.splits(ranges, 1)}
        reaches = self._server.reaches(
            ranges,
            options.isolation,
            None if rows is None else shares(rows, sizes),
            None if size is None else shares(size, sizes),
        )
        limited = dict(ends)
        for one, reach in zip(ranges, reaches, strict=True):
            limited[one.topic] = ends[one.topic]._replace(position=reach)
        return limited

    def reportLatestOffset(self) -> dict[str, str] | None:  # noqa: N802
        """Return the last known ends of topics, from which progress reports compute the lag."""
        return written(self._ends) if self._ends else None

    @without_own_trace
    def partitions(self, start: dict[str, str], end: dict[str, str]) -> Sequence[InputPartition]:
        """Return the partitions of a batch's tasks. Raises `DataLost`."""
        begin, finish = read_back(start), read_back(end)
        finish = {topic: at for topic, at in finish.items() if begin.get(topic) != at}
        standings, _ = standings_for(
            self._server, finish, begin, self._reading, self._nothing_behind
        )
        planned = plan(begin, finish, standings)
        self._reading.lose(planned.losses)
        return list(self._reading.partitions(self._server, planned.ranges))

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Yield a partition's rows."""
        return self._reading.rows(partition)

    def commit(self, end: dict[str, str]) -> None:
        """Do nothing: Spark's checkpoint records the position of the stream."""

    def stop(self) -> None:
        """Close the connections."""
        if self._open_server is not None:
            self._open_server.close()


class RefusedStream(DataSourceStreamReader):
    """Reports why a stream cannot be read.

    PySpark hides errors raised while a reader is created behind one of its own.
    """

    def __init__(self, error: TmsError) -> None:
        """Raise `error` on the first call."""
        self._error = error

    @without_own_trace
    def initialOffset(self) -> NoReturn:  # noqa: N802
        """Raise it."""
        raise self._error

    @without_own_trace
    def latestOffset(  # noqa: N802
        self,
        start: dict[str, str],  # noqa: ARG002
        limit: ReadLimit,  # noqa: ARG002
    ) -> NoReturn:
        """Raise it."""
        raise self._error

    def partitions(self, start: dict[str, str], end: dict[str, str]) -> NoReturn:  # noqa: ARG002
        """Raise it."""
        raise self._error

    def read(self, partition: InputPartition) -> NoReturn:  # noqa: ARG002
        """Raise it."""
        raise self._error


def _no_further(ends: Offsets, begin: Offsets, target: Offsets) -> dict[str, Offset]:
    """Return `ends`, none of them after the target or before the stream's position."""
    limited: dict[str, Offset] = {}
    for topic, end in ends.items():
        before, last = begin.get(topic), target.get(topic)
        if last is None:
            if before is not None:
                limited[topic] = before
        elif last.generation != end.generation or before is None:
            limited[topic] = min(last, end)
        else:
            limited[topic] = max(before, min(last, end))
    return limited
