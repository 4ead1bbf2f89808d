"""A missing prerequisite of Spark is reported at once, on the driver, with the remedy."""

import platform
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

import tms
from tests.cli.conftest import run_command
from tests.servers.server_process import ServerProcess
from tms.spark import register
from tms.spark.prerequisites import CannotRun, check_workers
from tms.spark.session import open_session

REMEDY = "scripts/environment arrow"
TRACE_LINES_MAX = 25
"""Spark's own lines and a few of ours; there used to be hundreds."""


@pytest.fixture(scope="module")
def other_python(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A Python of this version that has nothing installed."""
    folder = tmp_path_factory.mktemp("other")
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(folder)], check=True)
    return str(folder / "bin/python")


@pytest.fixture
def old_python(tmp_path: Path) -> str:
    """A fake Python that reports an older version and has everything installed."""
    path = tmp_path / "python3"
    path.write_text("#!/bin/sh\necho 3.9.2\n")
    path.chmod(0o755)
    return str(path)


def test_workers_may_have_the_drivers_python() -> None:
    check_workers(sys.executable)


def test_a_python_that_is_elsewhere_cannot_be_asked() -> None:
    check_workers("./environment/bin/python-of-the-cluster")


def test_workers_without_our_packages_are_reported(
    other_python: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.delenv("PYTHONPATH", raising=False)
    monkeypatch.chdir(tmp_path)
    with pytest.raises(CannotRun) as error:
        check_workers(other_python)

    told = str(error.value)
    assert f"workers with {other_python}, which has no tms, pyspark_tms, anyio" in told
    assert f"export PYSPARK_PYTHON={sys.executable}" in told


def test_workers_of_another_version_are_reported(old_python: str) -> None:
    with pytest.raises(
        CannotRun, match=r"which is Python 3\.9\.2\. This program runs with"
    ) as error:
        check_workers(old_python)

    assert f"Python {platform.python_version()}" in str(error.value)


def test_registering_looks_at_the_workers(
    spark: SparkSession, old_python: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(spark.sparkContext, "pythonExec", old_python)

    with pytest.raises(CannotRun, match="PYSPARK_PYTHON"):
        register(spark)


@pytest.fixture(scope="module")
def without_arrow() -> Iterator[ServerProcess]:
    with ServerProcess("memory:", without=("pyarrow",)) as server:
        with tms.connect(server.url) as client:
            client.topic("t").create()
            client.topic("t").publish(b"one")
        yield server


def test_a_session_asks_the_server_first(without_arrow: ServerProcess) -> None:
    with pytest.raises(CannotRun, match=REMEDY):
        open_session("test", url=without_arrow.url)


def test_a_command_reports_it_in_a_line(without_arrow: ServerProcess) -> None:
    code, out, err = run_command("spark", "stats", "t", "--url", without_arrow.url)

    assert (code, out) == (1, "")
    assert REMEDY in err
    assert err.count("\n") == 1


def read(spark: SparkSession, url: str, folder: Path) -> None:
    spark.read.format("tms").options(url=url, subscribe="t").load().count()


def read_a_stream(spark: SparkSession, url: str, folder: Path) -> None:
    rows = spark.readStream.format("tms").options(url=url, subscribe="t").load()
    target = rows.writeStream.format("noop").option("checkpointLocation", str(folder))
    target.trigger(availableNow=True).start().awaitTermination()


def write(spark: SparkSession, url: str, folder: Path) -> None:
    rows = spark.sql("SELECT 'x' AS value")
    rows.write.format("tms").mode("append").options(url=url, topic="t").save()


def write_a_stream(spark: SparkSession, url: str, folder: Path) -> None:
    rows = spark.readStream.format("rate").load().selectExpr("string(value) AS value")
    target = rows.writeStream.format("tms").options(url=url, topic="t")
    target.option("checkpointLocation", str(folder)).start().awaitTermination()


@pytest.mark.parametrize(
    "does",
    [
        read,
        write,
        pytest.param(read_a_stream, marks=pytest.mark.slow),
        pytest.param(write_a_stream, marks=pytest.mark.slow),
    ],
)
def test_spark_reports_that_the_server_has_no_arrow(
    does: Callable[[SparkSession, str, Path], None],
    spark: SparkSession,
    without_arrow: ServerProcess,
    tmp_path: Path,
) -> None:
    with pytest.raises(PySparkException) as error:
        does(spark, without_arrow.url, tmp_path / "checkpoint")

    told = str(error.value)
    assert REMEDY in told
    assert "bridge.py" not in told
    assert len(told[: told.index(REMEDY)].splitlines()) <= TRACE_LINES_MAX
