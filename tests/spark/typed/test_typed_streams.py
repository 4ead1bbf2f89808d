"""Streams of typed rows while the subject is changed and deleted at the same time."""

import json
from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql import SparkSession
from pyspark.sql.streaming.query import StreamingQuery

import tms
from tests.serdes.compiling import record

Options = dict[str, str]
V1 = json.dumps(record("Order", id="string"))
V2 = json.dumps(record("Order", id="string", count=("int", 1)))
V3 = json.dumps(record("Order", id="string", note=(["null", "string"], None)))
WAIT_S = 60


class Copying:
    """Typed streams that copy `orders` to `copies`, on one checkpoint."""

    def __init__(self, spark: SparkSession, options: Options, checkpoint: str) -> None:
        self._spark = spark
        self._options = options
        self._checkpoint = checkpoint

    def start(self, *, is_short: bool = False, **more: str) -> StreamingQuery:
        asked = {"subscribe": "orders", "startingOffsets": "earliest", "schema": "latest"}
        rows = self._spark.readStream.format("tms").options(**self._options, **asked, **more)
        loaded = rows.load()
        loaded = loaded.drop("_error", "_payload").where("id IS NOT NULL")
        writer = loaded.writeStream.format("tms").options(**self._options, topic="copies")
        writer = writer.options(schema="latest", checkpointLocation=self._checkpoint)
        return (writer.trigger(availableNow=True) if is_short else writer).start()

    def run(self, **more: str) -> None:
        self.start(is_short=True, **more).awaitTermination(WAIT_S)


def values(client: tms.Client, name: str) -> list[Any]:
    decoded = client.topic(name).poll(decode=tms.Decoding(damaged="give"))
    return [record.value for record in decoded]


def test_a_stream_continues_while_its_subject_is_changed_and_deleted(
    spark: SparkSession, client: tms.Client, options: Options, checkpoint: str
) -> None:
    for name in ("orders", "copies"):
        client.topic(name).create()
    subjects = [f"{client.namespace}:{name}-value" for name in ("orders", "copies")]
    client.topic("orders").publish({"id": "a"}, schema=V1)
    client.registry.register(subjects[1], V2)
    query = Copying(spark, options, checkpoint).start()
    query.processAllAvailable()
    client.topic("orders").publish({"id": "b", "count": 2}, schema=V2)
    client.topic("orders").publish({"id": "c", "note": "x"}, schema=V3)
    query.processAllAvailable()
    client.topic("orders").publish({"id": "d"}, schema=V1)
    client.registry.delete(subjects[0])
    query.processAllAvailable()
    query.stop()

    # The reader keeps the schema that it had when the stream began, which has no count.
    assert values(client, "copies") == [{"id": name, "count": 1} for name in "abcd"]


@pytest.mark.slow
def test_a_stream_started_again_reads_by_the_version_that_is_the_latest_then(
    spark: SparkSession, client: tms.Client, options: Options, checkpoint: str
) -> None:
    for name in ("orders", "copies"):
        client.topic(name).create()
    client.registry.register(f"{client.namespace}:copies-value", V2)
    copying = Copying(spark, options, checkpoint)
    client.topic("orders").publish({"id": "a"}, schema=V1)
    copying.run()
    client.topic("orders").publish({"id": "b", "count": 2}, schema=V2)
    copying.run()
    client.topic("orders").publish(b"no schema")
    with pytest.raises(StreamingQueryException, match="does not begin with a zero byte"):
        copying.run()
    client.topic("orders").publish({"id": "c"}, schema=V1)
    copying.run(damaged="give")

    assert values(client, "copies") == [
        {"id": "a", "count": 1}, {"id": "b", "count": 2}, {"id": "c", "count": 1}
    ]  # fmt: skip


@pytest.mark.slow
def test_payloads_whose_schema_is_deleted_for_good_are_damaged(
    spark: SparkSession, client: tms.Client, options: Options, checkpoint: str, tmp_path: Path
) -> None:
    for name in ("orders", "copies"):
        client.topic(name).create()
    subjects = [f"{client.namespace}:{name}-value" for name in ("orders", "copies")]
    client.registry.register(subjects[1], V2)
    only_here = V1.replace('"Order"', f'"Only{client.namespace}"')
    client.topic("orders").publish({"id": "a"}, schema=only_here)
    for permanent in (False, True):
        client.registry.delete(subjects[0], permanent=permanent)
    client.topic("orders").publish({"id": "b"}, schema=V2.replace('"Order"', '"Other"'))
    Copying(spark, options, checkpoint).run(damaged="give")
    rows = spark.read.format("tms").options(**options, subscribe="orders", schema="latest")
    errors = [row._error for row in rows.option("damaged", "give").load().collect()]

    assert values(client, "copies") == [{"id": "b", "count": 1}]
    assert errors[1:] == [None]
    assert "not found" in errors[0]
