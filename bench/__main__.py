"""Run the benchmarks and print one line for each figure: `python -m bench`."""

import argparse
import os
import platform
import sys
import sysconfig
import tempfile
from dataclasses import replace
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path

from bench import (
    callers,
    churn,
    cleanup,
    client,
    compaction,
    console,
    fairness,
    filters,
    forwarding,
    groups,
    growth,
    hbase,
    memory,
    metadata,
    neighbour,
    poll,
    publish,
    recovery,
    registry,
    schedules,
    security,
    soak,
    spark,
    strangers,
    streams,
    transactions,
    values,
    wrk,
)
from bench.rounds import FULL, QUICK
from tables.leveldb_binding import plyvel
from tms import __version__

_SUITES = {
    "publish": publish.run,
    "poll": poll.run,
    "transactions": transactions.run,
    "groups": groups.run,
    "schedules": schedules.run,
    "recovery": recovery.run,
    "cleanup": cleanup.run,
    "compaction": compaction.run,
    "fairness": fairness.run,
    "filters": filters.run,
    "forwarding": forwarding.run,
    "growth": growth.run,
    "memory": memory.run,
    "streams": streams.run,
    "registry": registry.run,
    "callers": callers.run,
    "client": client.run,
    "console": console.run,
    "security": security.run,
    "values": values.run,
    "hbase": hbase.run,
    "metadata": metadata.run,
    "spark": spark.run,
    "strangers": strangers.run,
    "neighbour": neighbour.run,
    "soak": soak.run,
    "churn": churn.run,
}
_UNASKED = ("hbase", "metadata", "spark", "strangers", "neighbour", "soak", "churn")
"""Suites that run only if they are named: they need Java, Maven or PySpark, or up to an hour."""
_WITHOUT_WRK = {"client", "schedules", "streams", "strangers", "neighbour", "soak", "churn"}


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m bench", description=__doc__)
    parser.add_argument("suites", nargs="*", metavar="SUITE", help=f"any of {', '.join(_SUITES)}")
    parser.add_argument("--quick", action="store_true", help="rough figures in three minutes")
    parser.add_argument(
        "--peer",
        metavar="URL",
        help="another server to put under the same load, such as CDAP's own",
    )
    parser.add_argument(
        "--dir", type=Path, metavar="DIR", help="folder for data, on the disk to be measured"
    )
    parser.add_argument("--minutes", type=float, help="how long soak and churn run (default: 60)")
    arguments = parser.parse_args()
    unknown = set(arguments.suites) - set(_SUITES)
    if unknown:
        parser.error(f"no suite {', '.join(unknown)}; there are {', '.join(_SUITES)}")
    return arguments


def _python() -> str:
    """Return the version of Python; one built without optimizations is a fifth slower, or more."""
    is_optimized = "--enable-optimizations" in (sysconfig.get_config_var("CONFIG_ARGS") or "")
    without = "" if is_optimized else " (configured without --enable-optimizations)"
    return f"Python {platform.python_version()}{without}"


def _machine() -> str:
    memory_gib = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 1024**3
    load = ", ".join(f"{number:.2f}" for number in os.getloadavg())
    names = (plyvel.__name__, "httptools", "uvloop")
    packages = ", ".join(f"{name} {version(name)}" for name in names)
    return (
        f"{datetime.now(UTC):%Y-%m-%d %H:%M} UTC; "
        f"{os.cpu_count()} cores, {memory_gib:.0f} GiB, {platform.system()} {platform.release()}, "
        f"{_python()}, {packages}, TMS {__version__}; "
        f"load before the run: {load}"
    )


def main() -> int:
    """Run the named suites, or all; return the exit code."""
    arguments = _arguments()
    effort = QUICK if arguments.quick else FULL
    if arguments.minutes is not None:
        effort = replace(effort, long_s=60 * arguments.minutes)
    try:
        if not arguments.suites or set(arguments.suites) - _WITHOUT_WRK:
            wrk.check_installed()
    except wrk.NoWrk as error:
        print(error, file=sys.stderr)
        return 1
    print(_machine())
    print(f"{effort.rounds} rounds of {effort.seconds} s each, medians")
    run_name = f"bench{os.getpid()}"
    with tempfile.TemporaryDirectory(prefix="tms-bench-", dir=arguments.dir) as folder:
        for name in arguments.suites or [name for name in _SUITES if name not in _UNASKED]:
            (Path(folder) / name).mkdir()
            _SUITES[name](effort, Path(folder) / name, arguments.peer, f"{run_name}-{name}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
