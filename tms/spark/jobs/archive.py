"""Topics to Parquet, exactly once: `FOLDER/topic=T/date=D/batch=N/*.parquet`.

The columns are those of `format("tms")`; dates are those of publishing, in UTC, whatever the
session's time zone is. `FOLDER/_checkpoint` has the progress, so the next run continues there, and
the archive can be moved as a whole. A batch that is repeated after a crash has the same messages,
and replaces what it had written. So any reader of Parquet sees each message once, except while a
crashed batch is being written again.

With the option `schema` the columns are those of typed rows, and the folders are `tms_topic=T`,
`tms_date=D` and `tms_batch=N`, because fields may have any other names. Messages that cannot be
decoded go to a topic of errors, if there is one, each once: the query and the batch identify what
was published.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as f

from tms.spark.jobs.running import OnBatch, nothing, run_to_its_end
from tms.spark.option_values import refuse
from tms.spark.options import GIVE, of_connection
from tms.spark.typed.names import ERROR, MESSAGE_ID, PAYLOAD, TOPIC

ROWS_PER_BATCH = 1_000_000
ROWS_PER_FILE = 1_000_000
CHECKPOINT = "_checkpoint"
"""Readers skip names with this prefix."""

_OBSERVED = "archived"
_STARTS = {"startingoffsets", "startingtimestamp", "startingoffsetsbytimestamp"}


@dataclass(frozen=True, slots=True)
class Archived:
    """The messages that a run added to the archive."""

    messages: int
    payload_bytes: int
    """0 for typed rows, because payloads are not stored then."""
    batches: int
    errors: int = 0
    """Messages that could not be decoded and went to the topic of errors."""


def archive(
    spark: SparkSession,
    source: Mapping[str, str],
    folder: str,
    *,
    rows_per_batch: int = ROWS_PER_BATCH,
    errors: str | None = None,
    on_batch: OnBatch = nothing,
) -> Archived:
    """Add messages since the last run to the archive in `folder`; return their count.

    `source` has options of `spark.readStream.format("tms")`: the server, the topics, and where to
    start, by default at the oldest message. With the option `schema`, rows are typed, and messages
    that cannot be decoded go to the topic `errors`, or raise an error without one. Each batch of
    about `rows_per_batch` messages adds a file for each of its topics and dates. Raises
    `InvalidRequest`, and, if messages expired before they were archived, `DataLost` within Spark's
    `StreamingQueryException`.
    """
    names = {name.lower() for name in source}
    if errors is not None and "schema" not in names:
        refuse("errors", "it needs schema: without one payloads are not decoded")
    options = {"maxOffsetsPerTrigger": str(rows_per_batch)}
    if not names & _STARTS:
        options["startingOffsets"] = "earliest"
    reader = spark.readStream.format("tms").options(**options).options(**source)
    rows = (reader if errors is None else reader.option("damaged", GIVE)).load()
    work = _Batches(folder, source, errors)
    work.check(rows.columns)
    query = (
        rows.observe(_OBSERVED, *work.observed())
        .writeStream.foreachBatch(work.write)
        .option("checkpointLocation", f"{folder}/{CHECKPOINT}")
        .trigger(availableNow=True)
        .start()
    )
    reports = run_to_its_end(query, _OBSERVED, on_batch)
    return Archived(
        sum(report["messages"] for report in reports),
        sum(report.get("payload_bytes", 0) for report in reports),
        len(reports),
        sum(report.get("errors", 0) for report in reports),
    )


class _Batches:
    """The batches of one archive."""

    def __init__(self, folder: str, source: Mapping[str, str], errors: str | None) -> None:
        self.is_typed = "schema" in {name.lower() for name in source}
        self._folder = folder
        self._errors = errors
        self._server = of_connection(source)
        own, prefix = ("_", "tms_") if self.is_typed else ("", "")
        self._topic, self._id, self._time = f"{own}topic", f"{own}message_id", f"{own}timestamp"
        self._folders = [f"{prefix}{name}" for name in ("topic", "date", "batch")]

    def observed(self) -> list[Column]:
        """Return what to observe in each batch."""
        if not self.is_typed:
            size = f.coalesce(f.sum(f.octet_length("payload")), f.lit(0))
            return [f.count("*").alias("messages"), size.alias("payload_bytes")]
        if self._errors is None:
            return [f.count("*").alias("messages")]
        counts = {"messages": f.col(ERROR).isNull(), "errors": f.col(ERROR).isNotNull()}
        return [f.count_if(count).alias(name) for name, count in counts.items()]

    def check(self, columns: list[str]) -> None:
        """Raise `InvalidRequest` for fields with the names of folders."""
        taken = {name.lower() for name in columns} & {*self._folders}
        if self.is_typed and taken:
            refuse("schema", f"folders of an archive have the name of its field {min(taken)}")

    def write(self, batch: DataFrame, number: int) -> None:
        """Write a batch, replacing the files of an earlier attempt."""
        if self._errors is None:
            self._write(batch, number)
            return
        batch.persist()
        try:
            damaged = batch.where(f.col(ERROR).isNotNull())
            if not damaged.isEmpty():
                self._tell(damaged, number, self._errors)
            self._write(batch.where(f.col(ERROR).isNull()).drop(ERROR, PAYLOAD), number)
        finally:
            batch.unpersist()

    def _write(self, batch: DataFrame, number: int) -> None:
        topic, date, batch_number = self._folders
        rows = batch.withColumn(
            date,
            f.expr(
                f"date_from_unix_date(cast(floor(unix_millis({self._time}) / 86400000) as int))"
            ),
        ).withColumn(batch_number, f.lit(number))
        if self.is_typed:
            rows = rows.withColumn(topic, f.col(self._topic))
        (
            rows.repartition(topic, date)
            .sortWithinPartitions(topic, date, self._id)
            .write.mode("overwrite")
            .option("partitionOverwriteMode", "dynamic")
            .option("maxRecordsPerFile", ROWS_PER_FILE)
            .partitionBy(*self._folders)
            .parquet(self._folder)
        )

    def _tell(self, damaged: DataFrame, number: int, errors: str) -> None:
        """Publish messages that cannot be decoded as JSON, once for each batch of the query."""
        line = f.to_json(
            f.struct(
                f.col(TOPIC).alias("topic"),
                f.col(MESSAGE_ID).alias("message_id"),
                f.col(ERROR).alias("error"),
                f.base64(PAYLOAD).alias("payload"),
            )
        )
        query = damaged.sparkSession.sparkContext.getLocalProperty("sql.streaming.queryId")
        assert query, "a batch of a stream has a query"
        writer = damaged.select(line.alias("payload")).write.format("tms").mode("append")
        writer = writer.options(**self._server, topic=errors)
        writer.options(txnAppId=f"archive-{query}", txnVersion=str(number)).save()
