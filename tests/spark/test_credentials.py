"""Spark authenticates by a file that each process reads, or by a token that nothing shows."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

import tms
from tests.cli.conftest import run_command
from tests.serdes.compiling import record
from tests.servers.authority import Authority
from tests.servers.server_process import ServerProcess
from tms.security.tokens import new_token
from tms.spark.options import batch_read, batch_write
from tms.spark.server import SparkServer

TOKEN, KEPT = new_token("root")
OTHER_TOKEN, OTHER_KEPT = new_token("writer")


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority(tmp_path_factory.mktemp("tls") / "ours")


@pytest.fixture(scope="module")
def guarded(authority: Authority) -> Iterator[ServerProcess]:
    kept = [(KEPT, "root"), (OTHER_KEPT, "writer")]
    tokens = ",".join(f"{each.id}:{each.sha256.hex()}:{who}" for each, who in kept)
    flags = ("--auth", "required", "--superusers", "root", "--auth-tokens", tokens)
    cert, key = authority.issue("server").pair
    with ServerProcess("memory:", *flags, "--tls-cert", cert, "--tls-key", key) as server:
        with tms.connect(server.url, auth=TOKEN, ca=authority.ca) as client:
            client.topic("orders").create()
            client.topic("orders").publish([b"a", b"b"])
        yield server


@pytest.fixture
def connection(guarded: ServerProcess, authority: Authority) -> dict[str, str]:
    """The options that name the server, without credentials."""
    return {"url": guarded.url, "tms.ca": str(authority.ca)}


@pytest.mark.slow
@pytest.mark.parametrize("how", ["tms.token", "tms.tokenFile"])
def test_rows_are_read_and_written_and_the_token_is_shown_nowhere(
    spark: SparkSession,
    connection: dict[str, str],
    how: str,
    tmp_path: Path,
    capfd: pytest.CaptureFixture[str],
) -> None:
    file = tmp_path / "token"
    file.write_text(TOKEN)
    said = {**connection, how: TOKEN if how == "tms.token" else str(file)}
    options = {**said, "subscribe": "orders"}
    rows = spark.read.format("tms").options(**options).load().select("payload")
    assert {bytes(row.payload) for row in rows.collect()} >= {b"a", b"b"}
    rows.explain(extended=True)
    written = rows.limit(1).write.format("tms").mode("append")
    written.options(**said, topic="orders").save()
    secret = TOKEN.split("_", 2)[2]
    shown = "".join(capfd.readouterr())
    assert "RelationV2" in shown
    assert secret not in shown + rows._jdf.queryExecution().toString()
    assert secret not in repr(batch_read(options))


def test_who_says_nothing_is_told_what_to_do(
    spark: SparkSession, connection: dict[str, str]
) -> None:
    rows = spark.read.format("tms").options(**connection, subscribe="orders").load()
    with pytest.raises(Exception, match=r"requires credentials"):
        rows.collect()


@pytest.mark.slow
def test_commands_ask_as_they_are_told_and_so_does_the_writer_of_errors(
    spark: SparkSession, guarded: ServerProcess, authority: Authority, tmp_path: Path
) -> None:
    file = tmp_path / "token"
    file.write_text(TOKEN)
    with tms.connect(guarded.url, auth=TOKEN, ca=authority.ca) as client:
        typed, errors = client.topic("typed"), client.topic("errors")
        typed.create()
        errors.create()
        typed.publish({"id": "a"}, schema=json.dumps(record("R", id="string")))
        typed.publish(b"no schema")
        target = ("--url", guarded.url, "--ca", str(authority.ca), "--token-file", str(file))
        how = ("--schema", "latest", "--errors", "errors", "--json")
        folder = str(tmp_path / "archive")
        code, out, err = run_command("spark", "archive", folder, "typed", *how, *target)
        published = [json.loads(message.payload) for message in errors.poll()]
    assert (code, json.loads(out or "null")) == (0, {"messages": 1, "errors": 1, "batches": 1}), err
    assert [error["topic"] for error in published] == ["typed"]
    for wrong in (("--ca", str(tmp_path / "none")), ("--token-file", str(tmp_path / "none"))):
        code, _, err = run_command("spark", "stats", "typed", *target, *wrong)
        assert (code, "none" in err) == (2, True), err


def test_who_may_only_publish_may_write(
    guarded: ServerProcess, authority: Authority, connection: dict[str, str]
) -> None:
    """Also if it may not read the topic by which the driver checks whether the server has Arrow."""
    with tms.connect(guarded.url, auth=TOKEN, ca=authority.ca) as client:
        client.topic("spark").create()
    file = authority.ca.parent / "root.token"
    file.write_text(TOKEN)
    where = ("--url", guarded.url, "--ca", str(authority.ca), "--token-file", str(file))
    code, _, err = run_command("auth", "grant", "writer", "publish", "default:*", *where)
    assert code == 0, err
    options = batch_write({**connection, "tms.token": OTHER_TOKEN})
    with SparkServer(options.connection) as server:
        server.check_arrow()
