"""Assembles the parts: the shard of a store, and the parts that a process has once.

Only this file and `tms.server.shard` know all parts.
"""

import asyncio
import importlib.util
from collections.abc import Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass, fields
from typing import TypeVar

from anyio import CancelScope
from anyio.lowlevel import checkpoint_if_cancelled
from prometheus_client import CollectorRegistry

from tms.core.limits import Limits
from tms.core.runtime.clock import Clock
from tms.core.runtime.held_lease import HeldLease
from tms.core.runtime.trusted_clock import trusted
from tms.core.services.findings import Finding, FindingKind
from tms.core.services.payload_values import PayloadValues
from tms.core.text.store_url import folder_of
from tms.core.values.room import Room
from tms.core.values.shards import check_shard
from tms.core.values.store_access import StoreAccess
from tms.core.values.topic import TopicId
from tms.messaging.features import Instances
from tms.messaging.service import Service
from tms.metadata.interface import MetadataStore
from tms.namespaces.opening import DeclaredNamespaces, open_namespaces
from tms.namespaces.store import UndeclaredNamespaces
from tms.registry.in_process import LocalSchemas
from tms.registry.log.schema_log import WayToLog
from tms.server.shard import Process, Shard, Upkeep, open_shard
from tms.server.stores import importing, open_metadata, open_tables
from tms.settings import Settings

with importing("tables"), importing("cleanup"):
    from tables.room import RoomMetrics
    from tables.store_tables import StoreTables

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class OpenServices(Shard):
    """All services of a process with one shard. Implements `ServerServices`."""

    namespaces: DeclaredNamespaces
    schemas: LocalSchemas
    room_metrics: RoomMetrics | None
    """None without upkeep, and for a store that is not in a folder."""
    _opened: AsyncExitStack

    @property
    def sharding(self) -> None:
        """None, because the store has one shard."""

    def in_shard(self, shard: int) -> "OpenServices":
        """Return this: it is shard 0, the only one."""
        check_shard(shard, 1)
        return self

    def reaching(self, _: TopicId) -> Service:
        """Return the messaging that has one of the service's own topics."""
        return self.messaging

    async def room(self) -> Room | None:
        """Measure the disk space of the store; None if it is not in a folder."""
        metrics = self.room_metrics
        return None if metrics is None else await asyncio.to_thread(metrics.refresh)

    async def refresh_metrics(self) -> None:
        """Update the metrics that must be measured; takes a bounded time."""
        await self.subscriptions.lags.refresh()
        await self.room()

    def warnings(self) -> list[str]:
        """Return warnings that need attention soon; takes constant time."""
        own = self.own_transactions
        return [] if own is None else own.warnings()

    def findings(self) -> Sequence[Finding]:
        """Return a finding if the store refuses writes now, or those of its parts."""
        return self.shard_findings(FindingKind.WRITES_REFUSED, "the store")

    def present(self) -> "tuple[OpenServices, Sequence[int]]":
        """Return this, and no missing shards."""
        return self, ()

    async def close(self) -> None:
        """Write queued requests, refuse later ones, and close the store.

        Completes even if the caller is cancelled: otherwise the store would stay open and locked.
        """
        await _ended(asyncio.ensure_future(self._opened.aclose()))


async def open_services(
    store: str,
    limits: Limits | None = None,
    clock: Clock | None = None,
    *,
    settings: Settings | None = None,
    registry: CollectorRegistry | None = None,
    values: PayloadValues | None = None,
    lease: HeldLease | None = None,
    instances: Instances | None = None,
    may_block_loop: bool = False,
    access: StoreAccess = StoreAccess.CREATE,
) -> OpenServices:
    """Return the services on `store` within the running event loop; close them when done.

    `limits` and `settings` are the defaults if None. With a `lease`, everything is done under it,
    and `instances` returns the servers of the cluster. If `access` is to read, no part writes.
    `may_block_loop` says that the loop serves nothing else. `values` is that of `services_on`.
    Raises as `open_tables` does.
    """
    settings = settings or Settings.model_construct()
    limits = limits or settings.limits()
    clock = trusted(clock, limits)
    tables = await asyncio.to_thread(
        open_tables, store, settings, access, takes_over=True, lease=lease
    )

    async def open_beside(url: str, is_own_folder: bool) -> MetadataStore:  # noqa: FBT001  a Callable
        return await open_metadata(url, settings, tables if is_own_folder else None, access)

    try:
        namespaces = await open_namespaces(settings.metadata, store, limits, open_beside)
    except BaseException:
        tables.close()
        raise
    return await services_on(
        tables,
        limits,
        clock,
        registry or CollectorRegistry(),
        namespaces,
        values=values,
        lease=lease,
        instances=instances,
        may_block_loop=may_block_loop,
        access=access,
        upkeep=Upkeep(store, tables.store, settings),
    )


async def open_embedded(store: str, access: StoreAccess) -> OpenServices:
    """Return the services on `store` for a client in this process.

    A cancelled caller waits until the store is closed again.
    """
    opening = asyncio.ensure_future(open_services(store, access=access))
    try:
        return await _ended(opening)
    except asyncio.CancelledError:
        if not opening.cancelled() and opening.exception() is None:
            await opening.result().close()
        raise


async def _ended(task: "asyncio.Future[T]") -> T:
    """Return the result of `task`; if the caller is cancelled, raise that after its end."""
    cancelled: asyncio.CancelledError | None = None
    with CancelScope(shield=True):  # a cancelled scope around it cancels at each turn of the loop
        while not task.done():
            try:
                await asyncio.wait((task,))
            except asyncio.CancelledError as error:
                cancelled = error
    if cancelled is not None:
        raise cancelled
    await checkpoint_if_cancelled()
    return task.result()


async def services_on(
    tables: StoreTables,
    limits: Limits,
    clock: Clock,
    registry: CollectorRegistry,
    namespaces: DeclaredNamespaces | None = None,
    *,
    values: PayloadValues | None = None,
    lease: HeldLease | None = None,
    instances: Instances | None = None,
    may_block_loop: bool = False,
    access: StoreAccess = StoreAccess.CREATE,
    upkeep: Upkeep | None = None,
) -> OpenServices:
    """Return the services on `tables`, which close with them, even if this fails.

    So do `namespaces`; None means that none are declared. `values` checks payloads, or the registry
    on these services if its extra is installed. Raises as `open_shard` does.
    """
    namespaces = namespaces or UndeclaredNamespaces(limits)
    way = WayToLog()
    schemas = LocalSchemas(way, clock)
    if values is None and importlib.util.find_spec("avro") is not None:
        values = schemas.values
    process = Process(limits, trusted(clock, limits), registry, namespaces, values, may_block_loop)
    async with AsyncExitStack() as last_first:
        last_first.push_async_callback(asyncio.to_thread, tables.close)
        last_first.push_async_callback(namespaces.close)
        shard = await open_shard(
            tables, process, lease=lease, instances=instances, access=access, upkeep=upkeep
        )
        last_first.push_async_callback(shard.close)
        way.attach(shard.messaging)
        folder = None if upkeep is None else folder_of(upkeep.url)
        return OpenServices(
            **{field.name: getattr(shard, field.name) for field in fields(shard)},
            namespaces=namespaces,
            schemas=schemas,
            room_metrics=None if folder is None else RoomMetrics(registry, folder),
            _opened=last_first.pop_all(),
        )
