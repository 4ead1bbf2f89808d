"""Keys and headers in Spark: written from Kafka's columns too, read, archived and replayed."""

from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.sql import Row, SparkSession
from pyspark.sql import functions as f
from pyspark.sql.datasource import EqualTo

import tms
from tests.waiting import wait_until
from tms.core.values.message import tombstone
from tms.spark.jobs.archive import archive
from tms.spark.jobs.replay import replay
from tms.spark.options import batch_read
from tms.spark.reader import PushdownReader

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


def test_a_filter_chooses_the_rows_and_an_equal_key_is_pushed_down(
    spark: SparkSession, client: tms.Client, options: Options
) -> None:
    client.topic("some").create()
    keys = (b"eu-%d" % (at % 10) if at % 2 else b"us" for at in range(500))
    client.topic("some").publish([tms.Message(key, key) for key in keys])
    chosen = {**options, "subscribe": "some", "filter": 'key ^= "eu-"', "minPartitions": "3"}

    rows = spark.read.format("tms").options(**chosen).load()
    assert rows.count() == 250
    assert {bytes(row.payload)[:3] for row in rows.collect()} == {b"eu-"}
    assert rows.where("key = CAST('eu-3' AS BINARY)").count() == 50
    reader = PushdownReader(batch_read(chosen), pa.schema([]))
    assert list(reader.pushFilters([EqualTo(("key",), b"eu-3")])) == []
    assert reader.reading.options.filter == 'key = "eu-3" and (key ^= "eu-")'
    long = EqualTo(("key",), b"x" * 1_000)
    assert list(reader.pushFilters([long])) == [long]


def test_dead_letters_are_read_by_their_topic_alone_and_stay_with_their_group(
    spark: SparkSession, client: tms.Client, options: Options
) -> None:
    orders = client.topic("orders")
    orders.create()
    group = orders.group("billing")
    group.create(attempts_max=1)
    orders.publish([b"good", tms.Message(b"bad", b"k", {"a": b"1"})])
    for message in group.take_once(2):
        if message.payload == b"bad":
            message.reject("no such customer")
        else:
            message.ack()
    wait_until(lambda: group.dead_letters().letters, "a dead letter")
    before = group.dead_letters()

    def read(topic: str) -> list[Row]:
        rows = spark.read.format("tms").options(**options, subscribe=topic).load()
        return rows.orderBy("message_id").select("payload", "key", "headers").collect()

    assert [bytes(row.payload) for row in read("orders")] == [b"good", b"bad"]
    [row] = read("orders--dead")
    assert (bytes(row.payload), bytes(row.key)) == (b"bad", b"k")
    headers = {name: bytes(value) for name, value in row.headers.items()}
    assert headers["a"] == b"1"
    assert headers["tms-dead-id"] == before.letters[0].origin.id.hex().encode()
    assert headers["tms-dead-reason"] == b"no such customer"
    assert headers["tms-dead-disposition"] == b"rejected"
    assert group.dead_letters() == before
    assert group.redrive().redriven == 1
    [again] = group.take_once()
    again.ack()
    assert [bytes(row.payload) for row in read("orders--dead")] == [b"bad"]


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
