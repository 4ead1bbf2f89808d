"""`tms spark …`, in this process, and therefore in the Spark session of the tests."""

import json
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

import tms
from tests.cli.conftest import run_command

Options = dict[str, str]


@pytest.fixture
def target(options: Options) -> tuple[str, ...]:
    """Return the options by which a command finds the topics."""
    return ("--url", options["url"], "--namespace", options["namespace"], "--json")


def answer(*arguments: str) -> Any:
    code, out, err = run_command("spark", *arguments)
    assert code == 0, err
    return json.loads(out)


def test_what_there_is() -> None:
    code, out, _ = run_command("spark", "--help")

    assert code == 0
    assert {"archive", "replay", "transform", "stats", "prune"} <= set(out.split())


@pytest.mark.slow
def test_archive_replay_transform_and_count(
    spark: SparkSession, client: tms.Client, target: tuple[str, ...], tmp_path: Path
) -> None:
    for name in ("a", "again", "loud", "errors"):
        client.topic(name).create()
    client.topic("a").publish([b"one", b"two"])
    folder, checkpoint = str(tmp_path / "archive"), str(tmp_path / "checkpoint")
    archived = answer("archive", folder, "a", *target)
    named = ("--name", client.namespace, *target)
    replayed = [answer("replay", folder, "a", "--to", "again", *named) for _ in range(2)]
    sql = ("--sql", "SELECT upper(text) AS payload FROM messages")
    where = ("--errors", "errors", "--checkpoint", checkpoint)
    transformed = answer("transform", "a", "loud", *sql, *where, *target)
    counted = answer("stats", "again", *target)

    assert archived == {"messages": 2, "payload_bytes": 6, "batches": 1}
    assert [done["duplicate"] for done in replayed] == [False, True]
    assert transformed == {"messages": 2, "errors": 0, "batches": 1}
    assert [message.payload for message in client.topic("loud").poll()] == [b"ONE", b"TWO"]
    assert [(row["topic"], row["messages"], row["rolled_back"]) for row in counted] == [
        ("again", 2, 0)
    ]


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("transform", "a", "b", "--errors", "e", "--checkpoint", "c"), "give one of them"),
        (
            ("transform", "a", "b", "--errors", "e", "--checkpoint", "c", "--function", "no:no"),
            "No module named 'no'",
        ),
        (("prune", "--store", "leveldb:x"), "not a store on HBase"),
    ],
)
def test_wrong_usage(spark: SparkSession, arguments: tuple[str, ...], said: str) -> None:
    code, _, err = run_command("spark", *arguments)

    assert code == 2
    assert said in err
