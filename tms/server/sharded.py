"""The services of a process on shards: those of each shard that it leads, and access to others.

1. Each shard is opened, led and closed by itself, like a standalone server's store. A standalone
   process leads all of them; in a cluster it leads some, under a lease for each.
2. Shards share the clock, the namespaces, the metrics' registry, the cache's memory and the
   connections to HBase, of which each has a bounded part. Other limits apply per shard.
3. The services of a shard answer requests for its topics and transactions (`in_shard`). Lists and
   sums cover all shards, including those that others lead (`tms.sharding`).
4. A cluster serves a store without shards as one with a single shard. Users then never see its
   number, in no label, finding or warning.
"""

import asyncio
import importlib.util
from collections.abc import AsyncIterator, Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, replace
from typing import cast

from prometheus_client import CollectorRegistry, Gauge

from tms.core.errors import NoLeader
from tms.core.runtime.held_lease import HeldLease
from tms.core.runtime.trusted_clock import TrustedClock
from tms.core.services.findings import Finding, FindingKind
from tms.core.services.messaging import Messaging, MessagingService
from tms.core.services.payload_values import PayloadValues
from tms.core.services.transactions import AsyncTransactions
from tms.core.text.store_url import HBASE, has_scheme, url_of_shard
from tms.core.values.caller import SYSTEM
from tms.core.values.cleanup import Cleanup
from tms.core.values.groups import Groups
from tms.core.values.inspection import PartwiseInspection
from tms.core.values.lags import ReaderLag
from tms.core.values.ranges import Ranges
from tms.core.values.schedules import Schedules
from tms.core.values.shards import OneShard, OwnIds, Sharding, check_shard
from tms.core.values.store_access import StoreAccess
from tms.core.values.subscriptions import Subscriptions
from tms.core.values.topic import TopicId
from tms.messaging.cache import CacheBudget
from tms.messaging.features import Instances
from tms.messaging.store_runtime import CACHE_BYTES_HELP
from tms.metadata.interface import MetadataStore
from tms.namespaces.opening import DeclaredNamespaces, open_namespaces
from tms.registry.in_process import LocalSchemas
from tms.registry.log.schema_log import SCHEMAS_TOPIC, WayToLog
from tms.server.shard import Opened, Process, Shard, Upkeep, open_shard
from tms.server.stores import hbase_pool, open_metadata, open_tables
from tms.settings import Settings
from tms.sharding.messaging import ShardedMessaging
from tms.sharding.metrics import ShardMetrics
from tms.sharding.places import Picked, Places, ShardService, held
from tms.sharding.ranges import ShardedRanges
from tms.sharding.transactions import ShardedTransactions
from tms.transactions.foreign_manager import TransactionsOfOthers


@dataclass(frozen=True, slots=True)
class ShardedServices:
    """All services of a process, over its shards. Implements `ServerServices`."""

    sharding: Sharding
    places: Places[Shard]
    process: Process
    messaging: MessagingService
    transactions: AsyncTransactions
    subscriptions: Subscriptions
    groups: Groups
    schedules: Schedules
    ranges: Ranges
    cleanup: Cleanup | None
    inspection: PartwiseInspection | None
    namespaces: DeclaredNamespaces
    schemas: LocalSchemas
    registries: dict[int, CollectorRegistry]
    """The metrics of the shards that are led here."""
    led: "dict[int, ShardedServices]"
    """The services of each shard that is led here, with those of the process."""
    closing: AsyncExitStack
    """Closes everything opened with the services."""

    @property
    def shards(self) -> Sequence[Shard]:
        """The shards that are led here, in order."""
        return [shard for _, shard in sorted(self.places.led.items())]

    def in_shard(self, shard: int) -> "ShardedServices":
        """Return the services of one shard, with those of the process.

        Raises `InvalidRequest` (invalid_query), and `NoLeader` if it is not led here.
        """
        if check_shard(shard, self.sharding.shards) not in self.led:
            raise NoLeader(shard=shard)
        return self.led[shard]

    def reaching(self, topic: TopicId) -> Messaging:
        """Return the messaging that has one of the service's own topics, wherever its leader is."""
        shard, reached = self.sharding.shard_of(topic), self.places.as_server
        return cast("Messaging", ShardService(lambda: held(reached[shard]).messaging))

    @asynccontextmanager
    async def leading(
        self,
        number: int,
        opened: Opened,
        lease: HeldLease | None = None,
        instances: Instances | None = None,
    ) -> AsyncIterator[Shard]:
        """Serve a shard on its tables, which stay open. Raises as `open_shard` does."""
        tables, upkeep = opened
        registry = CollectorRegistry()
        shard = await open_shard(
            tables,
            self.process._replace(registry=registry),
            lease=lease,
            instances=instances,
            access=StoreAccess.CREATE,
            upkeep=upkeep,
            ids=OwnIds(number, self.sharding.shards),
        )
        self.registries[number] = registry
        self.places.lead(number, shard)
        self.led[number] = replace(
            self,
            messaging=shard.messaging,
            transactions=shard.transactions,
            subscriptions=shard.subscriptions,
            groups=shard.groups,
            schedules=shard.schedules,
            ranges=shard.ranges,
            cleanup=shard.cleanup,
            inspection=shard.inspection,
        )
        try:
            yield shard
        finally:
            del self.led[number]
            self.places.leave(number)
            del self.registries[number]
            await shard.close()

    def stop_waiting(self) -> None:
        """Let waiting polls and takes return now, and later ones at once."""
        for shard in self.shards:
            shard.stop_waiting()

    async def refresh_lags(self) -> None:
        """Measure how far readers are behind; takes a bounded time."""
        for shard in self.shards:
            await shard.refresh_lags()

    def lags(self) -> Sequence[ReaderLag]:
        """Return how far readers are behind, as last measured."""
        return [lag for shard in self.shards for lag in shard.lags()]

    async def room(self) -> None:
        """Return None, because shards share no folder."""

    async def refresh_metrics(self) -> None:
        """Update the metrics that must be measured; takes a bounded time."""
        for shard in self.shards:
            await shard.subscriptions.lags.refresh()

    def warnings(self) -> list[str]:
        """Return warnings that need attention soon, with their shards."""
        is_one = self.sharding.shards == 1
        return [
            warning if is_one else f"shard {number}: {warning}"
            for number, shard in sorted(self.places.led.items())
            if shard.own_transactions is not None
            for warning in shard.own_transactions.warnings()
        ]

    def findings(self) -> list[Finding]:
        """Return findings about shards that are away or refuse writes."""
        if self.sharding.shards == 1:
            kind = FindingKind.WRITES_REFUSED
            return [
                refused_write
                for shard in self.shards
                for refused_write in shard.refused_writes(kind, "the store")
            ]
        reported = {
            number: Finding(
                kind=FindingKind.SHARD_AWAY,
                where=f"shard {number}",
                text="No server leads it. Requests for it get 503.",
                advice="`tms cluster --shards` shows which servers could not open it; their logs "
                "say why.",
                is_urgent=True,
            )
            for number in self.places.missing
        }
        for number, shard in self.places.led.items():
            refused = shard.refused_writes(FindingKind.SHARD_AWAY, f"shard {number}")
            for finding in refused:
                reported.setdefault(number, finding)
        return [finding for _, finding in sorted(reported.items())]

    def present(self) -> "tuple[ShardedServices, Sequence[int]]":
        """Return services whose lists leave out shards without a leader, and these shards."""
        missing = self.places.missing
        transactions = self.transactions
        if missing and isinstance(transactions, ShardedTransactions):
            transactions = cast("AsyncTransactions", transactions.without(missing))
        return replace(self, transactions=transactions), missing

    async def raise_format(self) -> None:
        """Record the present format of each shard that is led here. Raises `StoreUnavailable`."""
        for shard in self.shards:
            await shard.raise_format()

    async def close(self) -> None:
        """Close the shards, and the parts of the process."""
        await self.closing.aclose()


class ShardStores:
    """The stores of shards, opened one by one by the settings. Used from any thread."""

    def __init__(self, store: str, sharding: Sharding, settings: Settings) -> None:
        """Open shards of `store`, `hbase://…`."""
        self._pool = hbase_pool(store, settings) if has_scheme(store, HBASE) else None
        if sharding.shards > 1:
            part = {
                "hbase_connections": max(2, 2 * settings.hbase_connections // sharding.shards),
                "cleanup_workers": min(1, settings.cleanup_workers),
            }
            settings = settings.model_copy(update=part)
        self._store = store
        self._sharding = sharding
        self._settings = settings

    def url(self, number: int) -> str:
        """Return the URL of one shard."""
        return self._store if self._sharding.shards == 1 else url_of_shard(self._store, number)

    def open(self, number: int, lease: HeldLease | None = None) -> Opened:
        """Open one shard; the caller closes the tables.

        Raises as `open_tables` does, and `StoreFormatUnknown` if it contradicts the whole store.
        """
        url = self.url(number)
        expected = OneShard(number, self._sharding) if self._sharding.shards > 1 else None
        tables = open_tables(
            url, self._settings, takes_over=True, lease=lease, shard=expected, pool=self._pool
        )
        return tables, Upkeep(url, tables.store, self._settings, self._pool)


async def open_shards(
    store: str,
    sharding: Sharding,
    clock: TrustedClock,
    settings: Settings,
    registry: CollectorRegistry,
    *,
    values: PayloadValues | None,
    may_block_loop: bool = False,
) -> ShardedServices:
    """Return the services on all shards of `store`, `hbase://…`, for a standalone server.

    The stores are opened together, because each may have to wait for a dead server's calls. If one
    cannot be opened, all are closed. The arguments are those of `tms.server.node.open_services`.
    Raises as that does, and `StoreFormatUnknown` if a shard contradicts `sharding`.
    """
    stores = ShardStores(store, sharding, settings)
    opened = await asyncio.to_thread(_open_all, stores.open, sharding.shards)
    try:
        namespaces = await namespaces_of(settings)
    except BaseException:
        _close(opened)
        raise
    process = Process(settings.limits(), clock, registry, namespaces, values, may_block_loop)
    return await open_sharded(opened, sharding, process)


async def namespaces_of(settings: Settings) -> DeclaredNamespaces:
    """Return the namespaces of a server on a store that is not in a folder. Raises on opening."""

    async def open_beside(url: str, _: bool) -> MetadataStore:  # noqa: FBT001  a Callable
        return await open_metadata(url, settings)

    return await open_namespaces(settings.metadata, settings.store, settings.limits(), open_beside)


def _open_all(open_one: Callable[[int], Opened], count: int) -> list[Opened]:
    """Open all shards, each in a thread. If one raises, close the others."""
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
    opened: Sequence[Opened], sharding: Sharding, process: Process
) -> ShardedServices:
    """Return the services on all shards, which close with them, even if this fails.

    So do the namespaces of `process`. Raises as `open_shard` does.
    """
    assert len(opened) == sharding.shards
    async with AsyncExitStack() as last_first:
        last_first.push_async_callback(process.namespaces.close)
        for tables, _ in opened:
            last_first.push_async_callback(asyncio.to_thread, tables.close)
        _, upkeep = opened[0]
        services = services_of_shards(sharding, process, upkeep.settings)
        for number, each in enumerate(opened):
            await last_first.enter_async_context(services.leading(number, each))
        services.closing.push_async_exit(last_first.pop_all())
        return services


def services_of_shards(sharding: Sharding, process: Process, settings: Settings) -> ShardedServices:
    """Return the services of a process that leads no shard yet.

    Its `values` check payloads, or the registry on these services if its extra is installed.
    """
    way = WayToLog()
    schemas = LocalSchemas(way, process.clock)
    values = process.values
    if values is None and importlib.util.find_spec("avro") is not None:
        values = schemas.values
    cache = CacheBudget(process.limits.cache_bytes_max)
    gauge = Gauge("tms_cache_bytes", CACHE_BYTES_HELP, registry=process.registry)
    gauge.set_function(lambda: cache.used_bytes)
    registries: dict[int, CollectorRegistry] = {}
    metrics = ShardMetrics(registries, is_labelled=sharding.shards > 1)
    process.registry.register(metrics)
    has_own = settings.transactions == "own"
    places = Places[Shard](sharding.shards)
    here, everywhere = places.here, places.as_caller
    messaging = ShardedMessaging(
        sharding,
        Picked(here, lambda each: each.messaging),
        Picked(everywhere, lambda each: held(each).messaging),
        places.led.keys(),
        values,
    )
    schemas_shard = sharding.shard_of(TopicId(SYSTEM, SCHEMAS_TOPIC))
    way.attach(cast("Messaging", ShardService(lambda: held(everywhere[schemas_shard]).messaging)))
    transactions = ShardedTransactions(Picked(everywhere, lambda each: held(each).transactions))
    ranges = ShardedRanges(sharding, Picked(everywhere, lambda each: held(each).ranges))
    return ShardedServices(
        sharding,
        places,
        process._replace(values=values, cache=cache),
        cast("MessagingService", messaging),
        cast("AsyncTransactions", transactions if has_own else TransactionsOfOthers()),
        cast("Subscriptions", ShardService(lambda: places.only.subscriptions)),
        cast("Groups", ShardService(lambda: places.only.groups)),
        cast("Schedules", ShardService(lambda: places.only.schedules)),
        cast("Ranges", ranges),
        cast("Cleanup", ShardService(lambda: cast("Shard", places.only).cleanup)),
        cast("PartwiseInspection", ShardService(lambda: cast("Shard", places.only).inspection)),
        process.namespaces,
        schemas,
        registries,
        {},
        AsyncExitStack(),
    )
