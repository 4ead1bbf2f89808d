"""A server in a process of its own, as `tms serve` runs it, to start, kill and start again."""

import os
import re
import subprocess
import sys
from pathlib import Path
from types import TracebackType
from typing import Self

START_S_MAX = 30.0
STOP_S_MAX = 30.0
ROOT = Path(__file__).parents[2]
COMMAND = (sys.executable, "-c", "from tms.cli.main import main; main()")


def environment() -> dict[str, str]:
    """Return this process's environment without any setting of TMS."""
    clean = {name: value for name, value in os.environ.items() if not name.startswith("TMS_")}
    return {**clean, "PYTHONPATH": str(ROOT), "PYTHONWARNINGS": "error"}


class ServerProcess:
    """`tms serve` on a store and a port, 0 for any free one; `url` says which it got."""

    def __init__(self, store: str, port: int = 0, *flags: str) -> None:
        """Start it and wait until it listens."""
        self._process = subprocess.Popen(
            [*COMMAND, "serve", "--store", store, "--listen", f"127.0.0.1:{port}", *flags],
            stdout=subprocess.PIPE,
            text=True,
            env=environment(),
            cwd=ROOT,
        )
        assert self._process.stdout is not None
        greeting = re.search(r"at (http://\S+:(\d+))", self._process.stdout.readline())
        assert greeting, "the server did not start; see its standard error"
        self.url = greeting[1]
        self.port = int(greeting[2])

    def kill(self) -> None:
        """End it at once, as a crash does."""
        self._process.kill()
        self._finish()

    def stop(self) -> int:
        """End it by SIGTERM; return its exit code."""
        self._process.terminate()
        return self._finish()

    def _finish(self) -> int:
        assert self._process.stdout is not None
        self._process.stdout.close()
        return self._process.wait(STOP_S_MAX)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if self._process.poll() is None:
            self.stop()
