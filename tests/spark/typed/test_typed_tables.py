"""Typed rows through Spark and a server: read in batches and streams, and written."""

import json
from collections.abc import Mapping
from typing import Any

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f

import tms
from tests.serdes.compiling import record
from tms.spark import from_tms, to_tms

Options = dict[str, str]
V1 = json.dumps(
    record("Order", id="string", _at={"type": "long", "logicalType": "timestamp-micros"})
)
V2 = json.dumps(
    record(
        "Order",
        id="string",
        _at={"type": "long", "logicalType": "timestamp-micros"},
        count=("int", 1),
        lines=({"type": "array", "items": record("Line", sku=["null", "string"])}, []),
    )
)
TO_B_OR_C = "if(id = 'a', 'b', 'c') AS _topic"
AT = "2026-01-02T03:04:05.000006+00:00"


def order(name: str, **more: Any) -> dict[str, Any]:
    return {"id": name, "_at": 1_767_323_045_000_006, **more}


def read(spark: SparkSession, options: Options, **more: str) -> DataFrame:
    return spark.read.format("tms").options(**options).options(**more).load()


def created(client: tms.Client, *names: str, **properties: Any) -> tms.Topic:
    for name in names:
        client.topic(name).create(**properties)
    return client.topic(names[0])


def test_older_and_newer_values_are_rows_of_the_latest_schema(
    spark: SparkSession, client: tms.Client, options: Options
) -> None:
    orders = created(client, "orders", schema_check="full")
    orders.publish(order("a"), schema=V1)
    orders.publish(tms.Record(order("b", count=3, lines=[{"sku": "x"}]), key=b"k"), schema=V2)
    orders.publish(tms.Record(key=b"k", is_tombstone=True), schema=V2)
    ids = [message.id.hex() for message in orders.poll()]
    frame = read(spark, options, subscribe="orders", schema="latest").orderBy("_message_id")
    rows = frame.collect()
    old = client.registry.versions(f"{client.namespace}:orders-value")

    assert frame.columns[:4] == ["id", "__at", "count", "lines"]
    assert [(row.id, row["count"], row._is_tombstone) for row in rows] == [
        ("a", 1, False), ("b", 3, False), (None, None, True)
    ]  # fmt: skip
    assert [row._message_id for row in rows] == ids
    assert rows[0]["__at"].isoformat() + "+00:00" == AT
    assert rows[1].lines == [("x",)]
    assert bytes(rows[1]._key) == b"k"
    assert rows[2]._schema_id is None
    assert old == [1, 2]
    assert frame.where("_topic = 'orders' AND count = 3").count() == 1


def test_a_reader_may_take_fewer_columns_another_version_or_its_own_schema(
    spark: SparkSession, client: tms.Client, options: Options
) -> None:
    orders = created(client, "orders")
    orders.publish(order("b", count=3), schema=V2)
    orders.publish(order("a"), schema=V1)
    [newer, older] = [record.schema_id for record in orders.poll(decode=True)]
    few = spark.read.format("tms").options(**options, subscribe="orders", schema=str(newer))
    wider = json.dumps(record("Order", count=("long", 9)))

    assert [tuple(row) for row in few.schema("count INT, _topic STRING").load().collect()] == [
        (3, "orders"), (1, "orders")
    ]  # fmt: skip
    assert "count" not in read(spark, options, subscribe="orders", schema=str(older)).columns
    frame = read(spark, options, subscribe="orders", schema=wider)
    assert [row["count"] for row in frame.orderBy("_message_id").collect()] == [3, 9]
    with pytest.raises(PySparkException, match="count is int"):
        few.schema("count STRING").load().collect()


def test_a_damaged_row_is_an_error_that_names_it_or_a_row_that_says_why(
    spark: SparkSession, client: tms.Client, options: Options
) -> None:
    orders = created(client, "orders")
    orders.publish(order("a"), schema=V1)
    orders.publish([b"no schema", b"\x00\x00\x00\x00\x01\x02"])
    ids = [message.id.hex() for message in orders.poll()]
    with pytest.raises(PySparkException, match="does not begin with a zero byte") as caught:
        read(spark, options, subscribe="orders", schema="latest").collect()
    frame = read(spark, options, subscribe="orders", schema="latest", damaged="give")
    rows = frame.orderBy("_message_id").collect()

    assert ids[1] in str(caught.value)
    assert f"{client.namespace}:orders" in str(caught.value)
    assert [row.id for row in rows] == ["a", None, None]
    assert [row._payload and bytes(row._payload) for row in rows] == [
        None, b"no schema", b"\x00\x00\x00\x00\x01\x02"
    ]  # fmt: skip
    assert [row._error is None for row in rows] == [True, False, False]


def written(frame: DataFrame, options: Options, **more: str) -> None:
    frame.write.format("tms").mode("append").options(**options).options(**more).save()


def values(topic: tms.Topic) -> list[Any]:
    return [record.value for record in topic.poll(decode=True)]


@pytest.mark.slow
def test_what_was_read_is_written_under_the_other_topics_subject(
    spark: SparkSession, client: tms.Client, options: Options
) -> None:
    orders = created(client, "orders", "copies", "b", "c")
    orders.publish(
        [
            tms.Record(order("a"), key=b"k", headers={"h": b"v"}),
            order("b", count=5, lines=[{"sku": None}]),
            tms.Record(key=b"k", is_tombstone=True),
        ],
        schema=V2,
    )
    rows = read(spark, options, subscribe="orders", schema="latest").orderBy("_message_id")
    written(rows, options, topic="copies", schema=V2)
    few = rows.where("id is not null").select("id", "__at", f.expr(TO_B_OR_C))
    written(few, options, schema=V1)
    copied = list(client.topic("copies").poll(decode=True))
    theirs = list(orders.poll(decode=True))

    assert [(each.value, each.key, each.is_tombstone, dict(each.headers)) for each in copied] == [
        (each.value, each.key, each.is_tombstone, dict(each.headers)) for each in theirs
    ]
    assert client.registry.versions(f"{client.namespace}:copies-value") == [1]
    assert [[value["id"] for value in values(client.topic(name))] for name in "bc"] == [
        ["a"], ["b"]
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("columns", "more", "said"),
    [
        ("'a' AS id, true AS __at", {}, "__?at"),
        ("'a' AS id", {}, "_at.*it is missing"),
        pytest.param(
            "'a' AS id, 1 AS number", {}, "unknown_columns=.'number'.", marks=pytest.mark.slow
        ),
        pytest.param(
            "'a' AS id, 1 AS _number", {}, "unknown_columns=.'_number'.", marks=pytest.mark.slow
        ),
        pytest.param(
            "'a' AS id, 'x' AS _error", {}, "unknown_columns=.'_error'.", marks=pytest.mark.slow
        ),
        pytest.param(
            "'a' AS id",
            {"schema": "newest"},
            "latest, the id of a schema, or the text",
            marks=pytest.mark.slow,
        ),
        pytest.param("'a' AS id", {"schema": "9999"}, "9999", marks=pytest.mark.slow),
    ],
)
def test_rows_that_do_not_fit_are_refused_by_name(
    spark: SparkSession,
    client: tms.Client,
    options: Options,
    *,
    columns: str,
    more: Options,
    said: str,
) -> None:
    created(client, "orders")
    client.registry.register(f"{client.namespace}:orders-value", V1)
    given: Mapping[str, str] = {"topic": "orders", "schema": "latest", **more}
    with pytest.raises(PySparkException, match=said):
        written(spark.sql(f"SELECT {columns}"), options, **given)

    assert list(client.topic("orders").poll()) == []


@pytest.mark.slow
def test_readers_are_told_what_to_change(
    spark: SparkSession, client: tms.Client, options: Options
) -> None:
    created(client, "a", "b")
    for asked, said in (
        ({"subscribe": "a"}, "40401"),
        ({"subscribe": "a,b"}, "the topics have several subjects"),
        ({"subscribe": "none"}, "none"),
        ({"subscribePattern": "none"}, "there is no topic yet"),
        ({"subscribe": "a", "damaged": "keep"}, "raise or give is expected"),
    ):
        with pytest.raises(PySparkException, match=said):
            read(spark, options, schema="latest", **asked)


@pytest.mark.slow
def test_columns_of_any_frame_are_decoded_and_encoded(
    spark: SparkSession, client: tms.Client, options: Options
) -> None:
    created(client, "orders").publish([order("a"), order("b")], schema=V1)
    client.topic("orders").publish(b"no schema")
    client.topic("orders").publish(tms.Record(key=b"k", is_tombstone=True), schema=V1)
    where = {**options, "topic": "orders"}
    raw = read(spark, options, subscribe="orders").orderBy("message_id")
    given = raw.select(from_tms("payload", damaged="give", **where).alias("it"))
    rows = [row.it for row in given.collect()]
    good = given.where("it._error IS NULL AND it IS NOT NULL").select("it.id", "it.__at")
    again = good.select(to_tms("id", "__at", schema=V2, **where).alias("payload"))
    found = again.select(from_tms("payload", **where).alias("it")).select("it.id", "it.count")

    assert [row and (row.id, row._error is None) for row in rows] == [
        ("a", True), ("b", True), (None, False), None
    ]  # fmt: skip
    assert [tuple(row) for row in found.collect()] == [("a", 1), ("b", 1)]
    with pytest.raises(PySparkException, match="does not begin with a zero byte"):
        raw.select(from_tms("payload", **where)).collect()
    with pytest.raises(PySparkException, match=r"field=.?id"):
        spark.sql("SELECT struct(1 AS id) AS it").select(to_tms("it", **where)).collect()


JSON_LINE = json.dumps(
    {"type": "object", "properties": {"sku": {"type": "string"}, "count": {"type": "integer"}}}
)
PROTO_LINE = """syntax = "proto3"; import "line.proto"; import "google/protobuf/timestamp.proto";
message Order { Line line = 1; repeated string tags = 2; google.protobuf.Timestamp at = 3; }"""


def test_json_and_protobuf_are_read_and_written_by_their_schemas(
    spark: SparkSession, client: tms.Client, options: Options
) -> None:
    """Protobuf values by a file that imports another one."""
    created(client, "lines", "lines2").publish(
        [{"sku": "a", "count": 1}, {"sku": "b"}], schema=tms.SchemaText(JSON_LINE, "JSON")
    )
    line = 'syntax = "proto3"; message Line { string sku = 1; }'
    subject = f"{client.namespace}:line"
    client.registry.register(subject, line, "PROTOBUF")
    imported = (tms.SchemaReference("line.proto", subject, 1),)
    file = tms.SchemaText(PROTO_LINE, "PROTOBUF", imported)
    value = {"line": {"sku": "x"}, "tags": ["t"], "at": "2026-01-02T03:04:05Z"}
    created(client, "orders", "orders2").publish(value, schema=file)
    for name, schema in (("lines", tms.SchemaText(JSON_LINE, "JSON")), ("orders", file)):
        copy = client.topic(f"{name}2")
        rows = read(spark, options, subscribe=name, schema="latest").orderBy("_message_id")
        client.registry.register(
            f"{client.namespace}:{name}2-value", schema.text, schema.schema_type, schema.references
        )
        written(rows, options, topic=f"{name}2", schema="latest")
        assert list(copy.poll(decode=tms.Decoding(as_json=True))) != []
        assert [each.value for each in copy.poll(decode=tms.Decoding(as_json=True))] == [
            each.value for each in client.topic(name).poll(decode=tms.Decoding(as_json=True))
        ]
    [order] = read(spark, options, subscribe="orders", schema="latest").collect()

    assert (order.line.sku, order.tags, order.at.isoformat()) == ("x", ["t"], "2026-01-02T03:04:05")


def test_topics_of_one_subject_in_a_context_are_read_at_once(
    spark: SparkSession, client: tms.Client, options: Options
) -> None:
    subject = f":.{client.namespace}:orders"
    created(client, "a", "b", subject=subject)
    client.topic("a").publish(order("1"), schema=V1)
    client.topic("b").publish(order("2"), schema=V2)
    rows = read(spark, options, subscribePattern="[ab]", schema="latest").orderBy("id").collect()

    assert [(row._topic, row.id, row["count"], row._schema_id) for row in rows] == [
        ("a", "1", 1, 1), ("b", "2", 1, 2)
    ]  # fmt: skip
