"""Whichever process is killed, each message is in the sink once: counted one by one."""

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession
from pyspark.sql.streaming.query import StreamingQuery

import tms
from tests.servers.server_process import ROOT, ServerProcess, environment
from tests.spark.conftest import JAVA
from tests.spark.crashing import (
    AFTER_COMMIT,
    BEFORE_COMMIT,
    IN_TASK,
    VARIABLE,
    WHILE_STORING,
)
from tests.waiting import wait_until
from tms.spark.batch_owner import BatchOwner
from tms.spark.options import stream_write
from tms.spark.writer import StreamWriter

pytestmark = pytest.mark.slow

ROWS = 250
DRIVER_S_MAX = 400
END_S_MAX = 300


class Drivers:
    """Runs drivers one after another on the same checkpoint."""

    def __init__(self, url: str, namespace: str, folder: Path) -> None:
        self.url = url
        self._arguments = (url, namespace, str(folder / "checkpoint"))
        self.order = folder / "crash"

    def run(self, where: str = "-") -> subprocess.CompletedProcess[str]:
        """Run one to its end, whichever that is."""
        submit = f'--driver-java-options "{JAVA}" pyspark-shell'
        more = {VARIABLE: str(self.order), "SPARK_LOCAL_IP": "127.0.0.1"}
        more |= {"PYSPARK_PYTHON": sys.executable, "PYSPARK_SUBMIT_ARGS": submit}
        clean = {**environment(), **more}
        clean.pop("PYTHONWARNINGS")
        return subprocess.run(
            [sys.executable, "-m", "tests.spark.driver", *self._arguments, where],
            check=False,
            capture_output=True,
            text=True,
            cwd=ROOT,
            env=clean,
            timeout=DRIVER_S_MAX,
        )


@pytest.fixture
def drivers(server: ServerProcess, client: tms.Client, namespace: str, tmp_path: Path) -> Drivers:
    """Publish messages to `a`, from which the drivers copy them to `b`."""
    fill(client)
    return Drivers(server.url, namespace, tmp_path)


def fill(client: tms.Client) -> None:
    for name in ("a", "b"):
        client.topic(name).create()
    client.topic("a").publish([b"%d" % n for n in range(ROWS)])


def copied(client: tms.Client) -> list[int]:
    return [int(message.payload) for message in client.topic("b").poll(committed=True)]


def test_a_driver_that_is_killed_before_a_commit_and_one_after(
    drivers: Drivers, client: tms.Client
) -> None:
    first = drivers.run(BEFORE_COMMIT)
    after_first, has_died = copied(client), not drivers.order.exists()
    second = drivers.run(AFTER_COMMIT)
    after_second = copied(client)
    third = drivers.run()

    assert "done" not in first.stdout + second.stdout
    assert has_died, first.stderr[-3000:]
    assert not drivers.order.exists(), second.stderr[-3000:]
    assert after_first == []
    assert after_second == [*range(100)], "a batch has a hundred"
    assert third.stdout.strip() == "done", third.stderr[-3000:]
    assert copied(client) == [*range(ROWS)]


def start_copying(spark: SparkSession, url: str, namespace: str, folder: Path) -> StreamingQuery:
    """Start the copying that `driver.py` does, but in the session of these tests."""
    options = {"url": url, "namespace": namespace}
    source = {"subscribe": "a", "startingOffsets": "earliest", "maxOffsetsPerTrigger": "100"}
    rows = spark.readStream.format("tms").options(**options, **source).load()
    writer = rows.select("payload").writeStream.format("tms_crashing").options(**options)
    writer = writer.options(topic="b", checkpointLocation=str(folder / "checkpoint"))
    return writer.trigger(availableNow=True).start()


def test_a_worker_that_is_killed_with_its_rows_stored(
    spark: SparkSession, crash_order: Path, drivers: Drivers, client: tms.Client, tmp_path: Path
) -> None:
    crash_order.write_text(f"{IN_TASK} 0")
    query = start_copying(spark, drivers.url, client.namespace, tmp_path)

    assert query.awaitTermination(END_S_MAX)
    assert not crash_order.exists()
    assert copied(client) == [*range(ROWS)]


def test_a_server_that_is_killed_in_the_middle_of_a_batch(
    spark: SparkSession, crash_order: Path, tmp_path: Path
) -> None:
    store = f"leveldb:{tmp_path / 'data'}"
    with ServerProcess(store) as first, tms.connect(first.url, "n") as client:
        port = first.port
        fill(client)
        crash_order.write_text(f"{WHILE_STORING} 0")
        query = start_copying(spark, first.url, "n", tmp_path)
        wait_until(crash_order.with_suffix(".reached").exists)
        first.kill()
    with ServerProcess(store, port=port) as second, tms.connect(second.url, "n") as client:
        crash_order.unlink()

        assert query.awaitTermination(END_S_MAX)
        assert copied(client) == [*range(ROWS)]
        assert second.stop() == 0


class _Driver:
    """One of two drivers, each of which assumes it is alone: Spark's calls, without Spark."""

    def __init__(self, options: dict[str, str], *, batch: int = 0, query: str = "query") -> None:
        self.writer = StreamWriter(stream_write({**options, "topic": "b"}), ["payload"])
        work = BatchOwner(options["namespace"], batch, query)
        vars(self.writer)["_work"] = lambda: work

    def write(self, *payloads: bytes) -> None:
        self.stored = self.writer.write(rows(payloads))

    def commit(self) -> None:
        self.writer.commit([self.stored], 0)


def rows(payloads: tuple[bytes, ...]) -> Iterator[pa.RecordBatch]:
    yield pa.record_batch({"payload": pa.array(payloads, pa.binary())})


def test_of_two_drivers_on_one_checkpoint_the_first_that_commits_wins(
    options: dict[str, str], client: tms.Client
) -> None:
    client.topic("b").create()
    first, second, late = (_Driver(options) for _ in range(3))
    first.write(b"of the first")
    second.write(b"of the second")
    second.commit()
    first.commit()
    late.write(b"too late")
    late.commit()

    assert [message.payload for message in client.topic("b").poll()] == [b"of the second"]


def test_what_is_stored_after_the_batch_was_given_up_is_refused(
    options: dict[str, str], client: tms.Client
) -> None:
    client.topic("b").create()
    driver = _Driver(options)

    def slow() -> Iterator[pa.RecordBatch]:
        yield from rows((b"1",))
        [open_one] = client.transactions.in_progress()
        client.transactions.abort(open_one.transaction_id)
        yield from rows((b"2",))

    with pytest.raises((tms.TransactionNotInProgress, tms.TransactionUnknown)):
        driver.writer.write(slow())

    assert list(client.topic("b").poll()) == []


def test_another_query_under_the_same_name_is_an_error_while_a_batch_is_open(
    options: dict[str, str], client: tms.Client
) -> None:
    client.topic("b").create()
    first = _Driver(options)
    first.write(b"1")
    with pytest.raises(tms.OwnerBusy):
        _Driver(options, query="another").write(b"2")
    first.commit()
    with pytest.raises(tms.OwnerElsewhere):
        _Driver(options, query="another").write(b"3")

    assert [message.payload for message in client.topic("b").poll()] == [b"1"]


def test_a_batch_that_was_left_open_is_given_up_for_the_next(
    options: dict[str, str], client: tms.Client
) -> None:
    client.topic("b").create()
    left, following = _Driver(options), _Driver(options, batch=1)
    left.write(b"never seen")
    following.write(b"seen")
    following.commit()

    assert [message.payload for message in client.topic("b").poll()] == [b"seen"]
    with pytest.raises(tms.TransactionNotInProgress):
        left.commit()
