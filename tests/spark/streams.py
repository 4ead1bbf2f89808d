"""Streams that are read as Spark reads them, without Spark."""

from typing import Self

import pyarrow as pa
from pyspark.sql.streaming.datasource import ReadAllAvailable

from tms.spark.columns import DEFAULT_SCHEMA, arrow_schema
from tms.spark.options import stream_read
from tms.spark.stream import StreamReader

Options = dict[str, str]
ALL = ReadAllAvailable()


class Stream:
    """Uses a reader as Spark does, in one process."""

    def __init__(self, options: Options, **more: str) -> None:
        wanted = stream_read({"startingOffsets": "earliest", **options, **more})
        self.reader = StreamReader(wanted, arrow_schema(DEFAULT_SCHEMA))
        self.offset: dict[str, str] = {}

    def start(self) -> Self:
        """Begin where a new stream does."""
        self.offset = self.reader.initialOffset()
        return self

    def plan(self, limit: object = ALL) -> tuple[dict[str, str], dict[str, str]]:
        """Return where the next batch begins and ends."""
        return self.offset, self.reader.latestOffset(self.offset, limit)  # type: ignore[arg-type]

    def read(self, start: dict[str, str], end: dict[str, str]) -> list[bytes]:
        """Return the payloads of a batch."""
        batches: list[pa.RecordBatch] = []
        for partition in self.reader.partitions(start, end):
            batches += self.reader.read(partition)
        return [payload for batch in batches for payload in batch.column("payload").to_pylist()]

    def take(self, limit: object = ALL) -> list[bytes]:
        """Return the payloads of the next batch, and advance past it."""
        start, end = self.plan(limit)
        self.offset = end
        return self.read(start, end)
