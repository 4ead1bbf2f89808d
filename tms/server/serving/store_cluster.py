"""Serves as one of a cluster: the whole store while this server leads, and else it forwards.

A store that has shards is served by `tms.server.serving.shard_cluster`.
"""

import asyncio
import logging
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from functools import partial

from prometheus_client import Counter

from tms import __version__
from tms.cluster.agreement import agreed_sharding
from tms.cluster.formats import STORE_FORMAT, raising_when_all_know
from tms.cluster.instances import next_instance_id
from tms.cluster.lease import Lease
from tms.cluster.member import Member
from tms.cluster.presence import Presence
from tms.cluster.store_watch import look_s_max
from tms.core.cluster import Instance
from tms.core.payload_values import PayloadValues
from tms.core.store_features import FEATURES
from tms.metadata.patience import once_reached
from tms.server.node import open_services
from tms.server.registry_part import open_registry
from tms.server.serving.parts import (
    Basis,
    Joined,
    OnStarted,
    Parts,
    Peers,
    agreed_settings,
    fenced_writes,
    process_metrics,
    quick_settings,
    show_peers,
)
from tms.server.stores import importing, look_at, open_metadata, sharding_of

with importing("api"):
    from api.app import create_app, create_standby
    from api.cluster.forwarding import Forwarder
    from api.cluster.standby import ClusterApp, with_leaders_pages
    from api.http.server import serve as serve_app

_log = logging.getLogger(__name__)


async def serve_in_cluster(basis: Basis, on_started: OnStarted) -> None:
    """Serve until this server is stopped. Raises as `tms.server.serving.process.serve`."""
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
        if sharding is None:
            await _serve_store(joined, stack)
        else:
            from tms.server.serving.shard_cluster import serve_shards  # noqa: PLC0415  for shards alone

            await serve_shards(joined, sharding, stack)
    _log.info("stopped; this server has left its cluster")


async def _serve_store(joined: Joined, stack: AsyncExitStack) -> None:
    """Serve a store that has one shard, or have its leader serve it."""
    parts, settings = joined.parts, joined.parts.settings
    forwarder = joined.forwarder()
    stack.push_async_callback(forwarder.close)
    free = partial(joined.free, settings.store)
    peers = joined.presence.peers
    member = Member(
        joined.presence,
        of_store=settings.store_shared,
        free=free,
        may_claim=lambda free_s: not peers.is_to_yield or free_s >= settings.lease_s / 2,
    )
    peers.on_looked.append(lambda: member.step_down() if peers.is_to_yield else None)
    registry, schemas = process_metrics(), parts.schemas
    if schemas is not None:
        schemas.register(registry)
    show_peers(registry, joined.presence)
    options = parts.options(registry, member)
    standby = create_standby(forwarder, settings.limits(), **options)
    if parts.security is not None:
        standby = with_leaders_pages(parts.with_console(standby), forwarder)
    app = ClusterApp(parts.with_schemas(standby))
    part = _Part(
        forwarder,
        parts,
        joined.values,
        member,
        app,
        fenced=fenced_writes(registry),
        presence=joined.presence,
    )
    await member.open(part.lead, part.heard)
    stack.push_async_callback(member.close)
    if schemas is not None:
        schemas.elect()
    await serve_app(
        parts.listeners(app),
        limits=settings.limits(),
        on_started=joined.on_started,
        on_stopping=part.stop_waiting,
        grace_s=settings.stop_grace_s,
        tls=parts.tls.own,
    )


class _Part:
    """The part of this server in its cluster: it opens the services, or forwards."""

    def __init__(
        self,
        forwarder: Forwarder,
        parts: Parts,
        values: PayloadValues | None,
        member: Member,
        app: ClusterApp,
        *,
        fenced: Counter,
        presence: Presence,
    ) -> None:
        self._presence = presence
        self._settings = parts.settings
        self._values = values
        self._forwarder = forwarder
        self._parts = parts
        self._member = member
        self._app = app
        self._fenced = fenced
        self._schemas = parts.schemas
        self._is_leading = False
        self._stop_waiting: Callable[[], None] = _nothing

    @asynccontextmanager
    async def lead(self, lease: Lease) -> AsyncIterator[None]:
        """Open the services, and serve by them."""
        settings, registry = self._settings, process_metrics()
        registry.register(self._fenced)
        show_peers(registry, self._presence)
        lease.on_lost.append(self._fenced.inc)
        services = await open_services(
            settings.store,
            clock=self._parts.clock,
            settings=settings,
            registry=registry,
            values=self._values,
            lease=lease,
            instances=self._instances,
        )
        options = self._parts.options(registry, self._member)
        app = self._parts.with_console(create_app(services, settings.limits(), **options))
        self._parts.publish_audit(services.messaging)
        self._stop_waiting = services.stop_waiting
        if self._schemas is not None:
            self._is_leading = True
            self._schemas.register(registry)
            self._schemas.attach(services.messaging)
        self._app.lead(self._parts.with_schemas(app), partial(getattr, lease, "left_s"))
        raising = raising_when_all_know(self._instances, services.raise_format)
        try:
            async with app.context.watch.at_work():
                yield
        finally:
            raising.cancel()
            await asyncio.gather(raising, return_exceptions=True)
            self._app.follow()
            self._stop_waiting = _nothing
            self._parts.publish_audit(None)
            self._is_leading = False
            self._attach_schemas_to(None)
            await services.close()

    async def _instances(self) -> Sequence[Instance]:
        return (await self._member.state()).instances

    def stop_waiting(self) -> None:
        """Let polls that wait answer now, where this server leads."""
        self._stop_waiting()

    def heard(self, address: str | None, boot: str) -> None:
        """Forward to another leader, or to none."""
        other = None if address == self._settings.advertise else address
        self._forwarder.forward_to(other, boot)
        if not self._is_leading:
            self._attach_schemas_to(other, boot)

    def _attach_schemas_to(self, address: str | None, boot: str = "") -> None:
        if self._schemas is not None:
            self._schemas.attach_to(address, boot)


def _nothing() -> None:
    """Do nothing."""
