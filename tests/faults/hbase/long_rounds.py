"""Rounds of faults that can run for as long as you like, and resume where they stopped."""

import argparse
import json
import signal
import sys
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from threading import Event
from typing import Any, Protocol

from dev.etcd import servers as etcd_servers
from dev.hbase.servers import HBaseServers, start
from dev.zookeeper import servers as zookeeper_servers

Json = Any


class FaultyRounds(Protocol):
    """Servers that suffer faults while clients work."""

    @property
    def faults(self) -> Mapping[str, Any]:
        """By name."""
        ...

    def round(self, fault: str) -> Mapping[str, Any]:
        """Cause a fault; return its costs by name: numbers, and errors by kind."""
        ...

    def finish(self) -> None:
        """Check everything that was acknowledged."""
        ...


_GIVE_UP_S = 4
"""Less than the `hbase_timeout_s` of the servers."""
NewRounds = Callable[[HBaseServers, str, ExitStack], FaultyRounds]
"""Starts servers on HBase and the URL of a metadata store, until the stack ends."""


@contextmanager
def metadata_servers(kind: str, folder: Path) -> Iterator[str]:
    """Give the URL of a metadata store, `zk` or `etcd`, without a path."""
    module = zookeeper_servers if kind == "zk" else etcd_servers
    folder.mkdir()
    servers = module.start(folder)
    try:
        yield f"{kind}://{servers.addresses}"
    finally:
        servers.stop()


def lasts(seconds: float) -> None:
    """Wait while a fault of real processes lasts; there is no event to wait for."""
    Event().wait(seconds)


def show(line: str) -> None:
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


def main(description: str | None, new_rounds: NewRounds) -> None:
    """Run the rounds that are not in the file yet, and show the results of all."""
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("--rounds", type=int, default=60)
    parser.add_argument("--results", type=Path, required=True)
    parser.add_argument("--fault", help="Only this one.")
    asked = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("stopped"))  # not without the servers
    results = asked.results
    done = (
        [json.loads(line) for line in results.read_text().splitlines()] if results.exists() else []
    )
    for kind in ("zk", "etcd"):
        have = sum(each["metadata"] == kind for each in done)
        if have < asked.rounds // 2:
            numbers = range(have, asked.rounds // 2)
            for told in _rounds(kind, numbers, new_rounds, asked.fault):
                done.append(told)
                with results.open("a") as file:
                    file.write(json.dumps(told) + "\n")
    _tell(done)


def _rounds(
    kind: str, numbers: Iterable[int], new_rounds: NewRounds, only: str | None
) -> Iterator[Json]:
    with TemporaryDirectory(prefix="tms-rounds-") as name, ExitStack() as stack:
        folder = Path(name)
        hbase = start(folder / "hbase", cluster=True, give_up_s=_GIVE_UP_S)
        stack.callback(hbase.stop)
        metadata = stack.enter_context(metadata_servers(kind, folder / "metadata"))
        rounds = new_rounds(hbase, metadata, stack)
        faults = [only] if only else list(rounds.faults)
        try:
            for number in numbers:
                fault = faults[number % len(faults)]
                told = {"metadata": kind, "fault": fault, **rounds.round(fault)}
                show(json.dumps(told))
                yield told
        except Exception:
            rounds.finish()  # earlier acknowledgements are checked all the same
            raise
        rounds.finish()


def _tell(done: Iterable[Json]) -> None:
    """Show what each fault cost."""
    errors: dict[str, Counter[str]] = defaultdict(Counter)
    costs: dict[str, dict[str, list[float]]] = defaultdict(lambda: defaultdict(list))
    for each in done:
        errors[each["fault"]].update(each.get("errors", {}))
        for name in each.keys() - {"metadata", "fault", "errors"}:
            costs[each["fault"]][name].append(each[name])
    for fault, by_name in costs.items():
        for name, values in sorted(by_name.items()):
            middle, most = median(values), max(values)
            show(f"{fault}: {len(values)} rounds, {name} p50 {middle:.1f}, greatest {most:.1f}")
        show(f"{fault}: errors {dict(errors[fault])}")
