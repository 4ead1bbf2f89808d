"""The parts of a server other than its service, and the data to open them."""

import importlib.util
import ssl
from collections.abc import Callable
from contextlib import AsyncExitStack
from dataclasses import dataclass

from prometheus_client import (
    CollectorRegistry,
    Counter,
    Gauge,
    GCCollector,
    PlatformCollector,
    ProcessCollector,
)

from tms.cluster.agreement import COMPARED, REFUSED
from tms.cluster.presence import Presence
from tms.cluster.store_watch import look_s_max
from tms.core.runtime.trusted_clock import TrustedClock
from tms.core.services.cluster import INSTANCE, Cluster, Instance
from tms.core.services.messaging import Messaging
from tms.core.services.payload_values import PayloadValues
from tms.core.values.shards import Sharding
from tms.metadata.interface import MetadataStore
from tms.outgoing.upstream import Upstream
from tms.server.loop_steps import OF_PROCESS
from tms.server.registry_part import OpenRegistry, RegistryPart
from tms.server.security_part import Security, SecurityFiles, ServedTls
from tms.server.stores import free_shard, importing
from tms.settings import Settings

with importing("api"):
    from api.cluster.forwarding import Forwarder
    from api.console.browser_sessions import BrowserSessions
    from api.http.application import Application
    from api.http.context import Options
    from api.http.door.callers import Callers
    from api.http.listener.server import ListeningAddress

_OK = 200
OnStarted = Callable[..., None]
"""Called with the server's URL, and the registry's own if it has one."""


def process_metrics() -> CollectorRegistry:
    """Return a registry that has the process's own metrics."""
    registry = CollectorRegistry()
    GCCollector(registry=registry)
    ProcessCollector(registry=registry)
    PlatformCollector(registry=registry)
    registry.register(OF_PROCESS)
    return registry


def fenced_writes(registry: CollectorRegistry) -> Counter:
    """Return a counter of writes not acknowledged because a later leader had begun.

    It lives as long as the process, because a shard's own metrics end with it.
    """
    return Counter(
        "tms_cluster_fenced_writes",
        "Writes that were not acknowledged, because a later leader of the shard had begun.",
        registry=registry,
    )


def agreed_settings(settings: Settings, *, has_registry: bool) -> dict[str, str | int]:
    """Return the settings in which the servers of a cluster agree, by name."""
    names = [name for name in REFUSED if has_registry or not name.startswith("registry_")]
    return {name: getattr(settings, name) for name in (*names, *COMPARED)}


class Peers:
    """Checks the other servers of a cluster at their addresses, each time over a new connection."""

    def __init__(self, tls: ssl.SSLContext | None) -> None:
        """Check servers at https:// with `tls`, by default with the machine's certificates."""
        self._tls = tls

    async def ask(self, other: Instance) -> bool:
        """Return whether a server answers at its address. Raises as `Upstream.send` does."""
        way = Upstream(other.address, self._tls)
        try:
            answer = await way.send("GET", way.path + b"/health", b"", None, is_counted=True)
            async for _ in answer.aiter_raw():
                pass
        finally:
            way.close()
        answering = answer.value(INSTANCE.encode())
        return answer.status_code == _OK and answering in (None, b"%d" % other.id)


def quick_settings(settings: Settings) -> Settings:
    """Return settings with which HBase is called once, with the time limit of a check."""
    quick = {"hbase_retry_s": 0.0, "hbase_timeout_s": look_s_max(settings.lease_s)}
    return settings.model_copy(update=quick)


def show_peers(registry: CollectorRegistry, presence: Presence) -> None:
    """Show how many servers this one does not reach at their addresses."""
    description = "Servers of the cluster that this one does not reach at their addresses."
    gauge = Gauge("tms_cluster_unreached_servers", description, registry=registry)
    gauge.set_function(lambda: presence.peers.unreached)


@dataclass(frozen=True, slots=True)
class Basis:
    """The data to open the parts."""

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
        """Return the parts, until the stack ends. Raises as `SecurityFiles.open` does."""
        security = schemas = None
        if self.security is not None:
            security = await self.security.open(stack, store, instance_id)
        if opened is not None:
            schemas = RegistryPart(opened, self.settings, self.tls.to_others, security)
            stack.push_async_callback(schemas.close)
        sessions = BrowserSessions(self.clock)
        return Parts(self.settings, self.clock, self.tls, security, schemas, sessions, instance_id)


@dataclass(frozen=True, slots=True)
class Parts:
    """The parts of a server other than the service."""

    settings: Settings
    clock: TrustedClock
    tls: ServedTls
    security: Security | None
    """None if everybody may do everything."""
    schemas: RegistryPart | None
    """None without its extra."""
    browser_sessions: BrowserSessions
    """The sign-ins at this server's console, whichever server leads."""
    instance_id: int | None = None
    """The number of this server in its cluster; None if it is alone."""

    def options(
        self,
        registry: CollectorRegistry,
        cluster: Cluster | None = None,
        sharding: Sharding | None = None,
    ) -> Options:
        """Return the options of the service's application."""
        return Options(
            registry=registry,
            clock=self.clock,
            topic_info=self.settings.topic_info,
            callers=Callers(self.settings.own_hosts, self.settings.proxies, self.settings.origins),
            cluster=cluster,
            sharding=sharding,
            instance_id=self.instance_id,
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
        return beside(
            app,
            is_read_only=self.settings.console == "read-only",
            registry=registry,
            sessions=self.browser_sessions,
        )

    def listeners(self, app: Application) -> list[ListeningAddress]:
        """Return the server's addresses: one for all, and the registry's own if there is one."""
        more = () if self.schemas is None else self.schemas.listeners
        return [ListeningAddress(app, self.settings.host, self.settings.port), *more]

    def publish_audit(self, messaging: Messaging | None) -> None:
        """Write the audit's topic there, or nowhere for now if it is None."""
        if self.security is not None:
            self.security.audited.attach(messaging)


@dataclass(frozen=True, slots=True)
class Joined:
    """A server that is about to join its cluster."""

    parts: Parts
    presence: Presence
    values: PayloadValues | None
    """Checks and decodes values; None if no registry is installed."""
    on_started: OnStarted

    def free(self, store: str, token: int) -> bool:
        """Free a store, or a shard, from its leaders up to a token; return whether there were any.

        Blocks no longer than a check of the store. Raises as `open_tables` does.
        """
        return free_shard(store, quick_settings(self.parts.settings), token)

    def forwarder(self) -> Forwarder:
        """Return a forwarder to leaders; close it when done."""
        security = self.parts.security
        sealer = None if security is None else security.sealer
        return Forwarder(self.presence.instance.id, self.parts.tls.to_others, sealer)
