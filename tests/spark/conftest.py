"""One Spark for all these tests, and one server; each test has a namespace of its own.

Tests that depend on the place of transactions and owners also run on a server of three shards
(`ON_SHARDS`); `test_shards.py` writes and reads with Spark there. Other tests do not: each of their
jobs takes seconds; batches are written by the same calls as in `test_batch_owner.py`; ranges and
polls, by which they read, run on shards in `tests/api`; streams, tables and types do not depend on
shards.
"""

import itertools
import os
import sys
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pyspark import SparkContext
from pyspark.sql import SparkSession

import tms
from tests.servers.server_process import ROOT, ServerProcess
from tests.spark.crashing import VARIABLE, CrashingDataSource
from tms.core.values.shards import ShardBy

_numbers = itertools.count()

CONF = {
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.sql.catalogImplementation": "in-memory",
    "spark.sql.shuffle.partitions": "2",
    "spark.sql.adaptive.enabled": "false",
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.python.filterPushdown.enabled": "true",
}
JAVA = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
"""The settings that start fastest."""
MASTER = "local[2,3]"
"""Two threads, and three attempts per task: local[2] would repeat none."""


ON_SHARDS = {"test_batch_owner"}


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Run the tests that depend on shards on three shards too."""
    name = metafunc.module.__name__.rpartition(".")[2]
    if "server" in metafunc.fixturenames and name in ON_SHARDS:
        rules = [None, ShardBy.NAMESPACE]
        ids = ["whole", "shards"]
        metafunc.parametrize("server", rules, ids=ids, indirect=True, scope="session")


@pytest.fixture(scope="session")
def server(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[ServerProcess]:
    shard_by: ShardBy | None = getattr(request, "param", None)
    folder = tmp_path_factory.mktemp("spark") / "data"
    store = f"leveldb:{folder}" if shard_by is None else "memory:"
    with ServerProcess(store, shard_by=shard_by) as server:
        yield server
        assert server.stop() == 0


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    environment = {
        VARIABLE: str(tmp_path_factory.mktemp("crash") / "order"),
        "SPARK_LOCAL_IP": "127.0.0.1",
        "PYSPARK_SUBMIT_ARGS": f'--driver-java-options "{JAVA}" pyspark-shell',
        "PYSPARK_PYTHON": sys.executable,
        "PYTHONPATH": str(ROOT),
    }
    builder = SparkSession.builder.master(MASTER).appName("tms tests")
    for name, value in CONF.items():
        builder = builder.config(name, value)
    builder = builder.config("spark.sql.warehouse.dir", str(tmp_path_factory.mktemp("warehouse")))
    with pytest.MonkeyPatch.context() as patch:
        for name, value in environment.items():
            patch.setenv(name, value)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # Spark's own warnings
            session = builder.getOrCreate()
        session.sparkContext.setLogLevel("OFF")
        session.dataSource.register(CrashingDataSource)
        gateway: Any = session.sparkContext._gateway
        yield session
        session.stop()
        # The JVM ends when its input ends. PySpark starts another one only if it has none
        # registered.
        gateway.shutdown()
        gateway.proc.stdin.close()
        gateway.proc.wait()
        SparkContext._gateway = SparkContext._jvm = None


@pytest.fixture
def crash_order(spark: SparkSession) -> Iterator[Path]:
    """The file that says where `format("tms_crashing")` dies."""
    order = Path(os.environ[VARIABLE])
    yield order
    order.unlink(missing_ok=True)


@pytest.fixture
def namespace() -> str:
    """A namespace that no other test uses."""
    return f"s{next(_numbers)}"


@pytest.fixture
def client(server: ServerProcess, namespace: str) -> Iterator[tms.Client]:
    with tms.connect(server.url, namespace) as client:
        yield client


@pytest.fixture
def options(server: ServerProcess, namespace: str) -> dict[str, str]:
    """The options that every read and write of a test needs."""
    return {"url": server.url, "namespace": namespace}


@pytest.fixture
def checkpoint(tmp_path: Path) -> str:
    return str(tmp_path / "checkpoint")
