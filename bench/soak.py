"""An hour of a group at 5,000 messages/s, to show that latency, disk and restarts stay level.

One client publishes fifty messages a hundred times per second; four members take a hundred at a
time, and acknowledge them with the next take. Every ten minutes the server is restarted.
"""

import json
import time
from pathlib import Path
from statistics import median, quantiles
from threading import Event, Thread

from bench.groups import connected, make_group
from bench.rounds import Effort
from bench.servers import Server, bytes_in, tms_server
from bench.table import Table, mebibytes, rate
from bench.topics import Topic, create

_PER_S, _AT_ONCE, _MEMBERS = 5_000, 50, 4
_TTL_S = 300
_PARTS = 6
_COLUMNS = ("minute", "messages/s", "p50 ms", "p99 ms", "disk", "anonymous", "ms to read again")


class _Load:
    """The clients of one part."""

    def __init__(self, url: str, topic: Topic, path: str) -> None:
        self._url, self._topic, self._path = url, topic, path
        self._stop = Event()
        self.waits_ms: list[float] = []
        """The times from the start of a publish to the answer of its take."""
        members = [Thread(target=self._take, args=(f"w-{n}",)) for n in range(_MEMBERS)]
        self._threads = [Thread(target=self._publish), *members]
        for thread in self._threads:
            thread.start()

    def _publish(self) -> None:
        started, sent = time.monotonic(), 0
        padding = "x" * 80
        with connected(self._url) as ask:
            while not self._stop.is_set():
                time.sleep(max(0.0, started + sent / _PER_S - time.monotonic()))
                message = f"{time.time_ns():019d} {padding}"
                ask("POST", f"{self._topic.path}/publish", {"messages": [message] * _AT_ONCE})
                sent += _AT_ONCE

    def _take(self, member: str) -> None:
        acks: list[dict[str, int]] = []
        with connected(self._url) as ask:
            while not self._stop.is_set() or acks:
                body = {"member": member, "messages": 100, "settle": {"acks": acks}}
                taken = json.loads(ask("POST", f"{self._path}/take?wait=1", body))
                now_ns = time.time_ns()
                messages = taken["messages"]
                sent_ns = [int(each["payload"].split()[0]) for each in messages]
                self.waits_ms += [(now_ns - each) / 1e6 for each in sent_ns]
                acks = [{"delivery": taken["delivery"]}] if messages else []

    def end(self) -> None:
        """Stop publishing; take and acknowledge the remaining messages."""
        self._stop.set()
        for thread in self._threads:
            thread.join()


def run(effort: Effort, folder: Path, peer: str | None, run_name: str) -> None:  # noqa: ARG001
    """Run for an hour, or for the given time."""
    part_s = effort.long_s / _PARTS
    table = Table(f"A group at {_PER_S:,} messages/s; messages live {_TTL_S} s", _COLUMNS)
    place = folder / "soak"
    with tms_server(place) as server:
        topic = create(server.url, run_name)[0]
        path = make_group(topic)
        with connected(server.url) as ask:
            ask("PUT", f"{topic.path}/properties", {"ttl": str(_TTL_S)})
    for part in range(_PARTS):
        with tms_server(place) as server:
            read_ms = _first_ms(server, topic, path)
            load = _Load(server.url, topic, path)
            started = time.monotonic()
            time.sleep(part_s)
            memory = server.memory()["RssAnon"]
            seconds = time.monotonic() - started
            load.end()
            waits = load.waits_ms
            table.row(
                f"{(part + 1) * part_s / 60:.0f}",
                rate(len(waits) / seconds),
                f"{median(waits):.2f}",
                f"{quantiles(waits, n=100)[-1]:.2f}",
                mebibytes(bytes_in(place)),
                mebibytes(memory),
                f"{read_ms:.0f}",
            )


def _first_ms(server: Server, topic: Topic, path: str) -> float:
    """Return the duration of a group's first use, after the first use of its topic."""
    with connected(server.url) as ask:
        ask("GET", topic.path, None)
        started = time.perf_counter()
        ask("POST", f"{path}/settle", {"member": "w", "extend": []})
        return 1000 * (time.perf_counter() - started)
