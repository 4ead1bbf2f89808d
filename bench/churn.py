"""Memory and speed while things are created and deleted again, hour after hour.

First, clients publish in turn to more topics than stay in memory. Then three clients create topics,
publish to them, poll, create a group and a subscription, commit and abort transactions, and delete
the topics. Nothing of all that should stay, so a figure that grows is a fault.
"""

import json
import time
from itertools import count
from pathlib import Path
from threading import Event, Thread

from bench.groups import Ask, connected
from bench.rounds import Effort
from bench.servers import Server, bytes_in, metrics_of, tms_server
from bench.table import Table, mebibytes, rate

_CLIENTS = 3
_PARTS = 12
_TOPICS, _IN_MEMORY = 2_000, 500
_ROUNDS, _PAYLOAD_BYTES, _CACHE_BYTES = 8, 5_000, 20_000_000
_MIB = str(1024 * 1024)
_LEVELDB = ("--leveldb-write-buffer-bytes", _MIB, "--leveldb-block-cache-bytes", _MIB)
"""Small, so that LevelDB's own memory is full soon, and does not look like growth."""
_SOON_FULL = {"cleanup_grace_s": 60, "transaction_outcomes_max": 1_000}
"""Small, so that things kept up to a bound, or for a day, stop growing within minutes."""
_COLUMNS = ("minute", "requests", "req/s", "anonymous", "B/req since", "series", "files", "disk")
_NAMESPACE = "/v1/namespaces/default/topics"


class _Clients:
    """Three clients, each with a connection."""

    def __init__(self, url: str) -> None:
        self._url = url
        self._stop = Event()
        self._numbers = count()
        self.failure: BaseException | None = None
        self.requests = [0] * _CLIENTS
        self._threads = [Thread(target=self._run, args=(n,)) for n in range(_CLIENTS)]
        for thread in self._threads:
            thread.start()

    def _run(self, client: int) -> None:
        try:
            with connected(self._url) as ask:

                def counted(method: str, path: str, body: object) -> bytes:
                    self.requests[client] += 1
                    return ask(method, path, body)

                while not self._stop.is_set():
                    _live_and_die(counted, next(self._numbers))
        except BaseException as failure:
            self.failure = failure
            raise

    def end(self) -> None:
        """Stop the clients."""
        self._stop.set()
        for thread in self._threads:
            thread.join()


def _live_and_die(ask: Ask, number: int) -> None:
    """Create a topic with everything that it can have, and delete it."""
    topic = f"{_NAMESPACE}/churn-{number}"
    group, subscription = f"{topic}/subscriptions/workers", f"{topic}/subscriptions/reader"
    ask("PUT", topic, {})
    ask("PUT", group, {"kind": "shared"})
    ask("PUT", subscription, {})
    ask("POST", f"{topic}/publish", {"messages": ["x" * 1_000]})
    ask("POST", f"{topic}/poll", {})
    taken = json.loads(ask("POST", f"{group}/take", {"member": f"m{number}"}))
    acks = {"member": f"m{number}", "acks": [{"delivery": taken["delivery"]}]}
    ask("POST", f"{group}/settle", acks)
    for end in ("commit", "abort"):
        started = json.loads(ask("POST", "/v1/transactions?namespace=default", {}))
        pointer = started["transaction_id"]
        body = {"messages": ["y"], "transactionWritePointer": pointer}
        ask("POST", f"{topic}/publish", body)
        ask("POST", f"/v1/transactions/{pointer}/{end}", {})
    ask("DELETE", topic, None)


def _turns(folder: Path) -> None:
    """Publish to more topics than stay in memory, in turn."""
    columns = ("round", "publishes", "anonymous", "B/publish")
    title = f"{_TOPICS:,} topics, {_IN_MEMORY} in memory, publishes of {_PAYLOAD_BYTES:,} B in turn"
    table = Table(title, columns)
    flags = ("--topics-in-memory-max", str(_IN_MEMORY), "--cache-bytes-max", str(_CACHE_BYTES))
    with tms_server(folder / "turns", *flags, *_LEVELDB) as server, connected(server.url) as ask:
        for number in range(_TOPICS):
            ask("PUT", f"{_NAMESPACE}/turn-{number}", {})
        before = server.memory()["RssAnon"]
        for each in range(_ROUNDS):
            for number in range(_TOPICS):
                body = {"messages": ["x" * _PAYLOAD_BYTES]}
                ask("POST", f"{_NAMESPACE}/turn-{number}/publish", body)
            now = server.memory()["RssAnon"]
            more = f"{(now - before) / _TOPICS:.0f}"
            table.row(str(each + 1), rate((each + 1) * _TOPICS), mebibytes(now), more)
            before = now


def run(effort: Effort, folder: Path, peer: str | None, run_name: str) -> None:  # noqa: ARG001
    """Run for an hour, or for the given time."""
    _turns(folder)
    table = Table(f"{_CLIENTS} clients make and end all there is", _COLUMNS)
    place = folder / "churn"
    with tms_server(place, *_LEVELDB, limits=_SOON_FULL) as server:
        clients = _Clients(server.url)
        _watch(server, clients, place, table, effort.long_s)


def _watch(server: Server, clients: _Clients, place: Path, table: Table, duration_s: float) -> None:
    samples: list[tuple[int, int, float]] = []
    started = before_s = time.monotonic()
    before, before_bytes = 0, server.memory()["RssAnon"]
    try:
        for part in range(_PARTS):
            time.sleep(max(0.0, started + (part + 1) * duration_s / _PARTS - time.monotonic()))
            if clients.failure is not None:
                break
            now_s, requests = time.monotonic(), sum(clients.requests)
            anonymous = server.memory()["RssAnon"]
            per_s = (requests - before) / (now_s - before_s)
            samples.append((requests, anonymous, per_s))
            table.row(
                f"{(now_s - started) / 60:.1f}",
                rate(requests),
                rate(per_s),
                mebibytes(anonymous),
                f"{(anonymous - before_bytes) / (requests - before):.0f}",
                str(len(metrics_of(server.url))),
                str(server.descriptors()),
                mebibytes(bytes_in(place)),
            )
            before, before_bytes, before_s = requests, anonymous, now_s
    finally:
        clients.end()
    if clients.failure is not None:
        raise clients.failure
    half_requests, half_bytes, _ = samples[_PARTS // 2 - 1]
    requests, anonymous, last = samples[-1]
    first = samples[0][2]
    print(
        f"bytes a request in the second half: "
        f"{(anonymous - half_bytes) / (requests - half_requests):.1f}; "
        f"requests/s, last part by the first: {last / first:.2f}"
    )
