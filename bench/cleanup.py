"""Cleanup: its speed, the cost of a pass with nothing to delete, and its effect on publishers.

The first figures are of a store in this process, without other work. The last are of a server that
deletes while 32 connections publish.
"""

import json
import time
from collections.abc import Callable, Collection, Sequence
from pathlib import Path
from statistics import median
from typing import TypeVar
from urllib.request import Request, urlopen

from bench import wrk
from bench.rounds import Effort
from bench.servers import Server, tms_server
from bench.table import Table, mebibytes, rate, times
from bench.topics import Topic, create, fill
from cleanup.cleaner import Cleaner
from tables.keys import PLAIN_START, prefix
from tables.leveldb import LevelDBStore
from tables.metadata_table import StoreMetadataTable
from tables.store import MESSAGE
from tms.core.limits import UINT16_COUNT, Limits
from tms.core.runtime.clock import SystemClock
from tms.core.values.message import KEY
from tms.core.values.topic import TopicId
from tms.core.values.topic import TopicMetadata as TopicRow
from tms.transactions.pruning import InvalidList

_CONNECTIONS = 32
_PAYLOAD_BYTES = 100
_ROWS_A_BATCH = 10_000
_TTL_S = 60
_DISK_ROUNDS = 20
_TIMES_AS_LONG = 2
"""Twice as long as other suites, because LevelDB merges published messages every few seconds."""
_IDLE_SHARE = 0.02
_LOOK_S = 1.0
_TOPIC = TopicId("default", "t")

Row = tuple[bytes, bytes]
T = TypeVar("T")


class _NoServices:
    """The services of a store that has none."""

    def invalid_list(self) -> InvalidList | None:
        return None

    def invert_published(self, write_pointers: Collection[int]) -> int:
        raise AssertionError(write_pointers)

    def forget_published(self, write_pointers: Collection[int]) -> None:
        raise AssertionError(write_pointers)

    def invert(
        self, topic_id: TopicId, generation: int, write_pointer: int, rows: Sequence[Row]
    ) -> int:
        raise AssertionError(topic_id, generation, write_pointer, rows)

    def truncate(self, write_pointers: Collection[int]) -> int:
        raise AssertionError(write_pointers)

    def keep_keys_from(self, floor_ms: int) -> None:
        pass

    def forget(self, topics: Collection[TopicRow]) -> Collection[TopicId]:
        raise AssertionError(topics)

    def unchanging(self, read: Callable[[], T]) -> T:
        return read()


class _MovedClock(SystemClock):
    """The machine's clock, plus the time that a benchmark skips."""

    ahead_ms = 0

    def now_ms(self) -> int:
        """Return the machine's time plus the skipped time, in milliseconds since 1970."""
        return super().now_ms() + self.ahead_ms


class _Cleaned:
    """A store and its cleaner, with a clock of their own."""

    def __init__(self, folder: Path, topics: int) -> None:
        self._folder = folder
        self.store = LevelDBStore(folder, sync=False)
        self.clock = _MovedClock()
        self._cleaner = Cleaner(self.store, _NoServices(), Limits(), self.clock)
        table = StoreMetadataTable(self.store)
        for number in range(1, topics + 1):
            name = TopicId("default", "t" if topics == 1 else f"t{number}")
            table.replace(None, TopicRow(name, 1, _TTL_S, {}))

    def put(self, count: int) -> None:
        """Put messages with the current time into the first topic."""
        value = PLAIN_START + b"x" * _PAYLOAD_BYTES
        start, now_ms = prefix(_TOPIC, 1), self.clock.now_ms()
        for first in range(0, count, _ROWS_A_BATCH):
            numbers = range(first, min(first + _ROWS_A_BATCH, count))
            batch = self.store.batch()
            keys = (KEY.pack(now_ms + n // UINT16_COUNT, n % UINT16_COUNT) for n in numbers)
            batch.put_rows(MESSAGE, [(start + key, value) for key in keys])
            self.store.write(batch)

    def clean(self) -> tuple[float, int]:
        """Do a pass; return its seconds and the number of rows that it deleted."""
        started = time.perf_counter()
        dropped = sum(step.dropped for step in self._cleaner.steps())
        return time.perf_counter() - started, dropped

    def disk_bytes(self) -> int:
        """Return the bytes of all files in the folder."""
        return sum(path.stat().st_size for path in self._folder.rglob("*") if path.is_file())


def in_one_store(effort: Effort, folder: Path) -> None:
    """Measure passes with everything, nothing and little to delete."""
    table = Table("Cleanup of one store", ("pass", "rows", "seconds", "rows/s"))
    count = effort.cleaned_messages
    one = _Cleaned(folder / "one", 1)
    one.put(count)
    seconds, _ = one.clean()
    table.row("nothing has expired, the first pass", rate(count), f"{seconds:.4f}", "")
    one.clock.ahead_ms += 1
    seconds, _ = one.clean()
    table.row("nothing has expired, the next", rate(count), f"{seconds:.4f}", "")
    one.clock.ahead_ms += 2 * _TTL_S * 1000
    seconds, dropped = one.clean()
    table.row("all have expired", rate(dropped), f"{seconds:.2f}", rate(dropped / seconds))
    one.store.close()
    many = _Cleaned(folder / "many", effort.topics)
    seconds, _ = many.clean()
    table.row(f"{rate(effort.topics)} idle topics, the first pass", "0", f"{seconds:.4f}", "")
    seconds, _ = many.clean()
    table.row(f"{rate(effort.topics)} idle topics, the next", "0", f"{seconds:.4f}", "")
    many.store.close()


def disk_over_rounds(effort: Effort, folder: Path) -> None:
    """Show the size of the folder over rounds of publishing and expiry."""
    table = Table("Disk space, over rounds of publish and expiry", ("round", "before", "after"))
    cleaned = _Cleaned(folder / "rounds", 1)
    for number in range(1, _DISK_ROUNDS + 1):
        cleaned.put(effort.cleaned_messages // 4)
        before = cleaned.disk_bytes()
        cleaned.clock.ahead_ms += 2 * _TTL_S * 1000
        cleaned.clean()
        table.row(str(number), mebibytes(before), mebibytes(cleaned.disk_bytes()))
    cleaned.store.close()


def beside_publishers(effort: Effort, folder: Path, run_name: str) -> None:
    """Compare publishing alone and while expired messages are deleted.

    The messages to delete are published before both, and LevelDB has merged its files, because
    merging slows publishers more than cleanup does.
    """
    table = Table("Publish 1 x 100 B, 32 connections", ("", "req/s", "p50 ms", "p99 ms", "p99"))
    runs: dict[str, list[wrk.Run]] = {"alone": [], "beside cleanup": []}
    rows = []
    with tms_server(folder / "server", "--cleanup-period-s", "100000") as server:
        [busy] = create(server.url, f"{run_name}-busy")
        names = [f"{run_name}-old{number}" for number in range(effort.rounds)]
        old_topics = create(server.url, *names)
        fill(old_topics, effort.cleaned_messages, _PAYLOAD_BYTES)
        _wait_until_idle(server)
        for old in old_topics:
            runs["alone"].append(_publish(server.url, busy, effort))
            _ask(old.whole_url + "/properties", "PUT", {"ttl": 1})
            time.sleep(1.1)
            before = _ask(f"{server.url}/v1/cleanup", "POST")["dropped_rows"]
            runs["beside cleanup"].append(_publish(server.url, busy, effort))
            rows.append(_ask(f"{server.url}/v1/cleanup", "GET")["dropped_rows"] - before)
            while _ask(f"{server.url}/v1/cleanup", "GET")["is_running"]:
                time.sleep(0.1)
            _wait_until_idle(server)
    alone = median(run.p99_ms for run in runs["alone"])
    for name, found in runs.items():
        p99_ms = median(run.p99_ms for run in found)
        table.row(
            name,
            rate(median(run.requests_per_s for run in found)),
            f"{median(run.p50_ms for run in found):.2f}",
            f"{p99_ms:.2f}",
            times(p99_ms, alone),
        )
    print(f"\ndeleted meanwhile: {rate(median(rows) / (_TIMES_AS_LONG * effort.seconds))} rows/s")


def _wait_until_idle(server: Server) -> None:
    """Wait until LevelDB has nothing left to merge, judged by the process's processor time."""
    before = server.cpu_s()
    while True:
        time.sleep(_LOOK_S)
        now = server.cpu_s()
        if now - before < _IDLE_SHARE * _LOOK_S:
            return
        before = now


def _publish(url: str, topic: Topic, effort: Effort) -> wrk.Run:
    return wrk.run(
        "publish.lua",
        url,
        connections=_CONNECTIONS,
        seconds=_TIMES_AS_LONG * effort.seconds,
        MESSAGES=1,
        BYTES=_PAYLOAD_BYTES,
        TOPICS=0,
        TOPIC_PATH=topic.path,
    )


def _ask(url: str, method: str, body: object = None) -> dict[str, int]:
    request = Request(url, json.dumps(body).encode() if body else None, method=method)
    request.add_header("Content-Type", "application/json")
    with urlopen(request) as answer:
        content = answer.read()
    told: dict[str, int] = json.loads(content) if content else {}
    return told


def run(effort: Effort, folder: Path, peer: str | None, run_name: str) -> None:  # noqa: ARG001
    """Measure everything and print the figures."""
    in_one_store(effort, folder)
    disk_over_rounds(effort, folder)
    beside_publishers(effort, folder, run_name)
