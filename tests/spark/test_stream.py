"""Streams: batch after batch, each message once, whatever is repeated."""

from pathlib import Path

import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery

import tms
from tests.waiting import WAIT_S_MAX

Options = dict[str, str]


def source(spark: SparkSession, options: Options, **more: str) -> DataFrame:
    wanted = {"startingOffsets": "earliest", **more}
    return spark.readStream.format("tms").options(**options).options(**wanted).load()


def copy(frame: DataFrame, options: Options, checkpoint: str, **more: str) -> StreamingQuery:
    """Copy what is available now; return the query once it has ended."""
    writer = frame.select("payload").writeStream.format("tms").options(**options).options(**more)
    query = writer.option("checkpointLocation", checkpoint).trigger(availableNow=True).start()
    assert query.awaitTermination(int(WAIT_S_MAX))
    return query


def make(client: tms.Client, *names: str) -> None:
    for name in names:
        client.topic(name).create()


def published(client: tms.Client, name: str) -> list[int]:
    return [int(message.payload) for message in client.topic(name).poll(committed=True)]


def publish(client: tms.Client, name: str, numbers: range) -> None:
    client.topic(name).publish([b"%d" % n for n in numbers])


def rows_of(query: StreamingQuery) -> list[int]:
    return [progress.numInputRows for progress in query.recentProgress if progress.numInputRows]


@pytest.mark.slow
def test_a_topic_is_copied_in_batches_of_the_size_asked_for(
    spark: SparkSession, client: tms.Client, options: Options, checkpoint: str
) -> None:
    make(client, "a", "b")
    publish(client, "a", range(2500))
    query = copy(
        source(spark, options, subscribe="a", maxOffsetsPerTrigger="1000"),
        options,
        checkpoint,
        topic="b",
    )

    assert rows_of(query) == [1000, 1000, 500]
    assert published(client, "b") == [*range(2500)]


@pytest.mark.slow
def test_a_stream_continues_where_it_stopped_also_with_topics_that_have_come(
    spark: SparkSession, client: tms.Client, options: Options, checkpoint: str
) -> None:
    make(client, "in1", "out")
    frame = source(spark, options, subscribePattern="in.*")
    publish(client, "in1", range(10))
    copy(frame, options, checkpoint, topic="out")
    publish(client, "in1", range(10, 20))
    make(client, "in2")
    publish(client, "in2", range(100, 110))
    copy(frame, options, checkpoint, topic="out")

    assert sorted(published(client, "out")) == [*range(20), *range(100, 110)]


def test_a_batch_whose_end_spark_did_not_learn_of_is_not_written_twice(
    spark: SparkSession, client: tms.Client, options: Options, checkpoint: str
) -> None:
    """The state after a kill of the driver just after the server's commit."""
    make(client, "a", "b")
    frame = source(spark, options, subscribe="a", maxOffsetsPerTrigger="100")
    publish(client, "a", range(300))
    copy(frame, options, checkpoint, topic="b")
    commits = Path(checkpoint) / "commits"
    for file in (commits / "2", commits / ".2.crc"):
        file.unlink()
    publish(client, "a", range(300, 350))
    query = copy(frame, options, checkpoint, topic="b")

    assert [progress.batchId for progress in query.recentProgress][:2] == [2, 3]
    assert published(client, "b") == [*range(350)]


@pytest.mark.slow
def test_a_new_checkpoint_under_an_old_name_is_an_error_not_a_loss(
    spark: SparkSession, client: tms.Client, options: Options, tmp_path: Path
) -> None:
    make(client, "a", "b")
    frame = source(spark, options, subscribe="a")
    publish(client, "a", range(10))
    app = client.namespace
    copy(frame, options, str(tmp_path / "first"), topic="b", txnAppId=app)
    publish(client, "a", range(10, 20))

    with pytest.raises(StreamingQueryException, match="origin"):
        copy(frame, options, str(tmp_path / "second"), topic="b", txnAppId=app)

    assert published(client, "b") == [*range(10)]


def test_messages_in_progress_are_waited_for(
    spark: SparkSession, client: tms.Client, options: Options, checkpoint: str
) -> None:
    make(client, "a", "b")
    publish(client, "a", range(1))
    open_tx = client.transactions.start(tms.StartRequest(timeout_s=600))
    client.topic("a").publish(b"1", open_tx)
    publish(client, "a", range(2, 3))
    frame = source(spark, options, subscribe="a")
    copy(frame, options, checkpoint, topic="b")
    before = published(client, "b")
    client.transactions.commit(open_tx.transaction_id)
    copy(frame, options, checkpoint, topic="b")

    assert before == [0]
    assert published(client, "b") == [0, 1, 2]
