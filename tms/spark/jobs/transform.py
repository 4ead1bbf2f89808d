"""A topic to another by SQL or a Python function, exactly once from end to end.

A message that cannot be transformed does not stop the job: it goes to the topic of errors, in the
same transaction, as a JSON object of `topic`, `message_id`, `error` and `payload` (base64).
"""

import base64
import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f

from tms.core.credentials import shortened
from tms.spark.jobs.running import OnBatch, nothing, run_to_its_end

VIEW = "messages"
"""What a query selects from."""

_OBSERVED = "transformed"
_WRITTEN = pa.schema([("topic", pa.string()), ("payload", pa.binary()), ("is_error", pa.bool_())])
_ERROR_CHARS_MAX = 1000

Function = Callable[[bytes], bytes | str | Iterable[bytes] | None]
"""Takes a payload, and gives another, several, or None for no message at all."""


@dataclass(frozen=True, slots=True)
class Transformed:
    """What a run has published."""

    messages: int
    errors: int
    batches: int


@dataclass(frozen=True, slots=True)
class Destinations:
    """Where messages go."""

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
    """Transform what has come since the last run on `checkpoint`; return how much that is.

    `source` has options of `readStream`, `target` those of `writeStream`. `how` is a function of
    a payload, or a query over the view `messages` (the columns of `format("tms")`, and `text`, the
    payload as a string) that selects `payload`, text or bytes; a row whose payload is NULL is an
    error, told with the other columns selected. With `until_stopped` it goes on with what comes.
    """
    options = {"startingOffsets": "earliest", **source}
    rows = spark.readStream.format("tms").options(**options).load()
    if isinstance(how, str):
        done = _by_query(spark, rows, how, to)
    else:
        done = rows.mapInArrow(_Applied(how, to), "topic string, payload binary, is_error boolean")
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
    rows.withColumn("text", f.decode("payload", "utf-8")).createOrReplaceTempView(VIEW)
    made = spark.sql(query)
    others = [name for name in made.columns if name not in ("payload", "topic")]
    error = f.to_json(
        f.struct(
            f.lit("the query gave no payload").alias("error"), *(f.col(name) for name in others)
        )
    )
    is_error = f.col("payload").isNull()
    return made.select(
        f.when(is_error, to.errors).otherwise(to.topic).alias("topic"),
        f.coalesce(f.col("payload").cast("binary"), error.cast("binary")).alias("payload"),
        is_error.alias("is_error"),
    )


class _Applied:
    """A function, applied to the rows of a batch; Spark's workers have copies of it."""

    def __init__(self, function: Function, to: Destinations) -> None:
        self._function = function
        self._to = to

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            columns = (
                batch.column(name).to_pylist() for name in ("topic", "message_id", "payload")
            )
            made = [one for row in zip(*columns, strict=True) for one in self._of(*row)]
            yield pa.RecordBatch.from_pylist(made, schema=_WRITTEN)

    def _of(self, topic: str, message_id: str, payload: bytes) -> list[dict[str, object]]:
        try:
            return [
                {"topic": self._to.topic, "payload": one, "is_error": False}
                for one in _results(self._function(payload))
            ]
        except Exception as error:  # whatever it is, it is this message's
            told = {
                "topic": topic,
                "message_id": message_id,
                "error": shortened(f"{type(error).__name__}: {error}", _ERROR_CHARS_MAX),
                "payload": base64.b64encode(payload).decode(),
            }
            errors = json.dumps(told).encode()
            return [{"topic": self._to.errors, "payload": errors, "is_error": True}]


def _results(given: bytes | str | Iterable[bytes] | None) -> list[bytes]:
    match given:
        case None:
            return []
        case bytes():
            return [given]
        case str():
            return [given.encode()]
        case _:
            return [bytes(memoryview(one)) for one in given]
