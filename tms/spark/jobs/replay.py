"""Publishes an archive to topics again: in order, and once however often it runs.

The whole replay is one transaction, so readers see all of it at once, or nothing. Its owner is the
name of the replay, by default derived from the arguments, so running the same replay again changes
nothing. Messages get new ids and times; with `envelope` each is a JSON object with the old ones:

    {"topic": "orders", "message_id": "0000…", "timestamp": 1760000000000, "payload": "aGVsbG8="}

with the payload in base64.
"""

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as f
from pyspark.sql.types import StringType, StructField, StructType

from tms.core.errors import InvalidRequest, TransactionDuplicate
from tms.spark.batch_owner import BATCH_ORIGIN, named_owner, start
from tms.spark.options import batch_write
from tms.spark.server import SparkServer

_NAME_CHARS = 32


@dataclass(frozen=True, slots=True)
class Replayed:
    """The result of a replay."""

    messages: int
    payload_bytes: int
    bad: int
    """Rows without a payload or a topic, which went to the folder for them."""
    name: str
    """The `txnAppId` of the replay."""
    is_duplicate: bool
    """Whether it had been done before, so nothing was published now."""


@dataclass(frozen=True, slots=True)
class Selection:
    """The part of an archive to replay."""

    topics: tuple[str, ...] = ()
    """None for all."""
    start: str | None = None
    """The first publish time, as Spark reads a timestamp."""
    end: str | None = None
    """Exclusive."""

    def of(self, rows: DataFrame) -> DataFrame:
        """Return the selected rows."""
        if self.topics:
            rows = rows.where(f.col("topic").isin(*self.topics))
        if self.start is not None:
            rows = rows.where(f.col("timestamp") >= f.lit(self.start).cast("timestamp"))
        if self.end is not None:
            rows = rows.where(f.col("timestamp") < f.lit(self.end).cast("timestamp"))
        return rows


def replay(
    spark: SparkSession,
    folder: str,
    target: Mapping[str, str],
    selection: Selection = Selection(),
    *,
    envelope: bool = False,
    name: str | None = None,
    bad: str | None = None,
) -> Replayed:
    """Publish the selected messages of the archive in `folder`, in order; return their count.

    `target` has options of `df.write.format("tms")`: the server, and the `topic`, by default each
    message's original topic. `name` identifies the replay if it is repeated. Rows without payload
    and key, or without a topic, are written as Parquet to the folder `bad`; without that folder,
    `InvalidRequest` (invalid_row) is raised and nothing is done.
    """
    name = name or _name(folder, target, selection, envelope=envelope)
    options = batch_write({**target, "txnAppId": name, "txnVersion": "0"})
    with SparkServer(options.connection) as server:
        try:
            # Left open for the writer, which joins it.
            start(server, options, named_owner(options, 0, BATCH_ORIGIN))
        except TransactionDuplicate:
            return Replayed(0, 0, 0, name, is_duplicate=True)
    # Archives of earlier versions lack keys and headers; a folder may have files of both.
    archived = _archived(spark, folder)
    if not {"topic", "message_id", "payload"} <= set(archived.columns):
        expected = "topic, message_id, payload: an archive without types"
        raise InvalidRequest("invalid_row", folder=folder, expected=expected)
    rows = selection.of(archived)
    frames = [f.col(name) for name in ("key", "headers") if name in rows.columns]
    has_content = f.col("payload").isNotNull()
    if frames:
        has_content |= f.col("key").isNotNull()
    is_good = has_content & f.col("topic").isNotNull()
    totals = rows.agg(
        f.count_if(is_good).alias("messages"),
        f.coalesce(f.sum(f.octet_length("payload")), f.lit(0)).alias("payload_bytes"),
        f.count_if(~is_good).alias("bad"),
    ).collect()[0]
    if totals.bad:
        if bad is None:
            expected = "a payload or a key, and a topic; or `bad`, where other rows go"
            raise InvalidRequest("invalid_row", rows=totals.bad, folder=folder, expected=expected)
        rows.where(~is_good).write.mode("overwrite").parquet(bad)
    good = rows.where(is_good).orderBy("message_id", "topic")
    payload = _enveloped() if envelope else f.col("payload")
    sent = good.select("topic", payload.alias("payload"), *frames)
    written = sent.write.format("tms").mode("append").options(**target)
    written.options(txnAppId=name, txnVersion="0").save()
    return Replayed(totals.messages, totals.payload_bytes, totals.bad, name, is_duplicate=False)


def _archived(spark: SparkSession, folder: str) -> DataFrame:
    """Return the rows of an archive. Topics are text, even if folders look like numbers."""
    reader = spark.read.option("mergeSchema", "true")
    archived = reader.parquet(folder)
    fields = [
        StructField(each.name, StringType() if each.name == "topic" else each.dataType)
        for each in archived.schema
    ]
    return reader.schema(StructType(fields)).parquet(folder)


def _name(folder: str, target: Mapping[str, str], selection: Selection, *, envelope: bool) -> str:
    options = {key.lower(): value for key, value in target.items()}
    where = [options.get("namespace"), options.get("topic")]
    parts = [folder, where, selection.topics, selection.start, selection.end, envelope]
    digest = hashlib.sha256(json.dumps(parts).encode()).hexdigest()
    return f"replay-{digest[:_NAME_CHARS]}"


def _enveloped() -> Column:
    return f.to_json(
        f.struct(
            "topic",
            "message_id",
            f.unix_millis("timestamp").alias("timestamp"),
            f.base64("payload").alias("payload"),
        )
    )
