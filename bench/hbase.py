"""On HBase: publishing, polling and pruning compared with bare happybase on the same tables.

It starts HBase in one JVM (`dev/hbase`), which shares the machine's processors with the measured
server, so the ratios mean more than the rates.
"""

import random
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass, replace
from functools import partial
from itertools import islice
from pathlib import Path
from statistics import quantiles
from typing import Any

import happybase

from bench import wrk
from bench.publish import Flushes, load
from bench.rounds import CpuMeter, Effort, Measure, in_turn
from bench.servers import tms_server
from bench.table import Table, rate, share, times
from bench.topics import create, fill, starts, write_starts
from bench.wrk import Run
from cleanup.hbase.opening import Pruning
from dev.hbase.servers import HBaseServers, start
from tables.hbase.opening import create_store, open_store
from tables.keys import PLAIN_START, prefix
from tables.metadata_table import StoreMetadataTable
from tables.store import MESSAGE
from tms.core.limits import Limits
from tms.core.runtime.clock import SystemClock
from tms.core.values.message import KEY
from tms.core.values.shards import ShardBy, Sharding
from tms.core.values.topic import TopicId, TopicMetadata

_SECONDS_MIN = 5.0
"""In less time, not every one of 32 connections would get an answer."""
_BYTES = 100
_POLLED = 1_000
_FILLED = 100_000
_POSITIONS = 200
_TOPICS = 16
_WORKERS = 4
_BATCH = 1_000
_PRUNED_MS = 1_000_000_000_000
_COLUMN = b"d:v"
_TMS, _RAW = "tms", "raw"
_HEAD = ("on HBase", "TMS msg/s", "spread", "p50 ms", "p99 ms", "happybase", "TMS of it")
_SHARDS_HEAD = ("on HBase", "TMS msg/s", "spread", "p50 ms", "p99 ms", "CPU us/req", "of one shard")
_SHARDS = (1, 4, 16)
_APART = (1, 2, 3, 4)
"""The numbers of topics that are each in a different shard."""


@dataclass(frozen=True, slots=True)
class _Place:
    """A store in HBase, and the access of happybase to its tables."""

    servers: HBaseServers
    prefix: str

    @property
    def url(self) -> str:
        return f"hbase://{self.servers.gateway}/{self.prefix}"

    @contextmanager
    def table(self) -> Iterator[Any]:
        """Yield happybase's view of the Message table, on its own connection."""
        host, _, port = self.servers.gateway.rpartition(":")
        with closing(happybase.Connection(host, int(port), timeout=60_000)) as connection:
            yield connection.table(f"{self.prefix}_{MESSAGE}")


def _place(servers: HBaseServers, name: str, sharding: Sharding | None = None) -> _Place:
    host, _, port = servers.admin.rpartition(":")
    place = _Place(servers, name)
    create_store(place.url, (host, int(port)), sharding)
    return place


def _timed(work: Callable[[int], object], rows_each: int, seconds: float) -> Run:
    """Repeat some work; a request of the run is a row."""
    times: list[float] = []
    end = time.perf_counter() + seconds
    while (started := time.perf_counter()) < end:
        work(len(times))
        times.append(time.perf_counter() - started)
    percentiles = quantiles([*times, *times], n=100)
    per_s = len(times) * rows_each / sum(times)
    return Run(sum(times), per_s, 1000 * percentiles[49], 1000 * percentiles[98])


def _row(table: Table, figure: str, contenders: dict[str, Measure], effort: Effort) -> None:
    """Measure; a request of TMS has as many messages as its name says."""
    found = in_turn(contenders, effort.rounds)
    mine, raw = found[_TMS], found[_RAW]
    table.row(
        figure,
        rate(mine.requests_per_s),
        f"{mine.spread:.0%}",
        f"{mine.p50_ms:.2f}",
        f"{mine.p99_ms:.2f}",
        rate(raw.requests_per_s),
        share(mine.requests_per_s, raw.requests_per_s),
    )


def _messages(measure: Measure, messages: int) -> Run:
    """Return a run of requests as one of messages."""
    run = measure()
    return Run(run.seconds, run.requests_per_s * messages, run.p50_ms, run.p99_ms)


def _publishing(table: Table, effort: Effort, folder: Path, place: _Place) -> None:
    with tms_server(folder, "--store", place.url) as server, place.table() as raw:
        topic = create(server.url, "published")[0]
        flushes = Flushes(server.url)
        own = partial(load, topic, effort.seconds, 100, 32)
        value = bytes(_BYTES + 1)
        written, rows = 0, 1

        def put(_: int) -> None:
            nonlocal written
            with raw.batch() as batch:
                for number in range(written, written + rows):
                    batch.put(b"\x00raw:raw:%016d" % number, {_COLUMN: value})
            written += rows

        def put_as_much() -> Run:
            nonlocal rows
            rows = max(1, round(flushes.messages_each))
            return _timed(put, rows, effort.seconds)

        contenders = {
            _TMS: lambda: _messages(lambda: flushes.watch(own), 100),
            _RAW: put_as_much,
        }
        _row(table, "publish 100 x 100 B, 32 connections", contenders, effort)
        table.row(f"(a flush, and a batch: {rows} messages)", *[""] * (len(_HEAD) - 1))


def _polling(table: Table, effort: Effort, folder: Path, place: _Place) -> None:
    chance = random.Random(1)
    for where, flags in (("the cache", ()), ("the table", ("--cache-bytes-max", "0"))):
        with (
            tms_server(folder, "--store", place.url, *flags) as server,
            place.table() as raw,
        ):
            topic = create(server.url, f"polled-{where[4:]}")[0]
            when_ms = fill([topic], _FILLED)
            ids = starts(topic, when_ms, _POSITIONS, between=(0.0, 0.95))
            file = write_starts(folder / "starts", ((topic, start) for start in ids))
            with closing(open_store(place.url)) as store:
                whole = prefix(TopicId("default", topic.name), 1)
                rows = [store.row_of(MESSAGE, whole + start[:10]) for start in ids]

            def scan(_: int, rows: list[bytes] = rows, raw: Any = raw) -> None:
                found = raw.scan(
                    row_start=chance.choice(rows), batch_size=_POLLED, columns=[_COLUMN]
                )
                assert sum(1 for _ in islice(found, _POLLED)) == _POLLED
                found.close()

            for connections in (1, 32):
                own = partial(
                    wrk.run,
                    "poll.lua",
                    topic.whole_url,
                    connections=connections,
                    seconds=effort.seconds,
                    MESSAGES=_POLLED,
                    STARTS=file,
                )
                contenders: dict[str, Measure] = {
                    _TMS: partial(_messages, own, _POLLED),
                    _RAW: partial(_timed, scan, _POLLED, effort.seconds),
                }
                figure = f"poll 1,000 from {where}, {connections} connections"
                _row(table, figure, contenders, effort)


def _fill_expired(place: _Place, count: int) -> None:
    """Put expired messages into topics that are spread over all regions."""
    value = PLAIN_START + b"x" * _BYTES
    with closing(open_store(place.url)) as store:
        for number in range(_TOPICS):
            topic = TopicMetadata(TopicId("default", f"t{number}"), 1, 60, {})
            StoreMetadataTable(store).replace(None, topic)
            start = prefix(topic.id, 1)
            each = count // _TOPICS
            for first in range(0, each, 5_000):
                batch = store.batch()
                numbers = range(first, min(first + 5_000, each))
                keys = (KEY.pack(_PRUNED_MS + n, 0) for n in numbers)
                batch.put_rows(MESSAGE, [(start + key, value) for key in keys])
                store.write(batch)


def _raw_prune(place: _Place) -> int:
    """Scan each region, and delete its rows; return their number."""
    with closing(open_store(place.url)) as store:
        regions = store.regions(MESSAGE)

    def prune(start: bytes, stop: bytes) -> int:
        count = 0
        with place.table() as table, table.batch(batch_size=_BATCH) as batch:
            for row, _ in table.scan(row_start=start, row_stop=stop, batch_size=_BATCH):
                batch.delete(row, [_COLUMN])
                count += 1
        return count

    with ThreadPoolExecutor(_WORKERS) as pool:
        return sum(pool.map(prune, *zip(*[(r.start, r.stop) for r in regions], strict=True)))


def _pruning(effort: Effort, servers: HBaseServers) -> None:
    head = (f"{_WORKERS} workers, 8 regions", "rows", "TMS rows/s", "happybase", "TMS of it")
    table = Table("Pruning on HBase", head)
    for number in range(2):
        mine, other = _place(servers, f"mine{number}"), _place(servers, f"raw{number}")
        for place in (mine, other):
            _fill_expired(place, effort.cleaned_messages)
        with closing(Pruning(mine.url, {}, Limits(), SystemClock(), workers=_WORKERS)) as pruning:
            began = time.perf_counter()
            dropped = sum(step.dropped for step in pruning.steps())
            own = dropped / (time.perf_counter() - began)
        began = time.perf_counter()
        deleted = _raw_prune(other)
        raw = deleted / (time.perf_counter() - began)
        table.row("all has expired", rate(dropped), rate(own), rate(raw), share(own, raw))


def _sharded(effort: Effort, folder: Path, servers: HBaseServers) -> None:
    """Publish to topics in different shards, for stores with more and more shards."""
    table = Table("Shards in one server, on HBase", _SHARDS_HEAD)
    base = next(name for name in map("t{}-".format, range(10_000)) if _are_apart(name))
    contenders: dict[str, Measure] = {}
    meters: dict[str, CpuMeter] = {}
    with ExitStack() as stack:
        for shards in _SHARDS:
            sharding = Sharding(shards, ShardBy.TOPIC) if shards > 1 else None
            place = _place(servers, f"shards{shards}", sharding)
            flags = ("--store", place.url)
            server = stack.enter_context(tms_server(folder / f"{shards}", *flags))
            topics = create(server.url, *(f"{base}{number}" for number in _APART))
            publish = partial(
                wrk.run,
                "publish.lua",
                server.url,
                connections=32,
                seconds=effort.seconds,
                MESSAGES=100,
                BYTES=_BYTES,
                TOPICS=len(topics),
                TOPIC_PATH=topics[0].path.removesuffix("1"),
            )
            name = f"{shards} shards" if shards > 1 else "one shard"
            meters[name] = CpuMeter(server)
            contenders[name] = meters[name].watch(publish)
        found = in_turn(contenders, effort.rounds)
    for name, median in found.items():
        table.row(
            f"publish 100 x 100 B, 32 connections, {name}",
            rate(100 * median.requests_per_s),
            f"{median.spread:.0%}",
            f"{median.p50_ms:.2f}",
            f"{median.p99_ms:.2f}",
            f"{meters[name].us_a_request:.0f}",
            times(median.requests_per_s, found["one shard"].requests_per_s),
        )


def _are_apart(base: str) -> bool:
    """Return whether topics of these names are in different shards, even with the fewest shards."""
    sharding = Sharding(_SHARDS[1], ShardBy.TOPIC)
    shards = {sharding.shard_of(TopicId("default", f"{base}{number}")) for number in _APART}
    return len(shards) == len(_APART)


def run(effort: Effort, folder: Path, peer: str | None, run_name: str) -> None:  # noqa: ARG001
    """Measure everything; a peer is not used."""
    effort = replace(effort, seconds=max(effort.seconds, _SECONDS_MIN))
    servers = start(folder / "hbase")
    try:
        place = _place(servers, "bench")
        table = Table("On HBase", _HEAD)
        _publishing(table, effort, folder, place)
        _polling(table, effort, folder, place)
        _pruning(effort, servers)
        _sharded(effort, folder, servers)
    finally:
        servers.stop()
