"""Spark's executors in processes of their own, and programs run by `spark-submit`."""

import json
import subprocess
import sys
from pathlib import Path

import pyspark
import pytest

import tms
from dev.spark.cluster import Cluster
from tests.servers.server_process import ROOT, ServerProcess, environment
from tests.spark.conftest import JAVA

pytestmark = pytest.mark.slow

ROWS = 5000
SESSION_S_MAX = 500


def run(*command: str) -> str:
    """Run a Spark program, which must succeed, and return what it prints."""
    submit = f'--driver-java-options "{JAVA}" pyspark-shell'
    more = {"PYSPARK_SUBMIT_ARGS": submit, "PYSPARK_DRIVER_PYTHON": sys.executable}
    more |= {"PYSPARK_PYTHON": sys.executable, "SPARK_LOCAL_IP": "127.0.0.1"}
    clean = {**environment(), **more}
    clean.pop("PYTHONWARNINGS")
    done = subprocess.run(
        command,
        check=False,
        capture_output=True,
        text=True,
        cwd=ROOT,
        env=clean,
        timeout=SESSION_S_MAX,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    return done.stdout


def test_a_cluster_reads_writes_and_streams(
    server: ServerProcess, client: tms.Client, namespace: str, tmp_path: Path
) -> None:
    for name in ("a", "b", "c"):
        client.topic(name).create()
    sent = [b"%d" % n for n in range(ROWS)]
    client.topic("a").publish(sent)
    module = ("-m", "tests.spark.cluster_session")
    with Cluster(tmp_path / "cluster") as cluster:
        printed = run(sys.executable, *module, cluster.url, server.url, namespace)

    assert printed == f"2 executors, {ROWS} rows\n"
    for name in ("b", "c"):
        assert [message.payload for message in client.topic(name).poll(committed=True)] == sent


def test_spark_submit_takes_the_commands(
    server: ServerProcess, client: tms.Client, namespace: str
) -> None:
    client.topic("a").create()
    client.topic("a").publish([b"1", b"22"])
    submit = str(Path(pyspark.__file__).parent / "bin/spark-submit")
    program = run(sys.executable, "-m", "tms.cli.submitted").strip()
    target = ("--url", server.url, "--namespace", namespace, "--json")
    printed = run(submit, "--master", "local[2]", program, "stats", "a", *target)
    [row] = json.loads(printed)

    assert (row["topic"], row["messages"], row["payload_bytes"]) == ("a", 2, 3)
