"""Topics to Parquet, exactly once: `FOLDER/topic=T/date=D/batch=N/*.parquet`.

The columns are those of `format("tms")`; dates are those of publishing, in UTC, whatever the
session's time zone is. `FOLDER/_checkpoint` says how far the archive has come, so that the next run
goes on there, and the archive can be moved as a whole. A batch that is repeated after a crash holds
the same messages, and takes the place of what it had written. So any reader of Parquet sees each
message once, save while a batch that crashed is being written again.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f

from tms.spark.jobs.running import OnBatch, nothing, run_to_its_end

ROWS_PER_BATCH = 1_000_000
ROWS_PER_FILE = 1_000_000
CHECKPOINT = "_checkpoint"
"""Readers pass over names that begin so."""

_OBSERVED = "archived"
_DATE = "date_from_unix_date(cast(floor(unix_millis(timestamp) / 86400000) as int))"


@dataclass(frozen=True, slots=True)
class Archived:
    """What a run has added to the archive."""

    messages: int
    payload_bytes: int
    batches: int


def archive(
    spark: SparkSession,
    source: Mapping[str, str],
    folder: str,
    *,
    rows_per_batch: int = ROWS_PER_BATCH,
    on_batch: OnBatch = nothing,
) -> Archived:
    """Add to the archive in `folder` what has come since its last run; return how much that is.

    `source` has options of `spark.readStream.format("tms")`: the server and the topics, and where
    to begin, which is the oldest message unless it says otherwise. Each batch of about
    `rows_per_batch` messages adds a file for each topic and date that it has. Raises `DataLost`,
    within Spark's `StreamingQueryException`, where messages expired before they were archived.
    """
    options = {"startingOffsets": "earliest", "maxOffsetsPerTrigger": str(rows_per_batch)}
    if {name.lower() for name in source} & {"startingtimestamp", "startingoffsetsbytimestamp"}:
        del options["startingOffsets"]
    rows = spark.readStream.format("tms").options(**options).options(**source).load()
    observed = rows.observe(
        _OBSERVED,
        f.count("*").alias("messages"),
        f.coalesce(f.sum(f.octet_length("payload")), f.lit(0)).alias("payload_bytes"),
    )
    query = (
        observed.withColumn("date", f.expr(_DATE))
        .writeStream.foreachBatch(lambda batch, number: _write(batch, number, folder))
        .option("checkpointLocation", f"{folder}/{CHECKPOINT}")
        .trigger(availableNow=True)
        .start()
    )
    reports = run_to_its_end(query, _OBSERVED, on_batch)
    return Archived(
        sum(report["messages"] for report in reports),
        sum(report["payload_bytes"] for report in reports),
        len(reports),
    )


def _write(batch: DataFrame, number: int, folder: str) -> None:
    """Write a batch, in the place of what an earlier attempt at it has left."""
    (
        batch.withColumn("batch", f.lit(number))
        .repartition("topic", "date")
        .sortWithinPartitions("topic", "date", "message_id")
        .write.mode("overwrite")
        .option("partitionOverwriteMode", "dynamic")
        .option("maxRecordsPerFile", ROWS_PER_FILE)
        .partitionBy("topic", "date", "batch")
        .parquet(folder)
    )
