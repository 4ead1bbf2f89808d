"""A real server in a process of its own, which tests may stop, kill and starve.

It is ended by its pid, whatever becomes of the test. Its output goes through a pipe, so that a
limit on the size of its files is none on its log.
"""

import os
import re
import resource
import signal
import subprocess
import sys
from pathlib import Path
from threading import Event, Thread
from types import TracebackType
from typing import Self

ROOT = Path(__file__).parents[2]
START_S_MAX = 30.0
STOP_S_MAX = 20.0

_SERVE = "from tms.cli.main import main; main()"
_URL = re.compile(r"at (http://\S+) ")


class ServerFailed(Exception):
    """Raised when a server did not start; has its exit code (None: it did not end) and its log."""

    def __init__(self, exit_code: int | None, log: str) -> None:
        self.exit_code = exit_code
        self.log = log
        super().__init__(f"the server did not start, exit code {exit_code}; its log:\n{log}")


class ServerProcess:
    """`tms serve` on a folder; a context manager that leaves no process behind."""

    def __init__(
        self, folder: Path, *flags: str, url: str = "127.0.0.1:0", transactions: str = "foreign"
    ) -> None:
        """Start it, and do not wait. By default it takes any write pointer, as tests make them."""
        environment = {k: v for k, v in os.environ.items() if not k.startswith("TMS_")}
        options: tuple[str, ...] = ("--store", f"leveldb:{folder}", "--listen", url)
        options += ("--transactions", transactions, *flags)
        self._lines: list[str] = []
        self._url: str | None = None
        self._told = Event()
        self._process = subprocess.Popen(
            [sys.executable, "-c", _SERVE, "serve", *options],
            cwd=ROOT,
            env={**environment, "PYTHONUNBUFFERED": "1"},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        self._reader = Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            self._lines.append(line)
            found = _URL.search(line) if self._url is None else None
            if found is not None:
                self._url = found[1]
                self._told.set()
        self._told.set()

    @property
    def pid(self) -> int:
        return self._process.pid

    @property
    def log(self) -> str:
        """What it has printed so far, on both streams."""
        return "".join(self._lines)

    @property
    def url(self) -> str:
        """Where it serves; waits until it does. Raises `ServerFailed`."""
        self._told.wait(START_S_MAX)
        if self._url is None:
            self.kill()
            raise ServerFailed(self._process.returncode, self.log)
        return self._url

    def wait_until_told(self, seconds: float) -> bool:
        """Wait up to `seconds` until it serves or has ended; return whether it does either."""
        return self._told.wait(seconds)

    def wait(self) -> int:
        """Return the exit code once it has ended by itself; -9 where it was killed."""
        try:
            exit_code = self._process.wait(STOP_S_MAX)
        finally:
            self._process.kill()
        self._reader.join()
        return exit_code

    def kill(self) -> None:
        """End it as a crash does. Ending it twice is no error."""
        self._process.kill()
        self._process.wait()
        self._reader.join()

    def terminate(self) -> None:
        """Ask it to stop, and do not wait."""
        self._process.send_signal(signal.SIGTERM)

    def stop(self) -> int:
        """Ask it to stop, and return its exit code."""
        self.terminate()
        return self.wait()

    def limit_file_bytes(self, bytes_max: int) -> None:
        """Let every write beyond `bytes_max` in a file fail, from now on (EFBIG)."""
        _, hard = resource.prlimit(self.pid, resource.RLIMIT_FSIZE)
        resource.prlimit(self.pid, resource.RLIMIT_FSIZE, (bytes_max, hard))

    def lift_file_limit(self) -> None:
        """Let writes succeed again."""
        self.limit_file_bytes(resource.RLIM_INFINITY)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.kill()
        assert self._process.stdout is not None
        self._process.stdout.close()
        if error is not None:
            error.add_note(f"log of server {self.pid}, the last of it:\n{self.log[-8000:]}")


def refusal(folder: Path, *flags: str) -> tuple[int, str]:
    """Start a server that must not start; return its exit code and its log."""
    with ServerProcess(folder, *flags) as server:
        return server.wait(), server.log
