"""The entry point of `format("tms")` for Spark, which chooses readers and writers.

Importing this needs PySpark 4 and little else, because Spark imports it, through `pyspark_tms`,
when any Python data source is first used. With a PySpark before 4.2 it raises an error when used.
"""

from typing import TYPE_CHECKING, ClassVar

import pyspark
from pyspark.sql.datasource import DataSource
from pyspark.sql.types import StructType

from tms.core.errors import TmsError
from tms.spark.prerequisites import without_own_trace

if TYPE_CHECKING:
    import pyarrow as pa

    from tms.spark.reader import BatchReader
    from tms.spark.stream import RefusedStream, StreamReader
    from tms.spark.typed.schema import ReaderSchema
    from tms.spark.writer import BatchWriter, StreamWriter

PYSPARK_MIN = (4, 2)


def check_version(version: str) -> None:
    """Raise `ImportError` for a PySpark that is too old."""
    major, minor = (int(part) for part in version.split(".")[:2])
    if (major, minor) < PYSPARK_MIN:
        needed = ".".join(map(str, PYSPARK_MIN))
        raise ImportError(
            f"format('tms') needs PySpark {needed} or newer, and this is {version}: "
            f"pip install 'pyspark>={needed}'"
        )


class TmsDataSource(DataSource):
    """Topics as a data source of Spark."""

    pushes_down: ClassVar[bool] = False
    """Whether filters are pushed down without the option `pushdown`."""

    def __init__(self, options: dict[str, str]) -> None:
        """Take the options unchecked. Raises `ImportError` for a PySpark before 4.2."""
        check_version(pyspark.__version__)
        super().__init__(options)
        self._found: ReaderSchema | None = None

    @classmethod
    def name(cls) -> str:
        """Return the name of the format."""
        return "tms"

    @without_own_trace
    def schema(self) -> StructType:
        """Return the columns of a reader without a user's schema.

        With the option `schema` the registry determines them. Spark calls this when a reader is
        loaded, so wrong options are reported then. Raises `InvalidRequest`, `SchemaRefused`,
        `TopicNotFound`.
        """
        # Arrow is loaded on first use.
        from tms.spark.columns import DEFAULT_SCHEMA, of_topics, typed_schema  # noqa: PLC0415
        from tms.spark.options import any_read  # noqa: PLC0415
        from tms.spark.typed.names import TOPIC  # noqa: PLC0415

        topics = str(any_read(self.options))
        reader = self._reader_schema()
        if reader is None:
            return of_topics(DEFAULT_SCHEMA, "topic", topics)
        return of_topics(typed_schema(reader.default_columns()), TOPIC, topics)

    def _reader_schema(self) -> "ReaderSchema | None":
        """Return the schema that reads payloads; Spark sends it to the reader."""
        if "schema" in self.options and self._found is None:
            from tms.spark.options import any_read  # noqa: PLC0415
            from tms.spark.server import SparkServer  # noqa: PLC0415
            from tms.spark.typed.schema import reader_schema  # noqa: PLC0415

            options = any_read(self.options)
            assert options.schema is not None
            with SparkServer(options.connection) as server:
                names = options.chosen(server.topics() if options.pattern is not None else ())
                self._found = reader_schema(
                    server.schemas,
                    names,
                    options.schema,
                    gives_damaged=options.gives_damaged,
                    message=options.message,
                )
        return self._found

    def _arrow(self, schema: StructType) -> "pa.Schema":
        """Return the columns of a reader in Arrow. Raises `InvalidRequest`."""
        from tms.spark.columns import arrow_schema, typed_arrow_schema  # noqa: PLC0415

        reader = self._reader_schema()
        if reader is None:
            return arrow_schema(schema)
        return typed_arrow_schema(schema, reader.columns())

    @without_own_trace
    def reader(self, schema: StructType) -> "BatchReader":
        """Return the reader of a batch. Raises `InvalidRequest`."""
        from tms.spark.options import batch_read  # noqa: PLC0415
        from tms.spark.reader import BatchReader, PushdownReader  # noqa: PLC0415

        options = batch_read(self.options)
        pushes = options.pushdown or (self.pushes_down and "pushdown" not in self.options)
        kind = PushdownReader if pushes else BatchReader
        return kind(options, self._arrow(schema), self._reader_schema())

    def streamReader(  # noqa: N802  Spark's name
        self, schema: StructType
    ) -> "StreamReader | RefusedStream":
        """Return the reader of a stream, or one that raises on use if it cannot be read."""
        from tms.spark.options import stream_read  # noqa: PLC0415
        from tms.spark.stream import RefusedStream, StreamReader  # noqa: PLC0415

        try:
            options = stream_read(self.options)
            return StreamReader(options, self._arrow(schema), self._reader_schema())
        except TmsError as error:
            return RefusedStream(error)

    @without_own_trace
    def writer(self, schema: StructType, overwrite: bool) -> "BatchWriter":  # noqa: FBT001
        """Return the writer of a batch. Raises `InvalidRequest`."""
        from tms.spark.option_values import refuse  # noqa: PLC0415
        from tms.spark.options import batch_write  # noqa: PLC0415
        from tms.spark.writer import BatchWriter  # noqa: PLC0415

        if overwrite:
            refuse("mode", "messages are appended, never overwritten", "overwrite")
        return BatchWriter(batch_write(self.options), schema.fieldNames())

    @without_own_trace
    def streamWriter(  # noqa: N802  Spark's name
        self,
        schema: StructType,
        overwrite: bool,  # noqa: ARG002, FBT001
    ) -> "StreamWriter":
        """Return the writer of a stream. Raises `InvalidRequest`.

        `overwrite` is the output mode `complete`: the whole result is published again, after the
        messages of the batch before.
        """
        from tms.spark.options import stream_write  # noqa: PLC0415
        from tms.spark.server import SparkServer  # noqa: PLC0415
        from tms.spark.writer import StreamWriter, known_schema  # noqa: PLC0415

        options = stream_write(self.options)
        with SparkServer(options.connection) as server:
            server.check_arrow()
            topic_schema = known_schema(server, options)
        return StreamWriter(options, schema.fieldNames(), topic_schema)


class PushdownDataSource(TmsDataSource):
    """A data source for sessions that push down filters."""

    pushes_down = True
