"""Metadata in ZooKeeper and etcd: single calls, many at once, and the time until a change is seen.

Each store is a real server on this machine (`dev/zookeeper`, `dev/etcd`), which shares the
machine's processors with the client. Both sync to disk before they answer.
"""

import asyncio
import itertools
import time
import uuid
from collections.abc import Awaitable, Callable
from pathlib import Path
from statistics import median, quantiles

from bench.rounds import Effort
from bench.table import Table, rate, times
from dev.etcd import servers as etcd
from dev.processes import Servers
from dev.zookeeper import servers as zookeeper
from tms.metadata.cache import JsonCodec, MetadataCache
from tms.metadata.interface import NEW, MetadataStore
from tms.server.stores import open_metadata

_VALUE = b"x" * 100
_PATHS = 1_000
_AT_ONCE = 500
_CHANGES = 100
_PERCENT = 100

Call = Callable[[int], Awaitable[object]]


def run(effort: Effort, folder: Path, _peer: str | None, _run: str) -> None:
    """Print the figures of both."""
    table = Table(
        "Metadata",
        ("100 bytes a value", "one by one/s", f"{_AT_ONCE} at once/s", "at once of single"),
    )
    seen: list[tuple[str, str]] = []
    for scheme, start in (("zk", zookeeper.start), ("etcd", etcd.start)):
        servers: Servers = start(folder / scheme)
        try:
            seen += asyncio.run(_measure(scheme, servers, effort, table))
        finally:
            servers.stop()
    other = Table("A change, until another session's cache has it", ("", "ms"))
    for name, figure in seen:
        other.row(name, figure)


async def _measure(
    scheme: str, servers: Servers, effort: Effort, table: Table
) -> list[tuple[str, str]]:
    url = f"{scheme}://{servers.addresses}/bench{uuid.uuid4().hex[:8]}"
    store = await open_metadata(url)
    await asyncio.gather(*(store.put(f"/puts/{n}", _VALUE) for n in range(_PATHS)))
    created = itertools.count()
    calls: dict[str, Call] = {
        "put": lambda n: store.put(f"/puts/{n % _PATHS}", _VALUE),
        "create": lambda _: store.put(f"/creates/{next(created)}", _VALUE, NEW),
        "get": lambda n: store.get(f"/puts/{n % _PATHS}"),
    }
    for name, call in calls.items():
        singles, batches = [], []
        for _ in range(effort.rounds):
            singles.append(await _rate(call, 1, effort.seconds))
            batches.append(await _rate(call, _AT_ONCE, effort.seconds))
            await store.delete_recursive("/creates")
        single, batch = median(singles), median(batches)
        table.row(f"{scheme}: {name}", rate(single), rate(batch), times(batch, single))
    other = await open_metadata(url)
    latencies = await _seen(store, other)
    await store.close()
    await other.close()
    return [
        (f"{scheme}: median", f"{median(latencies):.1f}"),
        (f"{scheme}: 99 of 100", f"{quantiles(latencies, n=_PERCENT)[-1]:.1f}"),
    ]


async def _rate(call: Call, at_once: int, seconds: float) -> float:
    """Return the calls answered per second with `at_once` callers."""
    numbers = iter(range(10**9))
    started = time.monotonic()

    async def caller() -> None:
        while time.monotonic() - started < seconds:
            await call(next(numbers))

    await asyncio.gather(*(caller() for _ in range(at_once)))
    return next(numbers) / (time.monotonic() - started)


async def _seen(store: MetadataStore, other: MetadataStore) -> list[float]:
    """Return the milliseconds from a put until the other session's cache has the value."""
    cache = MetadataCache(other, JsonCodec(int))
    await store.put("/seen", b"-1")
    await cache.get("/seen")
    latencies = []
    for number in range(_CHANGES):
        started = time.monotonic()
        putting = asyncio.ensure_future(store.put("/seen", b"%d" % number))
        while cache.get_if_cached("/seen") != number:  # noqa: ASYNC110  as a user would
            await asyncio.sleep(0.0002)
        latencies.append((time.monotonic() - started) * 1000)
        await putting
    await cache.close()
    return latencies
