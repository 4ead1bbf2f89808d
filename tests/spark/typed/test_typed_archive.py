"""A typed archive: each message once, and damaged ones in the topic for errors."""

import base64
import json
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

import tms
from tests.cli.conftest import run_command
from tests.serdes.compiling import record
from tms.core.errors import InvalidRequest
from tms.spark.jobs import archive, replay

Options = dict[str, str]
V1 = json.dumps(record("Order", id="string", topic="string"))
V2 = json.dumps(record("Order", id="string", topic="string", count=(["null", "int"], None)))


@pytest.mark.slow
def test_an_archive_has_columns_and_the_errors_have_the_rest(
    spark: SparkSession, client: tms.Client, options: Options, tmp_path: Path
) -> None:
    folder = tmp_path / "archive"
    orders, errors = client.topic("orders"), client.topic("errors")
    orders.create()
    errors.create()
    orders.publish({"id": "a", "topic": "x"}, schema=V1)
    orders.publish(b"no schema")
    target = ("--url", options["url"], "--namespace", options["namespace"], "--json")
    typed = ("--schema", "latest", "--errors", "errors", *target)
    code, out, err = run_command("spark", "archive", str(folder), "orders", *typed)
    # The state after a crash between the errors and the note that the batch was done.
    for path in (folder / "_checkpoint/commits").glob("*0*"):
        path.unlink()
    orders.publish({"id": "b", "topic": "y", "count": 2}, schema=V2)
    source = {**options, "subscribe": "orders", "schema": "latest"}
    again = archive(spark, source, str(folder), errors="errors")
    rows = spark.read.option("mergeSchema", "true").parquet(str(folder)).orderBy("_message_id")
    with pytest.raises(InvalidRequest, match="an archive without types"):
        replay(spark, str(folder), options, name=client.namespace)
    [error] = [json.loads(message.payload) for message in errors.poll()]
    ids = [message.id.hex() for message in orders.poll()]

    assert (code, json.loads(out)) == (0, {"messages": 1, "errors": 1, "batches": 1}), err
    assert (again.messages, again.errors) == (2, 1)
    assert [(row.id, row.topic, row["count"], row._topic) for row in rows.collect()] == [
        ("a", "x", None, "orders"), ("b", "y", 2, "orders")
    ]  # fmt: skip
    assert dict(rows.dtypes)["count"] == "int"
    assert {row.tms_topic for row in rows.select("tms_topic").collect()} == {"orders"}
    assert (error["topic"], error["message_id"]) == ("orders", ids[1])
    assert base64.b64decode(error["payload"]) == b"no schema"
    assert "does not begin with a zero byte" in error["error"]


def test_what_an_archive_needs_is_reported(
    spark: SparkSession, client: tms.Client, options: Options, tmp_path: Path
) -> None:
    client.topic("orders").create()
    taken = json.dumps(record("Order", tms_date="string"))
    source = {**options, "subscribe": "orders"}
    with pytest.raises(InvalidRequest, match="it needs schema"):
        archive(spark, source, str(tmp_path), errors="errors")
    with pytest.raises(InvalidRequest, match="tms_date"):
        archive(spark, {**source, "schema": taken}, str(tmp_path))
    for option in ("--errors", "--message"):
        assert run_command("spark", "archive", "folder", "orders", option, "e")[0] == 2
