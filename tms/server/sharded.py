"""The services of a process on a sharded store: each shard as a lone server has it, and the ways.

1. The stores of shards are opened together, because each may have to wait for a dead server's
   calls. Then shards are opened one after another, and closed in the other order, whatever one of
   them raises. If one does not open, none is.
2. All are under one lease, if there is any. They share the clock, the namespaces, the metrics'
   registry and the cache's memory, and have equal parts of the connections to HBase. Other limits
   hold for each shard.
3. What is asked of a topic or a transaction goes to its shard (`tms.sharding`).
"""

import asyncio
import importlib.util
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AsyncExitStack
from dataclasses import dataclass, replace
from typing import cast

from prometheus_client import CollectorRegistry, Gauge

from tms.core.cleanup import Cleanup
from tms.core.cluster import HeldLease
from tms.core.groups import Groups
from tms.core.inspection import PartwiseInspection
from tms.core.lags import ReaderLag
from tms.core.payload_values import PayloadValues
from tms.core.ranges import Ranges
from tms.core.shards import OneShard, OwnIds, Sharding, check_shard
from tms.core.store_access import StoreAccess
from tms.core.store_url import url_of_shard
from tms.core.subscriptions import Subscriptions
from tms.core.tables import Tables
from tms.core.transactions import AsyncTransactions
from tms.core.trusted_clock import TrustedClock
from tms.messaging.cache import CacheBudget
from tms.messaging.features import Instances
from tms.messaging.store_runtime import CACHE_BYTES_TOLD
from tms.metadata.interface import MetadataStore
from tms.namespaces.opening import DeclaredNamespaces, open_namespaces
from tms.registry.in_process import LocalSchemas
from tms.registry.log import WayToLog
from tms.server.shard import Process, Shard, Upkeep, open_shard
from tms.server.stores import open_metadata, open_tables
from tms.settings import Settings
from tms.sharding.groups import ShardedGroups
from tms.sharding.messaging import ServedMessaging, ShardedMessaging
from tms.sharding.metrics import ShardMetrics
from tms.sharding.positions import ShardedRanges, ShardedSubscriptions
from tms.sharding.transactions import ShardedTransactions
from tms.sharding.upkeep import ShardedCleanup, ShardedInspection
from tms.transactions.foreign_manager import TransactionsOfOthers

Opened = tuple[Tables, Upkeep | None]
"""The tables of a shard, and its upkeep; None: nothing is cleaned up or looked into."""


@dataclass(frozen=True, slots=True)
class ShardedServices:
    """All services of a process, over its shards. Fulfils `ServerServices`."""

    sharding: Sharding
    shards: Sequence[Shard]
    messaging: ServedMessaging
    transactions: AsyncTransactions
    subscriptions: Subscriptions
    groups: Groups
    ranges: Ranges
    cleanup: Cleanup | None
    inspection: PartwiseInspection | None
    namespaces: DeclaredNamespaces
    schemas: LocalSchemas
    _closing: AsyncExitStack

    def in_shard(self, shard: int) -> "ShardedServices":
        """Return the services of one shard alone, with what is of the process."""
        one = self.shards[check_shard(shard, len(self.shards))]
        return replace(
            self,
            messaging=one.messaging,
            transactions=_transactions(one),
            subscriptions=one.subscriptions,
            groups=one.groups,
            ranges=one.messaging.ranges,
            cleanup=one.cleanup,
            inspection=one.inspection,
        )

    async def raise_format(self) -> None:
        """Record the present format of each shard. Raises `StoreUnavailable`."""
        for shard in self.shards:
            await shard.raise_format()

    def stop_waiting(self) -> None:
        """Let polls and takes that wait answer now, and from now on at once."""
        self.messaging.stop_waiting()
        for shard in self.shards:
            shard.groups.stop_waiting()

    async def refresh_lags(self) -> None:
        """Look how far readers are behind; a bounded time."""
        for shard in self.shards:
            await shard.refresh_lags()

    def lags(self) -> Sequence[ReaderLag]:
        """Return how far readers are behind, as they were last looked at."""
        return [lag for shard in self.shards for lag in shard.lags()]

    async def room(self) -> None:
        """Return nothing: shards share no folder."""

    async def refresh_metrics(self) -> None:
        """See to it that metrics that have to be looked for are up to date; a bounded time."""
        for shard in self.shards:
            await shard.subscriptions.refresh_lags()

    def warnings(self) -> list[str]:
        """Return what should be done something about soon, and in which shard."""
        return [
            f"shard {number}: {warning}"
            for number, shard in enumerate(self.shards)
            if shard.own_transactions is not None
            for warning in shard.own_transactions.warnings()
        ]

    async def close(self) -> None:
        """Write what is queued, refuse what comes after, and close the stores."""
        await self._closing.aclose()


def _transactions(shard: Shard) -> AsyncTransactions:
    return shard.own_transactions or _elsewhere()


def _elsewhere() -> AsyncTransactions:
    return cast("AsyncTransactions", TransactionsOfOthers())


async def open_shards(
    store: str,
    sharding: Sharding,
    clock: TrustedClock,
    settings: Settings,
    registry: CollectorRegistry,
    *,
    values: PayloadValues | None,
    lease: HeldLease | None = None,
    instances: Instances | None = None,
    may_block_loop: bool = False,
) -> ShardedServices:
    """Return the services on the shards of `store`, `hbase://…`; close them when done.

    The arguments are those of `tms.server.node.open_services`. Raises as that, and
    `StoreFormatUnknown` where a shard is not as `sharding` has it.
    """
    count, limits = sharding.shards, settings.limits()
    part = {
        "hbase_connections": max(2, 2 * settings.hbase_connections // count),
        "cleanup_workers": min(1, settings.cleanup_workers),
    }
    share = settings.model_copy(update=part)

    def open_one(shard: int) -> Opened:
        url, expected = url_of_shard(store, shard), OneShard(shard, sharding)
        tables = open_tables(url, share, takes_over=True, lease=lease, shard=expected)
        return tables, Upkeep(url, tables.store, share)

    async def open_beside(url: str, _: bool) -> MetadataStore:  # noqa: FBT001  a Callable
        return await open_metadata(url, settings)

    opened = await asyncio.to_thread(_open_all, open_one, count)
    try:
        namespaces = await open_namespaces(settings.metadata, store, limits, open_beside)
    except BaseException:
        _close(opened)
        raise
    process = Process(limits, clock, registry, namespaces, values, may_block_loop)
    return await open_sharded(opened, sharding, process, lease=lease, instances=instances)


def _open_all(open_one: Callable[[int], Opened], count: int) -> list[Opened]:
    """Return all that is opened, in as many threads. If one raises, close the others."""
    with ThreadPoolExecutor(count, "tms-open") as threads:
        opening = [threads.submit(open_one, shard) for shard in range(count)]
    try:
        return [each.result() for each in opening]
    except BaseException:
        _close([each.result() for each in opening if each.exception() is None])
        raise


def _close(opened: Sequence[Opened]) -> None:
    for tables, _ in opened:
        tables.close()


async def open_sharded(
    opened: Sequence[Opened],
    sharding: Sharding,
    process: Process,
    *,
    lease: HeldLease | None = None,
    instances: Instances | None = None,
) -> ShardedServices:
    """Return the services on shards, which close with them, also where this fails.

    So do the namespaces of `process`. Payloads are checked by its values, or by the registry on
    these services if its extra is installed. Raises as `open_shard`.
    """
    assert len(opened) == sharding.shards
    way = WayToLog()
    schemas = LocalSchemas(way, process.clock)
    values = process.values
    if values is None and importlib.util.find_spec("avro") is not None:
        values = schemas.values
    cache = CacheBudget(process.limits.cache_bytes_max)
    gauge = Gauge("tms_cache_bytes", CACHE_BYTES_TOLD, registry=process.registry)
    gauge.set_function(lambda: cache.used_bytes)
    registries = [CollectorRegistry() for _ in opened]
    shards: list[Shard] = []
    async with AsyncExitStack() as last_first:
        last_first.push_async_callback(process.namespaces.close)
        for tables, _ in opened:
            last_first.push_async_callback(asyncio.to_thread, tables.close)
        for number, (tables, upkeep) in enumerate(opened):
            shard = await open_shard(
                tables,
                process._replace(registry=registries[number], values=values, cache=cache),
                lease=lease,
                instances=instances,
                access=StoreAccess.CREATE,
                upkeep=upkeep,
                ids=OwnIds(number, sharding.shards),
            )
            last_first.push_async_callback(shard.close)
            shards.append(shard)
        process.registry.register(ShardMetrics(registries))
        own_transactions = all(shard.own_transactions for shard in shards)
        messaging = ShardedMessaging(
            sharding,
            [shard.messaging for shard in shards],
            own_transactions=own_transactions,
        )
        way.attach(messaging)
        inspections = [each.inspection for each in shards if each.inspection is not None]
        return ShardedServices(
            sharding,
            shards,
            messaging,
            ShardedTransactions(sharding, [_transactions(shard) for shard in shards])
            if own_transactions
            else _elsewhere(),
            ShardedSubscriptions(sharding, [shard.subscriptions for shard in shards]),
            ShardedGroups(sharding, [shard.groups for shard in shards]),
            ShardedRanges(sharding, [shard.messaging.ranges for shard in shards]),
            ShardedCleanup(sharding) if all(shard.cleanup for shard in shards) else None,
            ShardedInspection(sharding, inspections) if inspections else None,
            process.namespaces,
            schemas,
            last_first.pop_all(),
        )
