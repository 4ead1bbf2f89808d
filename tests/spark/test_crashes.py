"""Whatever is killed, each message is in the sink once: counted one by one."""

import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest

import tms
from tests.client.server_process import ROOT, ServerProcess, environment
from tests.spark.conftest import JAVA
from tests.spark.crashing import (
    AFTER_COMMIT,
    BEFORE_COMMIT,
    IN_TASK,
    VARIABLE,
    WHILE_STORING,
)
from tms.spark.options import stream_write
from tms.spark.writer import StreamWriter, Work

pytestmark = pytest.mark.slow

ROWS = 250
DRIVER_S_MAX = 400


class Drivers:
    """Runs drivers one after another on the same checkpoint."""

    def __init__(self, url: str, namespace: str, folder: Path) -> None:
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
    """There are messages in `a`, to be copied to `b`."""
    for name in ("a", "b"):
        client.topic(name).create()
    client.topic("a").publish([b"%d" % n for n in range(ROWS)])
    return Drivers(server.url, namespace, tmp_path)


def copied(client: tms.Client) -> list[int]:
    return [int(message.payload) for message in client.topic("b").poll(committed=True)]


@pytest.mark.parametrize("where", [BEFORE_COMMIT, AFTER_COMMIT])
def test_a_driver_that_is_killed_around_the_commit(
    drivers: Drivers, client: tms.Client, where: str
) -> None:
    killed = drivers.run(where)
    between = copied(client)
    second = drivers.run()

    assert "done" not in killed.stdout
    assert not drivers.order.exists(), killed.stderr[-3000:]
    assert between == ([] if where == BEFORE_COMMIT else [*range(100)])
    assert second.stdout.strip() == "done", second.stderr[-3000:]
    assert copied(client) == [*range(ROWS)]


def test_a_worker_that_is_killed_with_its_rows_stored(drivers: Drivers, client: tms.Client) -> None:
    done = drivers.run(IN_TASK)

    assert done.stdout.strip() == "done", done.stderr[-3000:]
    assert not drivers.order.exists()
    assert copied(client) == [*range(ROWS)]


def test_a_server_that_is_killed_in_the_middle_of_a_batch(tmp_path: Path) -> None:
    store = f"leveldb:{tmp_path / 'data'}"
    with ServerProcess(store) as first, tms.connect(first.url, "n") as client:
        port = first.port
        for name in ("a", "b"):
            client.topic(name).create()
        client.topic("a").publish([b"%d" % n for n in range(ROWS)])
        drivers = Drivers(first.url, "n", tmp_path)
        ended: list[subprocess.CompletedProcess[str]] = []
        driver = threading.Thread(target=lambda: ended.append(drivers.run(WHILE_STORING)))
        driver.start()
        wait_for(drivers.order.with_suffix(".reached"))
        first.kill()
    with ServerProcess(store, port) as second, tms.connect(second.url, "n") as client:
        drivers.order.unlink()
        driver.join(DRIVER_S_MAX)

        assert ended[0].stdout.strip() == "done", ended[0].stderr[-3000:]
        assert copied(client) == [*range(ROWS)]


def wait_for(file: Path) -> None:
    deadline = time.monotonic() + DRIVER_S_MAX
    while not file.exists():
        assert time.monotonic() < deadline
        time.sleep(0.1)


class _Driver:
    """One of two drivers that take themselves for the only one: Spark's calls, without Spark."""

    def __init__(self, options: dict[str, str]) -> None:
        self.writer = StreamWriter(stream_write({**options, "topic": "b"}), ["payload"])
        work = Work(options["namespace"], 0, "query")
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
