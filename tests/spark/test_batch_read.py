"""Batches: a read returns exactly what was published, in as many partitions as requested."""

from datetime import UTC, datetime

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f

import tms
from tms.spark.columns import DEFAULT_SCHEMA, arrow_schema
from tms.spark.options import batch_read
from tms.spark.reader import BatchReader

Options = dict[str, str]


def read(spark: SparkSession, options: Options, **more: str) -> DataFrame:
    return spark.read.format("tms").options(**options).options(**more).load()


def payloads(frame: DataFrame) -> list[bytes]:
    return [bytes(row.payload) for row in frame.orderBy("topic", "message_id").collect()]


def test_a_topic_is_read_with_what_identifies_its_messages(
    spark: SparkSession, client: tms.Client, options: Options
) -> None:
    topic = client.topic("orders")
    topic.create()
    topic.publish([b"one", b"\xff\x00", b"three"])
    told = list(topic.poll())
    rows = read(spark, options, subscribe="orders").orderBy("message_id").collect()

    assert [row.topic for row in rows] == ["orders"] * 3
    assert [row.message_id for row in rows] == [message.id.hex() for message in told]
    assert [bytes(row.payload) for row in rows] == [b"one", b"\xff\x00", b"three"]
    assert [row.seq for row in rows] == [0, 1, 2]
    assert {row.timestamp.timestamp() * 1000 for row in rows} == {
        message.publish_timestamp for message in told
    }


def test_no_message_is_lost_or_doubled_between_partitions(
    spark: SparkSession, client: tms.Client, options: Options
) -> None:
    for name in ("a", "b"):
        topic = client.topic(name)
        topic.create()
        for start in range(0, 30_000, 10_000):
            topic.publish([b"%s %d" % (name.encode(), n) for n in range(start, start + 10_000)])
    frame = read(spark, options, subscribePattern="[ab]", minPartitions="7")
    found = frame.groupBy("topic").agg(
        f.count("*").alias("n"),
        f.countDistinct("payload").alias("distinct"),
        f.countDistinct("message_id").alias("ids"),
    )

    assert {(row.topic, row.n, row.distinct, row.ids) for row in found.collect()} == {
        ("a", 30_000, 30_000, 30_000),
        ("b", 30_000, 30_000, 30_000),
    }


def test_what_is_rolled_back_or_in_progress_is_read_only_when_all_is_asked_for(
    spark: SparkSession, client: tms.Client, options: Options
) -> None:
    topic = client.topic("t")
    topic.create()
    topic.publish(b"plain")
    undone = client.transactions.start(tms.StartRequest())
    published = topic.publish(b"rolled back", undone)
    assert published is not None
    topic.rollback(published)
    client.transactions.abort(undone.transaction_id)
    with client.transaction() as tx:
        topic.publish(b"committed", tx)
    open_tx = client.transactions.start(tms.StartRequest())
    topic.publish(b"in progress", open_tx)
    topic.publish(b"behind it")

    assert payloads(read(spark, options, subscribe="t")) == [b"plain", b"committed"]
    everything = payloads(read(spark, options, subscribe="t", isolation="all"))
    assert everything == [b"plain", b"rolled back", b"committed", b"in progress", b"behind it"]


def test_stored_messages_are_read_with_the_times_they_were_stored(
    spark: SparkSession, client: tms.Client, options: Options
) -> None:
    topic = client.topic("t")
    topic.create()
    with client.transaction() as tx:
        topic.publish([b"x", b"y"], tx, buffer=True)
    schema = "payload binary, payload_seq int, payload_timestamp timestamp, message_id string"
    frame = spark.read.format("tms").schema(schema).options(**options, subscribe="t").load()
    rows = frame.orderBy("message_id").collect()

    assert [bytes(row.payload) for row in rows] == [b"x", b"y"]
    assert [row.payload_seq for row in rows] == [0, 1]
    assert all(row.payload_timestamp is not None for row in rows)


def test_a_range_of_times_and_of_ids(
    spark: SparkSession, client: tms.Client, options: Options
) -> None:
    topic = client.topic("t")
    topic.create()
    for n in range(4):
        topic.publish(b"%d" % n)
    ids = [message.id.hex() for message in topic.poll()]
    times = [message.publish_timestamp for message in topic.poll()]
    by_id = read(
        spark,
        options,
        subscribe="t",
        startingOffsets=f'{{"t": "{ids[1]}"}}',
        endingOffsets=f'{{"t": "{ids[3]}"}}',
    )
    by_time = read(
        spark, options, subscribe="t", startingTimestamp=str(times[1]), endingTimestamp="9" * 13
    )

    assert payloads(by_id) == [b"1", b"2"]
    assert payloads(by_time) == [b"%d" % n for n in range(4) if times[n] >= times[1]]


def test_an_empty_topic_has_no_rows(
    spark: SparkSession, client: tms.Client, options: Options
) -> None:
    client.topic("empty").create()

    assert read(spark, options, subscribe="empty").count() == 0
    assert read(spark, options, subscribePattern="nothing.*").count() == 0


@pytest.mark.parametrize(
    ("more", "said"),
    [
        ({"subscribe": "missing"}, "topic does not exist"),
        ({"subscribe": "t", "startingOfsets": "earliest"}, "did you mean startingOffsets"),
        ({"subscribe": "t", "subscribePattern": "t"}, "contradict"),
    ],
)
def test_errors_say_what_is_wrong(
    spark: SparkSession, options: Options, more: Options, said: str
) -> None:
    with pytest.raises(PySparkException) as caught:
        read(spark, options, **more).count()

    assert said in str(caught.value)


@pytest.mark.slow
def test_filters_on_topic_and_time_are_left_to_the_server(
    spark: SparkSession, client: tms.Client, options: Options
) -> None:
    for name in ("a", "b", "c"):
        topic = client.topic(name)
        topic.create()
        topic.publish([name.encode()] * 10)
    now = datetime.now(UTC)
    frame = read(spark, options, subscribePattern=".*", pushdown="true")
    kept = frame.where(f.col("topic").isin("a", "b") & (f.col("timestamp") <= f.lit(now)))
    plan = kept._jdf.queryExecution().executedPlan().toString()
    by_spark = read(spark, options, subscribePattern=".*").where("topic in ('a', 'b')")

    assert "timestamp <=" not in plan
    assert "IN (a,b)" not in plan
    assert kept.count() == by_spark.count() == 20
    assert frame.where(f.col("timestamp") > f.lit(now)).count() == 0
    assert frame.where("topic = 'c' and seq < 5").count() == 5


def test_few_messages_are_read_in_as_many_partitions_as_asked_for(
    client: tms.Client, options: dict[str, str]
) -> None:
    client.topic("a").create()
    client.topic("a").publish([b"%d" % number for number in range(10)])
    asked = batch_read({**options, "subscribe": "a", "minPartitions": "4"})
    reader = BatchReader(asked, arrow_schema(DEFAULT_SCHEMA))
    partitions = reader.partitions()
    counts = [sum(rows.num_rows for rows in reader.read(one)) for one in partitions]

    assert (len(counts), sum(counts)) == (4, 10)
