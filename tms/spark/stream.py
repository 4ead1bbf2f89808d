"""How Spark reads topics as a stream: batch after batch, each from where the one before ended.

Guarantees that a batch, once its end is in the checkpoint, is the same rows whenever it is read,
and that batches leave nothing out in between: a topic that is gone, created anew or overtaken by
its time to live is a loss, which fails the stream or is logged (`failOnDataLoss`). So is a topic of
the checkpoint that is not read any more; its offset is kept, and it is read on from there if it
comes back. Topics that come later are read from their oldest message on.
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
from tms.spark.prerequisites import told_plainly
from tms.spark.reader import ReadPlan, standings_for
from tms.spark.server import SparkServer
from tms.spark.typed.schema import ReaderSchema


class StreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Reads what comes, in one long-lived process of the driver's; tasks have copies of it."""

    def __init__(
        self, options: ReadOptions, schema: pa.Schema, reader: ReaderSchema | None = None
    ) -> None:
        """Ask the server nothing yet."""
        self._reading = ReadPlan(options, schema, reader)
        self._open_server: SparkServer | None = None
        self._target: Offsets | None = None
        """Where a run ends that takes what is available now."""
        self._nothing_behind: dict[tuple[str, Offset], int] = {}
        """When a topic's end was looked at last: nothing was behind it by then."""
        self._ends: Offsets = {}
        self._waits_until = 0.0
        """Until when a batch waits for `rows_min` messages, by the monotonic clock."""
        self._told_left: set[str] = set()
        """Topics that are not read any more, of which that was told."""

    def __getstate__(self) -> dict[str, Any]:
        """Leave behind what a task has no use for."""
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

    @told_plainly
    def initialOffset(self) -> dict[str, str]:  # noqa: N802  Spark's names, here and below
        """Return where a new stream begins. Raises `TopicNotFound`."""
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
        """Return what a batch may have at most; `latestOffset` knows of both limits by itself."""
        options = self._reading.options
        if options.rows_per_trigger is not None:
            return ReadMaxRows(options.rows_per_trigger)
        if options.bytes_per_trigger is not None:
            return ReadMaxBytes(options.bytes_per_trigger)
        return ReadAllAvailable()

    @told_plainly
    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802
        """Take note of what is available now: this run goes no further."""
        standings, _ = self._server.standings(self._topics({}), self._reading.options.isolation)
        self._target, _ = latest({}, standings)

    @told_plainly
    def latestOffset(  # noqa: N802
        self, start: dict[str, str], limit: ReadLimit
    ) -> dict[str, str]:
        """Return where the next batch ends. Raises `DataLost`."""
        begin = read_back(start)
        topics = self._topics(begin)
        kept, losses = left(begin, topics)
        self._reading.lose(each for each in losses if each.topic not in self._told_left)
        self._told_left |= kept.keys()
        begin = {topic: at for topic, at in begin.items() if topic not in kept}
        standings, time_ms = standings_for(
            self._server, topics, begin, self._reading, self._nothing_behind
        )
        found, losses = latest(begin, standings)
        self._reading.lose(losses)
        ends: Offsets = found
        self._ends = {**found, **kept}
        self._nothing_behind = {
            key: seen_ms for key, seen_ms in self._nothing_behind.items() if key in begin.items()
        } | dict.fromkeys(found.items(), time_ms)
        if self._target is not None:
            ends = _no_further(ends, begin, self._target)
        elif self._is_to_wait(begin, ends):
            return start
        if not isinstance(limit, ReadAllAvailable):
            ends = self._limited(begin, ends)
        return written({**ends, **kept})

    def _is_to_wait(self, begin: Offsets, ends: Offsets) -> bool:
        """Whether a batch is to wait for more messages; the first one of a run does not."""
        options, now = self._reading.options, time.monotonic()
        if options.rows_min is None:
            return False
        if now < self._waits_until:
            there, _ = self._server.standings(ends, options.isolation)
            ranges = plan(begin, ends, there).ranges
            found = self._server.first(ranges, options.isolation, options.rows_min)
            if sum(reach.messages for reach in found) < options.rows_min:
                return True
        self._waits_until = now + options.delay_s
        return False

    def _limited(self, begin: Offsets, ends: Offsets) -> Offsets:
        """Return ends that as many rows and bytes reach as a trigger may have."""
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
        """Return where topics stood when last looked at; progress reports tell the lag by it."""
        return written(self._ends) if self._ends else None

    @told_plainly
    def partitions(self, start: dict[str, str], end: dict[str, str]) -> Sequence[InputPartition]:
        """Return what the tasks of a batch read. Raises `DataLost`."""
        begin, finish = read_back(start), read_back(end)
        finish = {topic: at for topic, at in finish.items() if begin.get(topic) != at}
        standings, _ = standings_for(
            self._server, finish, begin, self._reading, self._nothing_behind
        )
        planned = plan(begin, finish, standings)
        self._reading.lose(planned.losses)
        return list(self._reading.partitions(self._server, planned.ranges))

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Give a partition's rows."""
        return self._reading.rows(partition)

    def commit(self, end: dict[str, str]) -> None:
        """Do nothing: Spark's checkpoint is what says where the stream is."""

    def stop(self) -> None:
        """Close the connections."""
        if self._open_server is not None:
            self._open_server.close()


class RefusedStream(DataSourceStreamReader):
    """Tells why a stream cannot be read.

    What is raised while a reader is made, PySpark hides behind an error of its own.
    """

    def __init__(self, error: TmsError) -> None:
        """Raise `error` as soon as something is asked."""
        self._error = error

    @told_plainly
    def initialOffset(self) -> NoReturn:  # noqa: N802
        """Raise it."""
        raise self._error

    @told_plainly
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
    """Return `ends`, none of them behind the target, nor before where the stream has come to."""
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
