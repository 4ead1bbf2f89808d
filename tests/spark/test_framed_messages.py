"""Keys and headers in Spark: written from Kafka's columns too, read, archived and replayed."""

from pathlib import Path

import pytest
from pyspark.sql import Row, SparkSession
from pyspark.sql import functions as f

import tms
from tms.core.values.message import tombstone
from tms.spark.jobs.archive import archive
from tms.spark.jobs.replay import replay

pytestmark = pytest.mark.slow

Options = dict[str, str]
MESSAGES = [
    tms.Message(b"alone"),
    tms.Message(b"keyed", b"k"),
    tms.Message(b"all", b"", {"a": b"\xff", "b": b""}),
    tombstone(b"k"),
]


def contents(client: tms.Client, name: str) -> list[tms.Message]:
    return [message._replace(id=b"") for message in client.topic(name).poll(committed=True)]


def test_keys_and_headers_are_read_and_written_back(
    spark: SparkSession, client: tms.Client, options: Options
) -> None:
    for name in ("from", "to", "kafka"):
        client.topic(name).create()
    client.topic("from").publish(MESSAGES)
    rows = spark.read.format("tms").options(**options, subscribe="from").load()

    read = rows.orderBy("message_id").select("payload", "key", "headers").collect()
    assert read == [
        Row(payload=bytearray(b"alone"), key=None, headers=None),
        Row(payload=bytearray(b"keyed"), key=bytearray(b"k"), headers=None),
        Row(
            payload=bytearray(b"all"),
            key=bytearray(b""),
            headers={"a": bytearray(b"\xff"), "b": bytearray(b"")},
        ),
        Row(payload=None, key=bytearray(b"k"), headers=None),
    ]
    rows.orderBy("message_id").drop("topic").write.format("tms").mode("append").options(
        **options, topic="to"
    ).save()
    assert contents(client, "to") == MESSAGES

    schema = "key BINARY, value BINARY, headers MAP<STRING, BINARY>, message_id STRING"
    kafka = spark.read.format("tms").schema(schema).options(**options, subscribe="from").load()
    ordered = kafka.where("key IS NOT NULL").orderBy("message_id")
    as_kafka_has_them = f.expr("transform(map_entries(headers), e -> struct(e.key, e.value))")
    ordered.select("key", "value", as_kafka_has_them.alias("headers")).write.format("tms").mode(
        "append"
    ).options(**options, topic="kafka").save()
    assert contents(client, "kafka") == MESSAGES[1:]


def test_an_archive_has_keys_and_gives_them_back(
    spark: SparkSession, client: tms.Client, options: Options, tmp_path: Path
) -> None:
    for name in ("from", "again"):
        client.topic(name).create()
    client.topic("from").publish(MESSAGES)
    folder = str(tmp_path / "archive")
    archive(spark, {**options, "subscribe": "from"}, folder)
    replay(spark, folder, {**options, "topic": "again"})

    assert contents(client, "again") == MESSAGES
