"""The same on executors in processes of their own: local-cluster, and a standalone master."""

import subprocess
import sys
from collections.abc import Iterator
from contextlib import nullcontext
from pathlib import Path

import pytest

import tms
from dev.spark.cluster import Cluster
from tests.client.server_process import ROOT, ServerProcess, environment
from tests.spark.conftest import JAVA

pytestmark = pytest.mark.slow

ROWS = 5000
SESSION_S_MAX = 500


@pytest.fixture(params=["local-cluster", "standalone"])
def master(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    is_standalone = request.param == "standalone"
    with Cluster(tmp_path / "cluster") if is_standalone else nullcontext() as cluster:
        yield cluster.url if cluster else "local-cluster[2,1,768]"


def test_a_cluster_reads_writes_and_streams(
    master: str, server: ServerProcess, client: tms.Client, namespace: str
) -> None:
    for name in ("a", "b", "c"):
        client.topic(name).create()
    sent = [b"%d" % n for n in range(ROWS)]
    client.topic("a").publish(sent)
    more = {
        "SPARK_LOCAL_IP": "127.0.0.1",
        "PYSPARK_PYTHON": sys.executable,
        "PYSPARK_SUBMIT_ARGS": f'--driver-java-options "{JAVA}" pyspark-shell',
    }
    clean = {**environment(), **more}
    clean.pop("PYTHONWARNINGS")
    done = subprocess.run(
        [sys.executable, "-m", "tests.spark.cluster_session", master, server.url, namespace],
        check=False,
        capture_output=True,
        text=True,
        cwd=ROOT,
        env=clean,
        timeout=SESSION_S_MAX,
    )

    assert done.stdout == f"2 executors, {ROWS} rows\n", done.stderr[-3000:]
    for name in ("b", "c"):
        assert [message.payload for message in client.topic(name).poll(committed=True)] == sent
