"""Batches are written once, however often single tasks or whole batches are repeated."""

import os
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

import tms

Options = dict[str, str]


def write(frame: DataFrame, options: Options, **more: str) -> None:
    frame.write.format("tms").mode("append").options(**options).options(**more).save()


def numbers(spark: SparkSession, count: int, partitions: int = 3) -> DataFrame:
    return spark.range(0, count, 1, partitions).selectExpr("cast(id as string) as value")


def published(client: tms.Client, name: str) -> list[bytes]:
    return [message.payload for message in client.topic(name).poll(committed=True)]


def test_rows_are_published_in_the_order_of_the_frame(
    spark: SparkSession, client: tms.Client, options: Options
) -> None:
    client.topic("t").create()
    write(numbers(spark, 25_000), options, topic="t")

    assert published(client, "t") == [b"%d" % n for n in range(25_000)]


def test_rows_go_to_the_topics_they_name_all_at_once(
    spark: SparkSession, client: tms.Client, options: Options
) -> None:
    for name in ("even", "odd"):
        client.topic(name).create()
    frame = spark.range(0, 10, 1, 2).selectExpr(
        "if(id % 2 = 0, 'even', 'odd') as topic", "cast(cast(id as string) as binary) as payload"
    )
    write(frame, options)

    assert published(client, "even") == [b"0", b"2", b"4", b"6", b"8"]
    assert published(client, "odd") == [b"1", b"3", b"5", b"7", b"9"]


def test_a_task_that_is_repeated_after_it_stored_adds_nothing(
    spark: SparkSession, client: tms.Client, options: Options, tmp_path: Path
) -> None:
    client.topic("t").create()
    attempts = tmp_path / "attempts"

    def fail_once_behind_the_rows(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        yield from batches
        with attempts.open("a") as file:
            file.write("x")
        if os.path.getsize(attempts) == 1:  # noqa: PTH202  runs in a worker, keep it plain
            raise RuntimeError("dead after its rows were stored")

    frame = numbers(spark, 20_000, 1).mapInArrow(fail_once_behind_the_rows, "value string")
    write(frame, options, topic="t")

    assert attempts.read_text() == "xx"
    assert published(client, "t") == [b"%d" % n for n in range(20_000)]


def test_a_frame_that_fails_publishes_nothing(
    spark: SparkSession, client: tms.Client, options: Options
) -> None:
    client.topic("t").create()
    frame = numbers(spark, 10).selectExpr("if(value = '7', null, value) as value")
    before = {each.transaction_id for each in client.transactions.in_progress()}  # other tests'

    with pytest.raises(PySparkException, match="rows_with_null=1"):
        write(frame, options, topic="t")

    assert list(client.topic("t").poll()) == []
    assert {each.transaction_id for each in client.transactions.in_progress()} <= before


@pytest.mark.slow
def test_the_same_version_of_an_application_is_written_once(
    spark: SparkSession, client: tms.Client, options: Options
) -> None:
    client.topic("t").create()
    app = client.namespace
    write(numbers(spark, 10), options, topic="t", txnAppId=app, txnVersion="1")
    write(numbers(spark, 10), options, topic="t", txnAppId=app, txnVersion="1")
    write(numbers(spark, 5), options, topic="t", txnAppId=app, txnVersion="2")

    assert len(published(client, "t")) == 15


@pytest.mark.slow
def test_without_a_transaction_rows_are_published_at_once(
    spark: SparkSession, client: tms.Client, options: Options
) -> None:
    client.topic("t").create()
    write(numbers(spark, 100), options, topic="t", transactional="false")

    assert sorted(published(client, "t"), key=int) == [b"%d" % n for n in range(100)]


@pytest.mark.parametrize(
    ("columns", "more", "said"),
    [
        ("id as value", "topic=t", "bytes or text"),
        ("'a' as partition, 'b' as value", "topic=t", "unknown_columns=['partition']"),
        ("'b' as value", "", "a column topic"),
        ("'b' as value", "topic=t txnVersion=1", "it needs txnAppId"),
        pytest.param(
            "'b' as value", "topic=missing", "topic does not exist", marks=pytest.mark.slow
        ),
    ],
)
def test_what_cannot_be_written_is_refused(
    spark: SparkSession, options: Options, columns: str, more: str, said: str
) -> None:
    with tms.connect(options["url"], options["namespace"]) as client:
        client.topic("t").create()
        others = dict(option.split("=") for option in more.split())
        with pytest.raises(PySparkException) as caught:
            write(spark.range(3).selectExpr(*columns.split(", ")), options, **others)

        assert said in str(caught.value)
        assert list(client.topic("t").poll()) == []


@pytest.mark.slow
def test_messages_are_never_overwritten(spark: SparkSession, options: Options) -> None:
    with pytest.raises(PySparkException):
        numbers(spark, 1).write.format("tms").mode("overwrite").options(**options, topic="t").save()
