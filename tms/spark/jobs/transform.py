"""Transforms a topic into another by SQL or a Python function, exactly once end to end.

A message that cannot be transformed does not stop the job: it goes to the topic of errors, in the
same transaction, as a JSON object with `topic`, `message_id`, `error` and `payload` (base64).

Keys and headers are kept: a function's results and errors have those of their message, and a
query's have those that it selects. A query that selects none fails at a message with some. A
tombstone has no payload to transform: a function is not called for it, and it is published
unchanged; a query that returns no payload for it returns an error.
"""

import base64
import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from operator import or_

import pyarrow as pa
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as f
from pyspark.sql.types import NullType

from tms.core.text.credentials import shortened
from tms.spark.jobs.running import OnBatch, nothing, run_to_its_end
from tms.spark.rows import HEADERS

VIEW = "messages"
"""The view that a query selects from."""

_OBSERVED = "transformed"
_WRITTEN = pa.schema(
    [
        *(("topic", pa.string()), ("payload", pa.binary())),
        *(("key", pa.binary()), ("headers", HEADERS), ("is_error", pa.bool_())),
    ]
)
_WRITTEN_DDL = (
    "topic STRING, payload BINARY, key BINARY, headers MAP<STRING, BINARY>, is_error BOOLEAN"
)
_KEPT = ("key", "headers")
_ERROR_CHARS_MAX = 1000

Function = Callable[[bytes], bytes | str | Iterable[bytes] | None]
"""Takes a payload, and returns another one, several, or None to drop the message."""


@dataclass(frozen=True, slots=True)
class Transformed:
    """The messages that a run published."""

    messages: int
    errors: int
    batches: int


@dataclass(frozen=True, slots=True)
class Destinations:
    """The destinations of messages."""

    topic: str
    errors: str


def transform(
    spark: SparkSession,
    source: Mapping[str, str],
    target: Mapping[str, str],
    how: str | Function,
    to: Destinations,
    *,
    checkpoint: str,
    until_stopped: bool = False,
    on_batch: OnBatch = nothing,
) -> Transformed:
    """Transform the messages since the last run on `checkpoint`; return their count.

    `source` has options of `readStream`, `target` those of `writeStream`. `how` is a function of a
    payload, or a query over the view `messages` (the columns of `format("tms")`, and `text`, the
    payload as a string, NULL if it is not UTF-8) that selects `payload`, text or bytes, and `key`
    and `headers`, which may be NULL, if messages have them; a row whose payload is NULL is an
    error, reported with its other columns. With `until_stopped` it continues with new messages.
    """
    options = {"startingOffsets": "earliest", **source}
    rows = spark.readStream.format("tms").options(**options).load()
    if isinstance(how, str):
        done = _by_query(spark, rows, how, to)
    else:
        done = rows.mapInArrow(_Applied(how, to), _WRITTEN_DDL)
    observed = done.observe(
        _OBSERVED,
        f.count_if(~f.col("is_error")).alias("messages"),
        f.count_if(f.col("is_error")).alias("errors"),
    )
    writer = observed.drop("is_error").writeStream.format("tms").options(**target)
    writer = writer.option("checkpointLocation", checkpoint)
    if not until_stopped:
        writer = writer.trigger(availableNow=True)
    reports = run_to_its_end(writer.start(), _OBSERVED, on_batch)
    return Transformed(
        sum(report["messages"] for report in reports),
        sum(report["errors"] for report in reports),
        len(reports),
    )


def _by_query(spark: SparkSession, rows: DataFrame, query: str, to: Destinations) -> DataFrame:
    made = _queried(spark, rows, query)
    lost = [name for name in _KEPT if name not in made.columns]
    if lost:
        made = _queried(spark, rows.where(_has_none(lost)), query)
    others = [name for name in made.columns if name not in ("payload", *_KEPT)]
    kept = [_typed(made, name) for name in _KEPT if name not in lost]
    error = f.to_json(
        f.struct(
            f.lit("the query gave no payload").alias("error"), *(f.col(name) for name in others)
        )
    )
    is_error = f.col("payload").isNull()
    return made.select(
        f.when(is_error, to.errors).otherwise(to.topic).alias("topic"),
        f.coalesce(f.col("payload").cast("binary"), error.cast("binary")).alias("payload"),
        *kept,
        is_error.alias("is_error"),
    )


def _queried(spark: SparkSession, rows: DataFrame, query: str) -> DataFrame:
    text = f.expr("try_validate_utf8(cast(payload AS STRING))")
    rows.withColumn("text", text).createOrReplaceTempView(VIEW)
    return spark.sql(query)


def _has_none(lost: Sequence[str]) -> Column:
    """Return a condition that accepts messages with nothing to lose, and fails at others."""
    names = " or ".join(lost)
    advice = f"a message has {names}, and the query selects none: SELECT {', '.join(lost)}, …"
    has_some = reduce(or_, (f.col(name).isNotNull() for name in lost))
    return f.when(has_some, f.raise_error(f.lit(advice)).cast("boolean")).otherwise(f.lit(True))


def _typed(made: DataFrame, name: str) -> Column:
    """Return the column of keys or headers, with its type even if all are NULL."""
    is_void = made.schema[name].dataType == NullType()
    kind = {"key": "binary", "headers": "map<string, binary>"}[name]
    return f.col(name).cast(kind) if is_void or name == "key" else f.col(name)


class _Applied:
    """A function, applied to the rows of a batch; Spark's workers have copies of it."""

    def __init__(self, function: Function, to: Destinations) -> None:
        self._function = function
        self._to = to

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            names = ("topic", "message_id", "payload")
            columns = (batch.column(name).to_pylist() for name in names)
            frames = batch.select(_KEPT).to_pylist()
            made = [
                {**one, **frame}
                for frame, *row in zip(frames, *columns, strict=True)
                for one in self._of(*row)
            ]
            yield pa.RecordBatch.from_pylist(made, schema=_WRITTEN)

    def _of(self, topic: str, message_id: str, payload: bytes | None) -> list[dict[str, object]]:
        if payload is None:
            return [{"topic": self._to.topic, "payload": None, "is_error": False}]
        try:
            return [
                {"topic": self._to.topic, "payload": one, "is_error": False}
                for one in _results(self._function(payload))
            ]
        except Exception as error:  # Whatever the error, it belongs to this message.
            fields = {
                "topic": topic,
                "message_id": message_id,
                "error": shortened(f"{type(error).__name__}: {error}", _ERROR_CHARS_MAX),
                "payload": base64.b64encode(payload).decode(),
            }
            errors = json.dumps(fields).encode()
            return [{"topic": self._to.errors, "payload": errors, "is_error": True}]


def _results(result: bytes | str | Iterable[bytes] | None) -> list[bytes]:
    match result:
        case None:
            return []
        case bytes():
            return [result]
        case str():
            return [result.encode()]
        case _:
            return [bytes(memoryview(one)) for one in result]
