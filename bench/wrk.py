"""Runs wrk, the load generator: some connections, some seconds.

It has one thread, unless each connection needs its own because the script remembers its client's
answers. It is pinned to one processor: with one connection, waking each other across processors
costs client and server a third of a figure, and the kernel changes its choice all the time.

wrk keeps each connection busy with one request after another, so latency is that under full load.
"""

import os
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

_HERE = Path(__file__).parent
_TIMEOUT_S = 30


class NoWrk(Exception):
    """Raised if wrk is not installed."""

    def __init__(self) -> None:
        """Say how to install it."""
        super().__init__("the load generator wrk is missing: apt-get install wrk")


@dataclass(frozen=True, slots=True)
class Run:
    """The figures of one run of wrk."""

    seconds: float
    requests_per_s: float
    p50_ms: float
    p99_ms: float


def check_installed() -> None:
    """Raise `NoWrk` if it is not installed."""
    if shutil.which("wrk") is None:
        raise NoWrk


def run(
    script: str,
    url: str,
    *,
    connections: int,
    seconds: float,
    threads: int = 1,
    **variables: object,
) -> Run:
    """Load the server at `url` with wrk and a `script`, with its `variables`.

    Raises `RuntimeError` unless all requests were answered with 200.
    """
    settings = {name: str(value) for name, value in variables.items()}
    on_one = ("taskset", "--cpu-list", str(max(os.sched_getaffinity(0))))
    options = ("-t", str(threads), "-c", str(connections), "-d", f"{seconds:.0f}s", "-s")
    done = subprocess.run(
        [*on_one, "wrk", *options, str(_HERE / script), "--timeout", f"{_TIMEOUT_S}s", url],
        env={
            **os.environ,
            **settings,
            "REPORT_LUA": str(_HERE / "report.lua"),
            "TOKENS_LUA": str(_HERE / "tokens.lua"),
        },
        capture_output=True,
        text=True,
        check=False,
    )
    line = next((line for line in done.stdout.splitlines() if line.startswith("REPORT ")), None)
    if line is None:
        raise RuntimeError(f"wrk failed: {done.stdout}{done.stderr}")
    count, duration_us, p50_us, p99_us, refused, broken = map(int, line.split()[1:])
    if refused or broken or not count:
        raise RuntimeError(f"of {count} requests {refused} were refused and {broken} broke: {url}")
    duration_s = duration_us / 1e6
    return Run(duration_s, count / duration_s, p50_us / 1000, p99_us / 1000)
