"""Counts per topic and hour: messages, bytes, and rolled back messages."""

import json
from collections.abc import Mapping

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f

from tms.core.values.reading import Isolation
from tms.spark.offsets import Offset, written
from tms.spark.options import batch_read
from tms.spark.server import SparkServer

_HOUR = "timestamp_millis(cast(floor(unix_millis(timestamp) / 3600000) * 3600000 as bigint))"


def stats(spark: SparkSession, source: Mapping[str, str]) -> DataFrame:
    """Return a row per topic and hour (UTC) with messages, up to the oldest open transaction.

    `source` has options of `spark.read.format("tms")`. The columns: `topic`, `hour`, `messages` and
    `payload_bytes` of what is committed, `rolled_back` messages, and `rolled_back_share` of all.
    """
    ends = _stable_ends(source)
    counted = [
        _counted(spark, {**source, "isolation": isolation, **ends}, f"{isolation}_")
        for isolation in (Isolation.ALL, Isolation.COMMITTED)
    ]
    joined = counted[0].join(counted[1], ["topic", "hour"], "left").na.fill(0)
    rolled_back = f.col("all_messages") - f.col("committed_messages")
    return joined.select(
        "topic",
        "hour",
        f.col("committed_messages").alias("messages"),
        f.col("committed_payload_bytes").alias("payload_bytes"),
        rolled_back.alias("rolled_back"),
        (rolled_back / f.col("all_messages")).alias("rolled_back_share"),
    ).orderBy("topic", "hour")


def _stable_ends(source: Mapping[str, str]) -> dict[str, str]:
    """Return options that end both readers where the reader of committed messages ends."""
    if any(name.lower().startswith("ending") for name in source):
        return {}
    options = batch_read(source)
    with SparkServer(options.connection) as server:
        topics = options.chosen(server.topics() if options.pattern is not None else ())
        standings, _ = server.standings(topics, Isolation.COMMITTED)
    ends = {
        topic: Offset(standing.end, standing.generation)
        for topic, standing in standings.items()
        if standing is not None
    }
    return {"endingOffsets": json.dumps(written(ends))}


def _counted(spark: SparkSession, options: Mapping[str, str], prefix: str) -> DataFrame:
    rows = spark.read.format("tms").options(**options).load()
    return rows.groupBy("topic", f.expr(_HOUR).alias("hour")).agg(
        f.count("*").alias(f"{prefix}messages"),
        f.sum(f.octet_length("payload")).alias(f"{prefix}payload_bytes"),
    )
