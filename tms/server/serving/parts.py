"""The parts of a server besides its service, and the facts by which they are opened."""

import importlib.util
from collections.abc import Callable
from contextlib import AsyncExitStack
from dataclasses import dataclass

from prometheus_client import CollectorRegistry, GCCollector, PlatformCollector, ProcessCollector

from tms.cluster.presence import Presence
from tms.core.cluster import Cluster
from tms.core.messaging import Messaging
from tms.core.payload_values import PayloadValues
from tms.core.shards import Sharding
from tms.core.trusted_clock import TrustedClock
from tms.metadata.interface import MetadataStore
from tms.server.registry_part import OpenRegistry, RegistryPart
from tms.server.security_part import Security, SecurityFiles, ServedTls
from tms.server.stores import importing
from tms.settings import Settings

with importing("api"):
    from api.cluster.forwarding import Forwarder
    from api.http.app import App
    from api.http.application import Application
    from api.http.callers import Callers
    from api.http.context import Options
    from api.http.server import ListeningAddress

OnStarted = Callable[..., None]
"""Is told the URL, and the registry's own if it has one."""


def process_metrics() -> CollectorRegistry:
    """Return a registry that has the process's own metrics."""
    registry = CollectorRegistry()
    GCCollector(registry=registry)
    ProcessCollector(registry=registry)
    PlatformCollector(registry=registry)
    return registry


@dataclass(frozen=True, slots=True)
class Basis:
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
    ) -> "Parts":
        """Return the parts, until the stack ends. Raises as `SecurityFiles.open`."""
        security = schemas = None
        if self.security is not None:
            security = await self.security.open(stack, store, instance_id)
        if opened is not None:
            schemas = RegistryPart(opened, self.settings, self.tls.to_others, security)
            stack.push_async_callback(schemas.close)
        return Parts(self.settings, self.clock, self.tls, security, schemas)


@dataclass(frozen=True, slots=True)
class Parts:
    """The parts of a server besides the service."""

    settings: Settings
    clock: TrustedClock
    tls: ServedTls
    security: Security | None
    """None if everybody may do everything."""
    schemas: RegistryPart | None
    """None without its extra."""

    def options(
        self,
        registry: CollectorRegistry,
        cluster: Cluster | None = None,
        sharding: Sharding | None = None,
    ) -> Options:
        """Return what the service's application is made with."""
        return Options(
            registry=registry,
            clock=self.clock,
            topic_info=self.settings.topic_info,
            callers=Callers(self.settings.own_hosts),
            cluster=cluster,
            sharding=sharding,
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


@dataclass(frozen=True, slots=True)
class Joined:
    """A server that is about to take part in its cluster."""

    parts: Parts
    presence: Presence
    values: PayloadValues | None
    """Checks and decodes values; None if no registry is installed."""
    on_started: OnStarted

    def forwarder(self) -> Forwarder:
        """Return a forwarder to leaders; close it when done."""
        security = self.parts.security
        sealer = None if security is None else security.sealer
        return Forwarder(self.presence.instance.id, self.parts.tls.to_others, sealer)
