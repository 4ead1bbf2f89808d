"""A Spark cluster on this machine, from only the pip package: a master and workers.

    dev/spark/cluster [--workers COUNT] [FOLDER]

Runs until it is interrupted. `FOLDER`, by default a new one in the temporary folder, has the logs
and the workers' files. Every process is a child of this one, and ends with it.
"""

import argparse
import os
import subprocess
import sys
import tempfile
import time
from contextlib import ExitStack
from pathlib import Path
from types import TracebackType
from typing import Self

import pyspark

from dev.processes import HOST, CannotStart, free_ports

ROOT = Path(__file__).parents[2]
START_S_MAX = 120
STOP_S_MAX = 20
WORKER_CORES = 1
WORKER_MEMORY = "1g"
_MASTER = "org.apache.spark.deploy.master.Master"
_WORKER = "org.apache.spark.deploy.worker.Worker"
_REGISTERED = "Successfully registered with master"
_LISTENS = "Starting Spark master at"
_LOG_LINES = 20


class Cluster:
    """A master and its workers, while the context lasts."""

    def __init__(self, folder: Path, workers: int = 2) -> None:
        """Start nothing yet."""
        self._folder = folder
        self._workers = workers
        (self._port,) = free_ports(1)
        self._processes = ExitStack()

    @property
    def url(self) -> str:
        """The URL of the master, for `spark.master`."""
        return f"spark://{HOST}:{self._port}"

    def __enter__(self) -> Self:
        """Start master and workers, and return when all are connected."""
        self._folder.mkdir(parents=True, exist_ok=True)
        with ExitStack() as processes:
            where = ("--host", HOST, "--webui-port", "0")
            master = self._start(processes, "master", _MASTER, *where, "--port", str(self._port))
            self._wait("master", master, _LISTENS)
            sizes = ("-c", str(WORKER_CORES), "-m", WORKER_MEMORY)
            names = [f"worker-{number}" for number in range(1, self._workers + 1)]
            workers = [
                (name, self._start(processes, name, _WORKER, *where, *sizes, self.url))
                for name in names
            ]
            for name, process in workers:
                self._wait(name, process, _REGISTERED)
            self._processes = processes.pop_all()
        return self

    def _start(
        self, processes: ExitStack, name: str, main: str, *arguments: str
    ) -> subprocess.Popen[bytes]:
        home = Path(pyspark.__file__).parent
        environment = {
            **os.environ,
            "SPARK_HOME": str(home),
            "SPARK_LOCAL_IP": HOST,
            "SPARK_WORKER_DIR": str(self._folder / name),
            "SPARK_DAEMON_MEMORY": "256m",
            "PYSPARK_PYTHON": sys.executable,
            "PYTHONPATH": str(ROOT),
        }
        with self._log(name).open("wb") as log:
            process = subprocess.Popen(
                [str(home / "bin/spark-class"), main, *arguments],
                env=environment,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
            )
        processes.callback(_end, process)
        return process

    def _log(self, name: str) -> Path:
        return self._folder / f"{name}.log"

    def _wait(self, name: str, process: subprocess.Popen[bytes], said: str) -> None:
        deadline = time.monotonic() + START_S_MAX
        while said not in (log := self._log(name).read_text(encoding="utf-8", errors="replace")):
            if process.poll() is not None or time.monotonic() > deadline:
                ends = "\n".join(log.splitlines()[-_LOG_LINES:])
                raise CannotStart(f"{ends}\n{name} did not come up.")
            time.sleep(0.1)

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        """End all processes, the workers first."""
        self._processes.close()


def _end(process: subprocess.Popen[bytes]) -> None:
    process.terminate()
    try:
        process.wait(STOP_S_MAX)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


def main() -> None:
    """Run a cluster until interrupted."""
    parser = argparse.ArgumentParser(
        prog="dev/spark/cluster", description="Run a Spark cluster on this machine."
    )
    parser.add_argument("folder", type=Path, nargs="?", help="folder for logs (default: a new one)")
    parser.add_argument("--workers", type=int, default=2)
    arguments = parser.parse_args()
    folder = arguments.folder or Path(tempfile.mkdtemp(prefix="tms-spark-"))
    try:
        with Cluster(folder, arguments.workers) as cluster:
            print(f"Spark is running; its logs are in {folder}. To use it:", flush=True)
            print(f"  tms spark stats TOPIC --master {cluster.url}", flush=True)
            print("Stop it with Ctrl-C.", flush=True)
            while True:
                time.sleep(3600)
    except CannotStart as error:
        sys.exit(str(error))
    except KeyboardInterrupt:
        print("Stopped.")


if __name__ == "__main__":
    main()
