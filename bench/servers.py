"""The measured servers: TMS, and an endpoint that does nothing, each in its own process.

Both print `… at URL …` when they serve, and are stopped through their process.
"""

import os
import re
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from urllib.request import urlopen

_ROOT = Path(__file__).parents[1]
_SERVE = "from tms.cli.main import main; main()"
_URL = re.compile(r" at (https?://\S+) ")
_STOP_S_MAX = 60.0


@dataclass(frozen=True, slots=True)
class Server:
    """A running server."""

    url: str
    pid: int

    def cpu_s(self) -> float:
        """Return the seconds of processor time that the process has used."""
        fields = Path(f"/proc/{self.pid}/stat").read_text(encoding="utf-8").rpartition(")")[2]
        user, system = fields.split()[11:13]
        return (int(user) + int(system)) / os.sysconf("SC_CLK_TCK")

    def memory(self) -> dict[str, int]:
        """Return the bytes of each kind of memory that the kernel counts for the process."""
        status = Path(f"/proc/{self.pid}/status").read_text(encoding="utf-8")
        found = re.findall(r"^(VmRSS|VmHWM|RssAnon|RssFile):\s+(\d+) kB$", status, re.MULTILINE)
        return {name: int(number) * 1024 for name, number in found}

    def descriptors(self) -> int:
        """Return the number of open descriptors of the process."""
        return sum(1 for _ in Path(f"/proc/{self.pid}/fd").iterdir())


@contextmanager
def _running(*arguments: str | Path) -> Iterator[Server]:
    environment = {k: v for k, v in os.environ.items() if not k.startswith("TMS_")}
    process = subprocess.Popen(
        [sys.executable, *arguments],
        cwd=_ROOT,
        env={**environment, "PYTHONUNBUFFERED": "1"},
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        assert process.stdout is not None
        for line in process.stdout:
            found = _URL.search(line)
            if found is not None:
                yield Server(found[1], process.pid)
                break
        else:
            raise RuntimeError(f"the server {arguments} did not start")
        process.terminate()
        process.wait(_STOP_S_MAX)
    finally:
        process.kill()
        process.wait()


@contextmanager
def tms_server(
    folder: Path, *flags: str, limits: Mapping[str, int] | None = None
) -> Iterator[Server]:
    """Run TMS on LevelDB in `folder`. `limits` are those that users cannot set."""
    defaults = f"Limits.__init__.__kwdefaults__.update({dict(limits or {})})"
    program = f"from tms.core.limits import Limits; {defaults}; {_SERVE}"
    options = ("--store", f"leveldb:{folder}", "--listen", "127.0.0.1:0", "--log-level", "warning")
    with _running("-c", program, "serve", *options, *flags) as server:
        yield server


@contextmanager
def registry_server(log: str, port: int, *flags: str) -> Iterator[Server]:
    """Run a registry-only server, on the topics of the TMS at `log`."""
    options = ("--registry-log", log, "--listen", f"127.0.0.1:{port}", "--log-level", "warning")
    with _running("-c", _SERVE, "serve", *options, *flags) as server:
        yield server


@contextmanager
def standby_server(leader: str, *files: Path) -> Iterator[Server]:
    """Run one that forwards to `leader`; `files` are CA, certificate and key for TLS."""
    with _running("-m", "bench.standby", leader, *files) as server:
        yield server


@contextmanager
def empty_server() -> Iterator[Server]:
    """Run the endpoint that does nothing."""
    with _running("-m", "bench.empty_endpoint") as server:
        yield server


def bytes_in(folder: Path) -> int:
    """Return the size of all files in a folder."""
    return sum(_size(each) for each in folder.rglob("*"))


def _size(path: Path) -> int:
    with suppress(OSError):  # LevelDB may have deleted it
        return path.stat().st_size
    return 0


def metrics_of(url: str) -> dict[str, float]:
    """Return the counters of the TMS at `url`, by name."""
    with urlopen(f"{url}/metrics") as answer:
        lines = answer.read().decode().splitlines()
    pairs = (line.rsplit(" ", 1) for line in lines if not line.startswith("#"))
    return {name: float(value) for name, value in pairs}
