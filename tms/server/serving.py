"""Runs a server: REST on the services that `tms.server.node` opens, alone or as one of a cluster.

In a cluster the services are open only while this server leads (`tms.cluster.member`); meanwhile
the others forward to it (`api.cluster.standby`). The schema registry is served in any case
(`tms.server.registry_part`), also by a server that has nothing else.
"""

import asyncio
import importlib.util
import logging
import sys
from collections.abc import AsyncIterator, Callable, Coroutine, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any

import uvloop
from prometheus_client import CollectorRegistry, GCCollector, PlatformCollector, ProcessCollector

from tms import __version__
from tms.cluster.formats import STORE_FORMAT, raising_when_all_know
from tms.cluster.instances import next_instance_id
from tms.cluster.lease import Lease
from tms.cluster.member import Member
from tms.cluster.store_watch import look_s_max
from tms.core.cluster import Cluster, Instance
from tms.core.messaging import Messaging
from tms.core.payload_values import PayloadValues
from tms.core.store_features import FEATURES
from tms.core.trusted_clock import TrustedClock, trusted
from tms.metadata.interface import MetadataStore
from tms.server.gc_schedule import collected_by_clock
from tms.server.opening import KnownSharding, open_served
from tms.server.registry_part import OpenRegistry, RegistryPart, open_registry
from tms.server.security_part import Security, SecurityFiles, ServedTls, read_security, read_tls
from tms.server.stores import importing, look_at, open_metadata
from tms.settings import Settings

with importing("api"):
    from api.app import create_app, create_standby, create_storeless
    from api.cluster.forwarding import Forwarder
    from api.cluster.standby import ClusterApp
    from api.http.app import App
    from api.http.application import Application
    from api.http.callers import Callers
    from api.http.context import Options
    from api.http.server import ListeningAddress
    from api.http.server import serve as serve_app

_SWITCH_INTERVAL_S = 0.0005
"""How long a thread may keep Python from another that waits for it. With CPython's 5 ms a flush in
its thread waits that long behind a busy event loop; with this a server publishes an eighth more."""

OnStarted = Callable[..., None]
"""Is told the URL, and the registry's own if it has one."""

_log = logging.getLogger(__name__)


def serve(settings: Settings, on_started: OnStarted) -> None:
    """Serve REST as `settings` say until SIGTERM or SIGINT, then finish what was accepted.

    Raises as `open_tables`, and `OSError` where the address cannot be listened on; in a cluster as
    `open_metadata` and `Member.open` too, and `StoreUnavailable` where the gateway keeps idle
    connections. Raises `ValueError` if it would let strangers in, or TLS has no use for its files.
    """
    settings.check_safe(*settings.listened_hosts)
    serve_kind = _serve_in_cluster if settings.advertise else _serve
    if settings.registry_log:
        serve_kind = _serve_registry
    tls, clock = read_tls(settings), trusted(None, settings.limits())
    security = read_security(settings, clock)
    urls: list[str] = []

    def started(url: str) -> None:
        urls.append(url)
        if len(urls) == 1 + bool(settings.registry_listen):
            on_started(*urls)

    _run(settings, serve_kind(_Basis(settings, clock, tls, security), started))


def _run(settings: Settings, serving: Coroutine[Any, Any, None]) -> None:
    logging.basicConfig(
        level=settings.log_level.upper(),
        format="%(asctime)s %(levelname)s %(name)s: %(message)s",
    )
    for noisy in ("httpx", "httpcore"):
        logging.getLogger(noisy).setLevel(logging.WARNING)
    sys.setswitchinterval(_SWITCH_INTERVAL_S)
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(_with_few_pauses(serving))


async def _with_few_pauses(serving: Coroutine[Any, Any, None]) -> None:
    with collected_by_clock():
        await serving


def _registry() -> CollectorRegistry:
    """Return a registry that has the process's own metrics."""
    registry = CollectorRegistry()
    GCCollector(registry=registry)
    ProcessCollector(registry=registry)
    PlatformCollector(registry=registry)
    return registry


@dataclass(frozen=True, slots=True)
class _Basis:
    """The facts by which the parts are opened."""

    settings: Settings
    clock: TrustedClock
    tls: ServedTls
    security: SecurityFiles | None
    """None if everybody may do everything."""

    async def open(
        self,
        stack: AsyncExitStack,
        opened: OpenRegistry | None,
        store: MetadataStore | None,
        instance_id: int | None = None,
    ) -> "_Parts":
        """Return the parts, until the stack ends. Raises as `SecurityFiles.open`."""
        security = schemas = None
        if self.security is not None:
            security = await self.security.open(stack, store, instance_id)
        if opened is not None:
            schemas = RegistryPart(opened, self.settings, self.tls.to_others, security)
            stack.push_async_callback(schemas.close)
        sharding = KnownSharding(self.settings)
        return _Parts(self.settings, self.clock, self.tls, security, schemas, sharding)


@dataclass(frozen=True, slots=True)
class _Parts:
    """The parts of a server besides the service."""

    settings: Settings
    clock: TrustedClock
    tls: ServedTls
    security: Security | None
    """None if everybody may do everything."""
    schemas: RegistryPart | None
    """None without its extra."""
    sharding: KnownSharding

    def options(
        self,
        registry: CollectorRegistry,
        cluster: Cluster | None = None,
    ) -> Options:
        """Return what the service's application is made with."""
        return Options(
            registry=registry,
            clock=self.clock,
            topic_info=self.settings.topic_info,
            callers=Callers(self.settings.own_hosts),
            cluster=cluster,
            sharding=self.sharding,
            access=None if self.security is None else self.security.access,
            certificates=() if self.tls.own is None else self.tls.own.certificates,
        )

    def with_schemas(self, app: Application) -> Application:
        """Return an application with the registry below its prefix, if there is one."""
        return app if self.schemas is None else self.schemas.beside(app)

    def with_console(self, app: Application) -> Application:
        """Return an application with the console, unless it is off or its extra is missing."""
        if self.settings.console == "off" or importlib.util.find_spec("jinja2") is None:
            return app
        from api.console.application import beside  # noqa: PLC0415  an extra

        registry = None if self.schemas is None else self.schemas.schemas
        return beside(app, is_read_only=self.settings.console == "read-only", registry=registry)

    def listeners(self, app: App) -> list[ListeningAddress]:
        """Return where a server listens: for all, and for the registry alone if it is told to."""
        more = () if self.schemas is None else self.schemas.listeners
        return [ListeningAddress(app, self.settings.host, self.settings.port), *more]

    def publish_audit(self, messaging: Messaging | None) -> None:
        """Have the audit's topic written there; None: nowhere for now."""
        if self.security is not None:
            self.security.audited.attach(messaging)


async def _serve(basis: _Basis, on_started: OnStarted) -> None:
    settings, registry = basis.settings, _registry()
    async with AsyncExitStack() as stack:
        opened = await open_registry(settings, basis.clock, stack)
        services = await open_served(
            settings,
            basis.clock,
            registry,
            values=None if opened is None else opened.values,
            may_block_loop=True,
        )
        stack.push_async_callback(services.close)
        parts = await basis.open(stack, opened, services.namespaces.metadata)
        parts.publish_audit(services.messaging)
        options = parts.options(registry)
        app = parts.with_console(create_app(services, settings.limits(), **options))
        await stack.enter_async_context(app.context.watch.at_work())
        if parts.schemas is not None:
            parts.schemas.register(registry)
            parts.schemas.attach(services.messaging)
            parts.schemas.elect()
        await serve_app(
            parts.listeners(parts.with_schemas(app)),
            limits=settings.limits(),
            on_started=on_started,
            on_stopping=services.stop_waiting,
            grace_s=settings.stop_grace_s,
            tls=parts.tls.own,
        )
    _log.info("stopped; the store is closed")


async def _serve_registry(basis: _Basis, on_started: OnStarted) -> None:
    settings, registry = basis.settings, _registry()
    async with AsyncExitStack() as stack:
        opened = await open_registry(settings, basis.clock, stack)
        store = await _shared_metadata(settings, stack) if basis.security is not None else None
        number = None if store is None else await next_instance_id(store)
        parts = await basis.open(stack, opened, store, number)
        schemas = parts.schemas
        assert schemas is not None
        schemas.register(registry)
        app = create_storeless(settings.limits(), schemas.check_ready, **parts.options(registry))
        schemas.attach_to(settings.registry_log)
        schemas.elect()
        await serve_app(
            parts.listeners(parts.with_schemas(app)),
            limits=settings.limits(),
            on_started=on_started,
            on_stopping=_nothing,
            grace_s=settings.stop_grace_s,
            tls=parts.tls.own,
        )
    _log.info("stopped; this server does not serve schemas any more")


async def _shared_metadata(settings: Settings, stack: AsyncExitStack) -> MetadataStore | None:
    """Return the metadata store that settings name, open until the stack ends; None without one."""
    if not settings.has_shared_metadata:
        return None
    store = await open_metadata(settings.metadata)
    stack.push_async_callback(store.close)
    return store


async def _serve_in_cluster(basis: _Basis, on_started: OnStarted) -> None:
    settings = basis.settings
    async with AsyncExitStack() as stack:
        opened = await open_registry(settings, basis.clock, stack)
        metadata = await open_metadata(settings.metadata)
        stack.push_async_callback(metadata.close)
        instance_id = await next_instance_id(metadata)
        parts = await basis.open(stack, opened, metadata, instance_id)
        security, schemas = parts.security, parts.schemas
        instance = Instance(
            id=instance_id,
            address=settings.advertise,
            version=__version__,
            since_ms=parts.clock.now_ms(),
            store_format=STORE_FORMAT,
            features=FEATURES,
            boot="" if security is None else security.boot,
        )
        sealer = None if security is None else security.sealer
        forwarder = Forwarder(instance.id, parts.tls.to_others, sealer)
        stack.push_async_callback(forwarder.close)
        member = Member(
            metadata,
            instance,
            of_store=settings.store_shared,
            lease_s=settings.lease_s,
            look=look_at(settings.store, settings, look_s_max(settings.lease_s)),
            time=parts.clock,
        )
        registry = _registry()
        if schemas is not None:
            schemas.register(registry)
        options = parts.options(registry, member)
        standby = create_standby(forwarder, settings.limits(), **options)
        app = ClusterApp(parts.with_schemas(standby))
        values = None if opened is None else opened.values
        part = _Part(forwarder, parts, values, member, app)
        await member.open(part.lead, part.heard)
        stack.push_async_callback(member.close)
        if schemas is not None:
            schemas.elect()
        await serve_app(
            parts.listeners(app),
            limits=settings.limits(),
            on_started=on_started,
            on_stopping=part.stop_waiting,
            grace_s=settings.stop_grace_s,
            tls=parts.tls.own,
        )
    _log.info("stopped; this server has left its cluster")


class _Part:
    """The part of this server in its cluster: it opens the services, or forwards."""

    def __init__(
        self,
        forwarder: Forwarder,
        parts: _Parts,
        values: PayloadValues | None,
        member: Member,
        app: ClusterApp,
    ) -> None:
        self._settings = parts.settings
        self._values = values
        self._forwarder = forwarder
        self._parts = parts
        self._member = member
        self._app = app
        self._schemas = parts.schemas
        self._is_leading = False
        self._stop_waiting: Callable[[], None] = _nothing

    @asynccontextmanager
    async def lead(self, lease: Lease) -> AsyncIterator[None]:
        """Open the services, and serve by them."""
        settings, registry = self._settings, _registry()
        services = await open_served(
            settings,
            self._parts.clock,
            registry,
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
