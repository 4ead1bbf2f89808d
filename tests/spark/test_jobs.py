"""Archive, replay, transform and statistics: each takes effect once, however often it is run."""

import json
from datetime import UTC, datetime
from pathlib import Path

import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql import SparkSession

import tms
from tms.core.errors import InvalidRequest
from tms.spark.jobs import archive, replay, stats, transform
from tms.spark.jobs.replay import Selection
from tms.spark.jobs.transform import Destinations

Options = dict[str, str]


def publish(client: tms.Client, name: str, *payloads: bytes) -> None:
    if name not in client.topics():
        client.topic(name).create()
    client.topic(name).publish(payloads)


def published(client: tms.Client, name: str) -> list[bytes]:
    return [message.payload for message in client.topic(name).poll(committed=True)]


@pytest.mark.slow
def test_an_archive_has_each_message_once_by_topic_and_date(
    spark: SparkSession, client: tms.Client, options: Options, tmp_path: Path
) -> None:
    folder = str(tmp_path / "archive")
    source = {**options, "subscribePattern": "a|b"}
    publish(client, "a", b"1", b"2")
    publish(client, "b", b"3")
    batches: list[int] = []
    first = archive(spark, source, folder, on_batch=lambda number, _: batches.append(number))
    publish(client, "a", b"4")
    second = archive(spark, source, folder)
    again = archive(spark, source, folder)
    today = datetime.now(UTC).date().isoformat()
    files = sorted(
        path.relative_to(folder).parent for path in Path(folder).glob("topic*/**/*.parquet")
    )
    rows = spark.read.parquet(folder).orderBy("message_id").collect()

    assert [(bytes(row.payload), row.topic) for row in rows] == [
        (b"1", "a"), (b"2", "a"), (b"3", "b"), (b"4", "a"),
    ]  # fmt: skip
    assert [row.message_id for row in rows if row.topic == "a"] == [
        message.id.hex() for message in client.topic("a").poll()
    ]
    assert (first.messages, first.payload_bytes, first.batches) == (3, 3, 1)
    assert (second.messages, again.messages) == (1, 0)
    assert batches == [0]
    assert [str(file) for file in files] == [
        f"topic={name}/date={today}/batch={batch}" for name, batch in (("a", 0), ("a", 1), ("b", 0))
    ] or today != datetime.now(UTC).date().isoformat(), "it became midnight"


@pytest.mark.slow
def test_a_batch_of_an_archive_that_is_repeated_takes_the_place_of_its_first_attempt(
    spark: SparkSession, client: tms.Client, options: Options, tmp_path: Path
) -> None:
    """The state after a crash that left files of a batch, but no note that the batch was done."""
    folder = tmp_path / "archive"
    source = {**options, "subscribe": "a"}
    publish(client, "a", *(b"%d" % n for n in range(10)))
    archive(spark, source, str(folder), rows_per_batch=4)
    for path in (folder / "_checkpoint/commits").glob("*2*"):
        path.unlink()
    archive(spark, source, str(folder), rows_per_batch=4)
    found = [int(row.payload) for row in spark.read.parquet(str(folder)).collect()]

    assert sorted(found) == [*range(10)]


def test_a_replay_keeps_the_order_and_is_done_once(
    spark: SparkSession, client: tms.Client, options: Options, tmp_path: Path
) -> None:
    folder = str(tmp_path / "archive")
    publish(client, "a", *(b"%d" % n for n in range(3000)))
    publish(client, "b", b"of b")
    archive(spark, {**options, "subscribe": "a,b"}, folder, rows_per_batch=1000)
    client.topic("again").create()
    target = {**options, "topic": "again"}
    first = replay(spark, folder, target, Selection(("a",)), name=client.namespace)
    second = replay(spark, folder, target, Selection(("a",)), name=client.namespace)

    assert published(client, "again") == [b"%d" % n for n in range(3000)]
    assert (first.messages, first.is_duplicate) == (3000, False)
    assert (second.messages, second.is_duplicate) == (0, True)


@pytest.mark.slow
def test_a_replay_can_keep_the_old_ids_and_go_to_the_topics_it_came_from(
    spark: SparkSession, client: tms.Client, options: Options, tmp_path: Path
) -> None:
    """This includes topics whose names, as folders of Parquet, look like numbers."""
    folder = str(tmp_path / "archive")
    publish(client, "007", b"one")
    publish(client, "8", b"two")
    archive(spark, {**options, "subscribe": "007,8"}, folder)
    [old] = client.topic("007").poll()
    chosen = Selection(("007", "8"))
    replay(spark, folder, options, chosen, envelope=True, name=client.namespace)
    [_, envelope] = published(client, "007")

    assert json.loads(envelope) == {
        "topic": "007",
        "message_id": old.id.hex(),
        "timestamp": old.publish_timestamp,
        "payload": "b25l",
    }
    assert len(published(client, "8")) == 2


@pytest.mark.slow
def test_a_row_without_payload_goes_to_a_named_place_or_stops_the_replay(
    spark: SparkSession, client: tms.Client, options: Options, tmp_path: Path
) -> None:
    folder, bad = str(tmp_path / "archive"), str(tmp_path / "bad")
    rows = [("a", "0" * 40, bytearray(b"x")), ("a", "1" * 40, None)]
    frame = spark.createDataFrame(rows, "topic string, message_id string, payload binary")
    frame.write.parquet(folder)
    client.topic("a").create()
    with pytest.raises(InvalidRequest, match="rows=1"):
        replay(spark, folder, options, name=client.namespace)
    done = replay(spark, folder, options, name=client.namespace, bad=bad)

    assert (done.messages, done.bad) == (1, 1)
    assert published(client, "a") == [b"x"]
    assert [row.message_id for row in spark.read.parquet(bad).collect()] == ["1" * 40]


TOMBSTONE = tms.Message(b"", key=b"k", is_tombstone=True)


def framed(payload: bytes) -> tms.Message:
    return tms.Message(payload, key=b"k", headers={"h": b"1"})


def message_of(message: tms.Message) -> tuple[bytes | None, bytes | None, dict[str, bytes]]:
    payload = None if message.is_tombstone else message.payload
    return payload, message.key, dict(message.headers)


def shout(payload: bytes) -> bytes | None:
    """Uppercase a text; raises `UnicodeDecodeError` if it is not one, and drops an empty one."""
    return payload.decode().upper().encode() if payload else None


def test_a_function_transforms_each_message_once_and_errors_go_to_their_topic(
    spark: SparkSession, client: tms.Client, options: Options, checkpoint: str
) -> None:
    publish(client, "a", b"one", b"\xff", b"", b"two")
    keyed = [framed(b"kept"), framed(b"\xfe"), TOMBSTONE]
    client.topic("a").publish(keyed)
    for name in ("b", "errors"):
        client.topic(name).create()
    source, to = {**options, "subscribe": "a"}, Destinations("b", "errors")
    first = transform(spark, source, options, shout, to, checkpoint=checkpoint)
    publish(client, "a", b"three")
    second = transform(spark, source, options, shout, to, checkpoint=checkpoint)
    [error, other] = (json.loads(payload) for payload in published(client, "errors"))
    loud = client.topic("b").poll(committed=True)

    assert [message_of(each) for each in loud] == [
        (b"ONE", None, {}), (b"TWO", None, {}), (b"KEPT", b"k", {"h": b"1"}), (None, b"k", {}),
        (b"THREE", None, {}),
    ]  # fmt: skip
    assert (first.messages, first.errors, second.messages) == (4, 2, 1)
    assert [message_of(each)[1:] for each in client.topic("errors").poll(committed=True)] == [
        (None, {}), (b"k", {"h": b"1"})
    ]  # fmt: skip
    assert other["payload"] == "/g=="
    assert (error["topic"], error["payload"]) == ("a", "/w==")
    assert error["error"].startswith("UnicodeDecodeError")


@pytest.mark.slow
def test_a_query_transforms_and_its_empty_rows_are_errors(
    spark: SparkSession, client: tms.Client, options: Options, checkpoint: str
) -> None:
    """Payloads that are not UTF-8, and tombstones, too. Selected keys and headers are kept."""
    publish(client, "a", b'{"n": 1}', b"no json")
    client.topic("a").publish([framed(b'{"n": 3}'), TOMBSTONE, tms.Message(b"\xff")])
    for name in ("b", "errors"):
        client.topic(name).create()
    number = "get_json_object(text, '$.n') * 2 || '' AS payload"
    query = f"SELECT message_id, key, NULL AS headers, {number} FROM messages"
    done = transform(
        spark,
        {**options, "subscribe": "a"},
        options,
        query,
        Destinations("b", "errors"),
        checkpoint=checkpoint,
    )
    ids = [message.id.hex() for message in client.topic("a").poll()]
    errors = list(client.topic("errors").poll(committed=True))

    assert [message_of(each) for each in client.topic("b").poll(committed=True)] == [
        (b"2", None, {}), (b"6", b"k", {})
    ]  # fmt: skip
    assert (done.messages, done.errors) == (2, 3)
    assert [(json.loads(error.payload)["message_id"], error.key) for error in errors] == [
        (ids[1], None), (ids[3], b"k"), (ids[4], None)
    ]  # fmt: skip


@pytest.mark.slow
def test_a_query_that_would_lose_keys_is_refused(
    spark: SparkSession, client: tms.Client, options: Options, checkpoint: str
) -> None:
    for name in ("a", "b", "errors"):
        client.topic(name).create()
    client.topic("a").publish([tms.Message(b"1", key=b"k")])
    query, to = "SELECT text AS payload FROM messages", Destinations("b", "errors")
    with pytest.raises(StreamingQueryException, match="a message has key or headers, and the que"):
        transform(spark, {**options, "subscribe": "a"}, options, query, to, checkpoint=checkpoint)

    assert published(client, "b") == []


@pytest.mark.slow
def test_statistics_report_what_was_rolled_back(
    spark: SparkSession, client: tms.Client, options: Options
) -> None:
    publish(client, "a", b"12345", b"123")
    undone = client.transactions.start(tms.StartRequest())
    range_ = client.topic("a").publish([b"x", b"y"], undone)
    assert range_ is not None
    client.topic("a").rollback(range_)
    client.transactions.abort(undone.transaction_id)
    publish(client, "b", b"1")
    rows = stats(spark, {**options, "subscribePattern": ".*"}).collect()
    now = datetime.now(UTC).replace(tzinfo=None)

    assert [
        (row.topic, row.messages, row.payload_bytes, row.rolled_back, row.rolled_back_share)
        for row in rows
    ] == [("a", 2, 8, 2, 0.5), ("b", 1, 1, 0, 0.0)]
    assert all(abs((row.hour - now).total_seconds()) < 7200 for row in rows)
