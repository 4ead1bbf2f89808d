"""Serves the shards of a store as one server of a cluster: leads some, and forwards to others.

1. The services, their application and the registry exist as long as the server. Shards come and go:
   each is opened under a lease of its own, and closed before the lease is released.
2. A request for a shard that is led elsewhere is forwarded (`api.cluster.routing`).
3. A store without shards is served as one that has a single shard.
"""

import asyncio
import logging
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from functools import partial

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram

from tms import __version__
from tms.cluster.agreement import agreed_sharding
from tms.cluster.formats import STORE_FORMAT, raising_when_all_know
from tms.cluster.instances import instances_of, next_instance_id
from tms.cluster.lease import Lease
from tms.cluster.presence import Presence
from tms.cluster.shard_members import MoveCause, ShardMembers
from tms.cluster.store_watch import look_s_max
from tms.core.services.cluster import Instance, ShardStanding
from tms.core.values.caller import AUDIT_TOPIC
from tms.core.values.shards import Sharding
from tms.core.values.store_features import FEATURES
from tms.metadata.patience import once_reached
from tms.server.registry_part import open_registry
from tms.server.serving.parts import (
    Basis,
    Joined,
    OnStarted,
    Peers,
    agreed_settings,
    fenced_writes,
    process_metrics,
    quick_settings,
    show_peers,
)
from tms.server.serving.shard_ways import ShardWays
from tms.server.shard import Process
from tms.server.sharded import ShardedServices, ShardStores, namespaces_of, services_of_shards
from tms.server.stores import importing, look_at, open_metadata, sharding_of

with importing("api"):
    from api.app import create_app
    from api.cluster.routing import ShardRouting
    from api.http.listener.server import serve as serve_app


_log = logging.getLogger(__name__)
_TAKEOVER_S = (0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30)


async def serve_in_cluster(basis: Basis, on_started: OnStarted) -> None:
    """Serve until this server is stopped. Raises as `tms.server.serving.process.serve` does."""
    settings = basis.settings
    async with AsyncExitStack() as stack:
        opened = await open_registry(settings, basis.clock, stack)
        metadata = await open_metadata(settings.metadata)
        stack.push_async_callback(metadata.close)
        look_s = look_s_max(settings.lease_s)
        read = partial(sharding_of, settings.store, quick_settings(settings))
        sharding = await once_reached(
            partial(agreed_sharding, metadata, settings.store_shared, read)
        )
        instance_id = await once_reached(partial(next_instance_id, metadata))
        parts = await basis.open(stack, opened, metadata, instance_id)
        instance = Instance(
            id=instance_id,
            address=settings.advertise,
            version=__version__,
            since_ms=parts.clock.now_ms(),
            store_format=STORE_FORMAT,
            features=FEATURES,
            boot="" if parts.security is None else parts.security.boot,
            agreed=agreed_settings(settings, has_registry=opened is not None),
        )
        presence = Presence(
            metadata,
            instance,
            lease_s=settings.lease_s,
            look=look_at(settings.store, settings, look_s),
            ask=Peers(parts.tls.to_others).ask,
            time=parts.clock,
        )
        values = None if opened is None else opened.values
        joined = Joined(parts, presence, values, on_started)
        await _serve(joined, sharding or Sharding(1), stack)
    _log.info("stopped; this server has left its cluster")


async def _serve(joined: Joined, sharding: Sharding, stack: AsyncExitStack) -> None:
    parts, settings = joined.parts, joined.parts.settings
    registry, limits = process_metrics(), settings.limits()
    namespaces = await once_reached(partial(namespaces_of, settings))
    stack.push_async_callback(namespaces.close)
    process = Process(limits, parts.clock, registry, namespaces, joined.values, False)
    services = services_of_shards(sharding, process, settings)
    forwarders = [joined.forwarder() for _ in range(sharding.shards)]
    for forwarder in forwarders:
        stack.push_async_callback(forwarder.close)
    routing = ShardRouting(
        sharding, forwarders, hold_s=settings.hold_s, held_bytes_max=limits.queue_bytes_max
    )
    metrics = _Metrics(registry)
    stores = ShardStores(settings.store, sharding, settings)
    members = ShardMembers(
        joined.presence,
        sharding,
        of_store=settings.store_shared,
        move_delay_s=settings.move_delay_s,
        free=lambda shard, token: joined.free(stores.url(shard), token),
        on_moved=lambda why: metrics.moves.labels(why.value).inc(),
    )
    metrics.show(members, routing)
    show_peers(registry, joined.presence)
    options = parts.options(registry, members)
    if sharding.shards > 1:
        options["sharding"], options["wish"] = sharding, members.wish
    app = parts.with_schemas(parts.with_console(create_app(services, limits, **options)))
    routing.install(app)
    ways = ShardWays(joined, services.places)
    stack.push_async_callback(ways.close)
    turns = _Turns(joined, services, stores, routing, ways, metrics)
    parts.publish_audit(services.reaching(AUDIT_TOPIC))
    stack.callback(parts.publish_audit, None)
    await stack.enter_async_context(app.context.watch.at_work())
    stack.push_async_callback(members.close)
    await members.open(turns.lead, turns.heard)
    if parts.schemas is not None:
        parts.schemas.register(registry)
        parts.schemas.attach(services.reaching(settings.registry_topic_id))
        parts.schemas.elect()
    await serve_app(
        parts.listeners(app),
        limits=limits,
        on_started=joined.on_started,
        on_stopping=services.stop_waiting,
        grace_s=settings.stop_grace_s,
        tls=parts.tls.own,
    )


class _Metrics:
    """Metrics of the shards of a cluster, as one server sees them."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self.shards = Gauge(
            "tms_cluster_shards",
            "Shards by state, as this server sees them.",
            ["state"],
            registry=registry,
        )
        self.held = Gauge(
            "tms_held_requests", "Requests that wait for a leader.", registry=registry
        )
        self.moves = Counter(
            "tms_cluster_shard_moves",
            "Shards that this server took over because a lease ran out, or gave back.",
            ["why"],
            registry=registry,
        )
        self.takeover = Histogram(
            "tms_cluster_takeover_seconds",
            "How long this server took to open a shard that it had claimed.",
            buckets=_TAKEOVER_S,
            registry=registry,
        )
        self.fenced = fenced_writes(registry)
        for why in MoveCause:
            self.moves.labels(why.value)

    def show(self, members: ShardMembers, routing: ShardRouting) -> None:
        """Show the standing of the shards, and how many requests wait for a leader."""
        for standing in ShardStanding:
            self.shards.labels(standing.value).set_function(partial(members.count, standing))
        self.held.set_function(lambda: routing.held)


@dataclass(frozen=True, slots=True)
class _Turns:
    """The turns in which this server leads shards."""

    joined: Joined
    services: ShardedServices
    stores: ShardStores
    routing: ShardRouting
    ways: ShardWays
    metrics: _Metrics

    @asynccontextmanager
    async def lead(self, number: int, lease: Lease) -> AsyncIterator[None]:
        """Open a shard, and serve it."""
        claimed_s = time.monotonic()
        lease.on_lost.append(self.metrics.fenced.inc)
        opened = await asyncio.to_thread(self.stores.open, number, lease)
        async with AsyncExitStack() as last_first:
            last_first.push_async_callback(asyncio.to_thread, opened[0].close)
            shard = await last_first.enter_async_context(
                self.services.leading(number, opened, lease, self._instances)
            )
            raising = raising_when_all_know(self._instances, shard.raise_format)
            last_first.push_async_callback(_ended, raising)
            last_first.push_async_callback(self.routing.leave, number, shard.stop_waiting)
            self.routing.lead(number, self.services.in_shard(number), lambda: lease.left_s)
            self.metrics.takeover.observe(time.monotonic() - claimed_s)
            _show_lease(self.services.registries[number], lease)
            yield

    async def _instances(self) -> Sequence[Instance]:
        return await instances_of(self.joined.presence.store)

    def heard(self, number: int, address: str | None, boot: str) -> None:
        """Direct requests for a shard to another leader, or to none."""
        other = None if address == self.joined.presence.instance.address else address
        self.routing.set_leader(number, other, boot)
        self.ways.heard(number, other, boot)


def _show_lease(registry: CollectorRegistry, lease: Lease) -> None:
    description = "Time that is left of the lease of a shard that this server leads."
    gauge = Gauge("tms_cluster_lease_left_seconds", description, registry=registry)
    gauge.set_function(lambda: max(0.0, lease.left_s))


async def _ended(task: "asyncio.Task[None]") -> None:
    """Cancel a task, and return when it has ended."""
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
