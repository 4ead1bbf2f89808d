"""Serves the shards of a store as one of a cluster: those that this server leads, and the ways.

1. The services, their application and the registry are there all the time. Shards come and go: each
   is opened under a lease of its own, and closed before that is given back.
2. A request for a shard that is led elsewhere is forwarded (`api.cluster.routing`).
"""

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from functools import partial

from prometheus_client import CollectorRegistry, Gauge

from tms.cluster.formats import raising_when_all_know
from tms.cluster.instances import instances_of
from tms.cluster.lease import Lease
from tms.cluster.shard_members import ShardMembers
from tms.core.cluster import Instance, ShardStanding
from tms.core.shards import Sharding
from tms.server.serving.parts import Joined, process_metrics
from tms.server.serving.shard_ways import ShardWays
from tms.server.shard import Process
from tms.server.sharded import ShardedServices, ShardStores, namespaces_of, services_of_shards
from tms.server.stores import importing

with importing("api"):
    from api.app import create_app
    from api.cluster.routing import ShardRouting
    from api.http.server import serve as serve_app


async def serve_shards(joined: Joined, sharding: Sharding, stack: AsyncExitStack) -> None:
    """Serve until this server is stopped. Raises as `tms.server.serving.process.serve`."""
    parts, settings = joined.parts, joined.parts.settings
    registry, limits = process_metrics(), settings.limits()
    namespaces = await namespaces_of(settings)
    stack.push_async_callback(namespaces.close)
    process = Process(limits, parts.clock, registry, namespaces, joined.values, False)
    services = services_of_shards(sharding, process, settings)
    forwarders = [joined.forwarder() for _ in range(sharding.shards)]
    for forwarder in forwarders:
        stack.push_async_callback(forwarder.close)
    routing = ShardRouting(
        sharding, forwarders, hold_s=settings.hold_s, held_bytes_max=limits.queue_bytes_max
    )
    members = ShardMembers(
        joined.presence,
        sharding,
        of_store=settings.store_shared,
        move_delay_s=settings.move_delay_s,
    )
    _show_metrics(registry, members, routing)
    options = parts.options(registry, members, sharding)
    options["wish"] = members.wish
    app = parts.with_schemas(parts.with_console(create_app(services, limits, **options)))
    routing.install(app)
    ways = ShardWays(joined, services.places)
    stack.push_async_callback(ways.close)
    turns = _Turns(joined, services, ShardStores(settings.store, sharding, settings), routing, ways)
    reaching = services.reaching()
    parts.publish_audit(reaching)
    stack.callback(parts.publish_audit, None)
    await stack.enter_async_context(app.context.watch.at_work())
    stack.push_async_callback(members.close)
    await members.open(turns.lead, turns.heard)
    if parts.schemas is not None:
        parts.schemas.register(registry)
        parts.schemas.attach(reaching)
        parts.schemas.elect()
    await serve_app(
        parts.listeners(app),
        limits=limits,
        on_started=joined.on_started,
        on_stopping=services.stop_waiting,
        grace_s=settings.stop_grace_s,
        tls=parts.tls.own,
    )


def _show_metrics(
    registry: CollectorRegistry, members: ShardMembers, routing: ShardRouting
) -> None:
    """Show how the shards stand, and how many requests wait for a leader."""
    shards = Gauge("tms_cluster_shards", "Shards by how they stand.", ["state"], registry=registry)
    for standing in ShardStanding:
        shards.labels(standing.value).set_function(partial(members.count, standing))
    held = Gauge("tms_held_requests", "Requests that wait for a leader.", registry=registry)
    held.set_function(lambda: routing.held)


class _Turns:
    """The turns in which this server leads shards."""

    def __init__(
        self,
        joined: Joined,
        services: ShardedServices,
        stores: ShardStores,
        routing: ShardRouting,
        ways: ShardWays,
    ) -> None:
        self._joined = joined
        self._services = services
        self._stores = stores
        self._routing = routing
        self._ways = ways

    @asynccontextmanager
    async def lead(self, number: int, lease: Lease) -> AsyncIterator[None]:
        """Open a shard, and serve it."""
        opened = await asyncio.to_thread(self._stores.open, number, lease)
        async with AsyncExitStack() as last_first:
            last_first.push_async_callback(asyncio.to_thread, opened[0].close)
            shard = await last_first.enter_async_context(
                self._services.leading(number, opened, lease, self._instances)
            )
            raising = raising_when_all_know(self._instances, shard.raise_format)
            last_first.push_async_callback(_ended, raising)
            last_first.callback(self._routing.follow, number)
            self._routing.lead(number, lambda: lease.left_s)
            yield

    async def _instances(self) -> Sequence[Instance]:
        return await instances_of(self._joined.presence.store)

    def heard(self, number: int, address: str | None, boot: str) -> None:
        """Have requests for a shard go to another leader, or to none."""
        other = None if address == self._joined.presence.instance.address else address
        self._routing.heard(number, other, boot)
        self._ways.heard(number, other, boot)


async def _ended(task: "asyncio.Task[None]") -> None:
    """Cancel a task, and return when it has ended."""
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
