"""Spark asks as somebody: by a file that each process reads, or by a token that nothing shows."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

import tms
from tests.servers.server_process import ServerProcess
from tms.security.tokens import new_token
from tms.spark.options import batch_read

TOKEN, KEPT = new_token("root")


@pytest.fixture(scope="module")
def guarded() -> Iterator[ServerProcess]:
    setting = f"{KEPT.id}:{KEPT.sha256.hex()}:root"
    flags = ("--auth", "required", "--superusers", "root", "--auth-tokens", setting)
    with ServerProcess("memory:", *flags) as server:
        with tms.connect(server.url, auth=TOKEN) as client:
            client.topic("orders").create()
            client.topic("orders").publish([b"a", b"b"])
        yield server


@pytest.mark.parametrize("how", ["tms.token", "tms.tokenFile"])
def test_rows_are_read_and_written_and_the_token_is_shown_nowhere(
    spark: SparkSession,
    guarded: ServerProcess,
    how: str,
    tmp_path: Path,
    capfd: pytest.CaptureFixture[str],
) -> None:
    file = tmp_path / "token"
    file.write_text(TOKEN)
    said = {how: TOKEN if how == "tms.token" else str(file)}
    options = {"url": guarded.url, "subscribe": "orders", **said}
    rows = spark.read.format("tms").options(**options).load().select("payload")
    assert {bytes(row.payload) for row in rows.collect()} >= {b"a", b"b"}
    rows.explain(extended=True)
    written = rows.limit(1).write.format("tms").mode("append")
    written.options(url=guarded.url, topic="orders", **said).save()
    secret = TOKEN.rpartition("_")[2]
    shown = "".join(capfd.readouterr())
    assert "RelationV2" in shown
    assert secret not in shown + rows._jdf.queryExecution().toString()
    assert secret not in repr(batch_read(options))


def test_who_says_nothing_is_told_what_to_do(spark: SparkSession, guarded: ServerProcess) -> None:
    rows = spark.read.format("tms").options(url=guarded.url, subscribe="orders").load()
    with pytest.raises(Exception, match=r"say who they are"):
        rows.collect()
