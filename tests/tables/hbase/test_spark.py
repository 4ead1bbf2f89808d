"""Spark with a store on HBase: topics read and written through its server, and regions pruned.

The test is here so that it shares one HBase with the tests in this folder.
"""

from collections.abc import Iterator

import pytest
from pyspark.sql import SparkSession

import tms
from tables.hbase.layout import Place
from tables.hbase.store import HBaseStore
from tables.store import MESSAGE, PAYLOAD
from tests.servers.server_process import ServerProcess
from tests.spark.conftest import spark  # noqa: F401  made as there
from tests.tables.hbase.conftest import put_old
from tms.core.values.topic import TopicId
from tms.spark.jobs import prune

pytestmark = pytest.mark.slow


@pytest.fixture
def url(place: Place, hbase_store: HBaseStore) -> str:
    return f"hbase://{place.host}:{place.port}/{place.prefix}"


@pytest.fixture
def server(url: str) -> Iterator[ServerProcess]:
    with ServerProcess(url, "--cleanup-workers", "0") as server:
        yield server
        server.stop()


def rows(store: HBaseStore, table: str) -> int:
    with store.scan(table, b"", b"\xff" * 4) as found:
        return sum(1 for _ in found)


def test_topics_are_copied_and_what_has_expired_is_pruned_by_region(
    spark: SparkSession,  # noqa: F811
    server: ServerProcess,
    url: str,
    hbase_store: HBaseStore,
) -> None:
    sent = [b"%d" % n for n in range(500)]
    options = {"url": server.url}
    with tms.connect(server.url) as client:
        client.topic("orders").create()
        client.topic("copies").create()
        client.topic("gone").create()
        client.topic("gone").publish([b"x"] * 20)
        client.topic("short").create(ttl=1)
        client.topic("orders").publish(sent)
        frame = spark.read.format("tms").options(**options, subscribe="orders").load()
        ordered = frame.orderBy("message_id")
        ordered.write.format("tms").mode("append").options(**options, topic="copies").save()
        copies = [message.payload for message in client.topic("copies").poll(committed=True)]
        put_old(hbase_store, TopicId("default", "short"), 30)
        assert not list(client.topic("short").poll(limit=1))
        client.topic("gone").delete()
    before = rows(hbase_store, MESSAGE)
    regions: list[int] = []
    done = prune(spark, url, regions.append)
    again = prune(spark, url)

    assert copies == sent
    assert regions == [len(hbase_store.regions(MESSAGE)) + len(hbase_store.regions(PAYLOAD))]
    # The greatest row of a topic stays, because the writer continues from it.
    assert (done.rows, done.by_reason) == (48, {"ttl": 29, "generation": 19})
    assert before - rows(hbase_store, MESSAGE) == 48
    assert again.rows == 0
