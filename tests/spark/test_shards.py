"""A store with its topics in three shards: a read may span several, a write stays in one."""

from collections.abc import Iterator

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

import tms
from tests.servers.server_process import ServerProcess
from tests.spark.streams import Options, Stream
from tms.core.values.shards import ShardBy, Sharding

TOPICS = ("orders", "audit", "sales")


@pytest.fixture
def options() -> Iterator[Options]:
    assert {Sharding(3, ShardBy.TOPIC).home("shop", name) for name in TOPICS} == {0, 1, 2}
    with ServerProcess("memory:", shard_by=ShardBy.TOPIC) as server:
        with tms.connect(server.url, "shop") as client:
            for name in TOPICS:
                client.topic(name).create()
        yield {"url": server.url, "namespace": "shop"}


@pytest.mark.slow
def test_topics_are_written_one_by_one_and_read_together(
    spark: SparkSession, options: Options
) -> None:
    def write(*values: str, **more: str) -> None:
        rows = spark.createDataFrame([values], "array<string>").selectExpr(
            "explode(value) as value", "'sales' as topic"
        )
        own = rows.select("value") if "topic" in more else rows
        own.write.format("tms").mode("append").options(**options).options(**more).save()

    for name in TOPICS:
        for _ in range(2):
            write(f"to {name}", topic=name, txnAppId="job", txnVersion="1")
    with pytest.raises(PySparkException, match="another shard"):
        write("lost")  # no option names the topic in advance

    stream = Stream(options, subscribePattern=".*").start()
    assert sorted(stream.take()) == [b"to audit", b"to orders", b"to sales"]
    stream.reader.stop()
