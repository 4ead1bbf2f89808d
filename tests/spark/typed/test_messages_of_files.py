"""The option `message`: which message of a Protobuf file is read and written. Without Spark."""

from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql.types import StructType

import tms
from tms.core.errors import InvalidRequest
from tms.spark.options import batch_read
from tms.spark.source import TmsDataSource

Options = dict[str, str]
FILE = """syntax = "proto3"; package shop;
    message Order { string id = 1; Line line = 2; message Line { string sku = 1; } }
    message Refund { string order = 1; int64 cents = 2; }"""


@pytest.fixture
def topic(client: tms.Client) -> tms.Topic:
    topic = client.topic("orders")
    topic.create()
    client.registry.register(f"{client.namespace}:orders-value", FILE, "PROTOBUF")
    return topic


def write(options: Options, columns: dict[str, list[Any]], **more: str) -> None:
    rows = pa.record_batch({name: pa.array(each) for name, each in columns.items()})
    schema = StructType()
    for name in columns:
        schema = schema.add(name, "string")
    writer = TmsDataSource({**options, "schema": "latest", **more}).writer(schema, overwrite=False)
    writer.commit([writer.write(iter([rows]))])


def read(options: Options, **more: str) -> list[dict[str, Any]]:
    source = TmsDataSource({**options, "subscribe": "orders", "schema": "latest", **more})
    reader = source.reader(source.schema())

    def batches() -> Iterator[pa.RecordBatch]:
        for partition in reader.partitions():
            yield from reader.read(partition)

    return [row for batch in batches() for row in batch.to_pylist()]


def test_messages_of_several_kinds_are_written_and_read_each_by_its_name(
    topic: tms.Topic, options: Options
) -> None:
    write(options, {"id": ["1"]}, topic="orders")
    refund: dict[str, list[Any]] = {
        "order": ["1", "2"],
        "cents": [3, 4],
        "_topic": ["orders", "orders"],
    }
    write(options, refund, message="shop.Refund")
    write(options, {"sku": ["x"]}, topic="orders", message="shop.Order.Line")
    rows = read(options, message="shop.Refund", damaged="give")

    assert [(row["order"], row["cents"]) for row in rows] == [
        (None, None), ("1", 3), ("2", 4), (None, None)
    ]  # fmt: skip
    assert "it is a shop.Order" in rows[0]["_error"]
    assert [row["id"] for row in read(options, damaged="give")] == ["1", None, None, None]
    with pytest.raises(tms.PayloadUndecodable, match=r"it is a shop\.Order"):
        read(options, message="shop.Refund")


def test_a_message_that_is_not_there_is_reported(
    client: tms.Client, topic: tms.Topic, options: Options
) -> None:
    client.registry.register("of-avro", '"int"')
    avro = str(client.registry.version("of-avro").id)
    for more, said in (
        ({}, "no message Refund; there are shop.Order, shop.Order.Line, shop.Refund"),
        ({"schema": avro}, "AVRO: only Protobuf's have several"),
        ({"schema": '"int"'}, "schema is the text of an Avro schema"),
    ):
        with pytest.raises(InvalidRequest, match=said):
            read(options, message="Refund", **more)
        with pytest.raises(InvalidRequest, match="option=message"):
            write(options, {"id": ["1"]}, topic="orders", message="Refund", **more)
    with pytest.raises(InvalidRequest, match="it needs schema"):
        batch_read({**options, "subscribe": "orders", "message": "Refund"})
    assert list(topic.poll()) == []
