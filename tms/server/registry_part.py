"""The registry's part of a server, with the service or without it."""

import asyncio
import importlib.util
import logging
import ssl
from collections.abc import Sequence
from contextlib import AsyncExitStack
from pathlib import Path
from typing import NamedTuple

from prometheus_client import CollectorRegistry

from tms.client.remote.access import Access
from tms.client.remote.credentials import Credentials, credentials_of
from tms.client.remote.remote_services import RemoteServices
from tms.core.errors import NoLeader
from tms.core.runtime.clock import Clock
from tms.core.runtime.extras import install_command
from tms.core.runtime.supervision import supervised
from tms.core.services.messaging import Messaging
from tms.registry.checking.checker import ProcessChecker
from tms.registry.in_process import RegistrySchemas
from tms.registry.log.mastership import RETRY_S, Election, Mastership
from tms.registry.log.members import Announcement, MembersElection
from tms.registry.log.metrics import SchemaMetrics
from tms.registry.log.schema_log import REACHED_S_MAX, SchemaLog, WayToLog
from tms.registry.log.service import Registry
from tms.registry.log.store_election import StoreElection
from tms.registry.payload_values import RegistryValues
from tms.registry.state.ids import StoreIds
from tms.registry.state.refusal import RegistryError
from tms.server.security_part import Security, Signing
from tms.server.stores import importing, open_metadata
from tms.settings import Settings

with importing("api"):
    from api.cluster.forwarding import Forwarder
    from api.http.application import Application
    from api.http.door.callers import Callers
    from api.http.listener.server import ListeningAddress
    from api.http.metrics import RestMetrics
    from api.registry.application import create_registry_app
    from api.registry.forwarding import PREFIX, MasterForwarding

_log = logging.getLogger(__name__)


class OpenRegistry(NamedTuple):
    """An open registry that is not served yet."""

    registry: Registry
    values: RegistryValues
    """Checks payloads in separate processes, so that they do not delay the checks of schemas."""
    way: WayToLog
    mastership: Mastership | None
    """None if every server writes."""
    credentials: Credentials | None
    """The credentials for the log; None for none, or for those of this server."""


async def open_registry(
    settings: Settings, clock: Clock, stack: AsyncExitStack
) -> OpenRegistry | None:
    """Return the registry of the settings, until the stack ends; None without its extra.

    It reaches its log once `RegistryPart.attach` or `attach_to` is called. Raises `ValueError` if a
    required extra is not installed, and for a token file that cannot be used, and as
    `open_metadata` does.
    """
    if importlib.util.find_spec("avro") is None:
        if settings.registry_listen or settings.registry_log:
            raise ValueError(f"the registry needs more: {install_command('registry')}")
        return None
    token_file = settings.registry_token_file
    credentials = credentials_of(Path(token_file)) if token_file else None
    way = WayToLog()
    log = SchemaLog(way, settings.registry_topic_id, clock)
    election, ids = await _election(settings, way, clock, stack)
    mastership = None
    if election is not None:
        is_eligible = settings.registry_master_eligible
        mastership = Mastership(log, election, settings.registry_url or "", is_eligible=is_eligible)
    checker = ProcessChecker(settings.registry_check_s_max)
    registry = Registry(log, settings.schema_limits(), checker, mastership, ids)
    values = RegistryValues(registry, ProcessChecker(settings.registry_check_s_max))
    return OpenRegistry(registry, values, way, mastership, credentials)


async def _election(
    settings: Settings, way: WayToLog, clock: Clock, stack: AsyncExitStack
) -> tuple[Election | None, StoreIds | None]:
    """Return the election of a master and the source of its ids; None if there is none."""
    if settings.registry_mode != "master":
        return None, None
    url, is_eligible = settings.registry_url, settings.registry_master_eligible
    assert url is not None
    if not settings.elects_by_metadata:
        session_s = settings.registry_session_s
        announcement = Announcement(url, is_eligible)
        return MembersElection(way, announcement, clock, session_s=session_s), None
    store, namespace = await open_metadata(settings.metadata), settings.registry_namespace
    stack.push_async_callback(store.close)
    election = StoreElection(store, namespace, url, is_eligible=is_eligible)
    return election, StoreIds(store, namespace)


class RegistryPart:
    """A served registry, with access to its log."""

    def __init__(
        self,
        opened: OpenRegistry,
        settings: Settings,
        tls: ssl.SSLContext | None = None,
        security: Security | None = None,
    ) -> None:
        """Serve `opened`. It reaches its log over `tls`, once attached."""
        self.registry, _, self._way, self._mastership, self._credentials = opened
        self.schemas = RegistrySchemas(self.registry)
        """For callers that may see all schemas, or that check permissions for each."""
        self._sealer = None if security is None else security.sealer
        self._forwarder = Forwarder(0, tls, self._sealer)
        self._settings = settings
        self._tls = tls
        self._metrics = RestMetrics("tms_registry_http")
        forwarding = None
        if self._mastership is not None:
            forwarding = MasterForwarding(self.registry, self._mastership, self._forwarder)
        self._app = create_registry_app(
            self.registry,
            settings.limits(),
            self._metrics,
            forwarding,
            callers=Callers(settings.own_hosts, settings.proxies, settings.origins),
            access=None if security is None else security.registry_access,
        )
        self._address = settings.registry_address
        self._remote: RemoteServices | None = None
        self._url: str | None = None
        self._boot = ""
        self._tasks: set[asyncio.Task[None]] = set()
        self._reading: asyncio.Task[None] | None = None

    def elect(self) -> None:
        """Take part in the election of a master, if there is one."""
        if self._mastership is not None:
            self._mastership.take_part(self.registry)

    def beside(self, main: Application) -> Application:
        """Return `main` with the registry below its prefix."""
        main.routes.mount_whole(PREFIX, self._app.routes)
        return main

    @property
    def listeners(self) -> Sequence[ListeningAddress]:
        """The registry's own address, if it has one."""
        return [] if self._address is None else [ListeningAddress(self._app, *self._address)]

    def register(self, metrics: CollectorRegistry) -> None:
        """Add the registry's metrics to `metrics`."""
        metrics.register(self._metrics)
        metrics.register(SchemaMetrics(self.registry))

    # Access to the log.

    def attach(self, messaging: Messaging) -> None:
        """Reach the log in this process."""
        self._detach()
        self._way.attach(messaging)
        self._start_reading()

    def attach_to(self, url: str | None, boot: str = "") -> None:
        """Reach the log at the server of a URL, or at no server for now if it is None.

        `boot` identifies its process; empty if unknown.
        """
        if (url, boot) == (self._url, self._boot) and self._remote is not None:
            return
        self._detach()
        if url is None:
            return
        self._url, self._boot = url, boot
        # The log retries by itself, because its server may change in between.
        self._remote = RemoteServices(
            url,
            timeout_s=REACHED_S_MAX,
            retry_for_s=0,
            compress=False,
            access=self._access_to(url, boot),
        )
        self._way.attach(self._remote.messaging)
        self._start_reading()

    def _access_to(self, url: str, boot: str) -> Access:
        """Return the credentials for the log: a token if there is one, or else this server's."""
        signing = None
        if self._credentials is None and self._sealer is not None:
            signing = Signing(self._sealer, url, boot)
        allow_plaintext = self._settings.allow_plaintext
        return Access(self._credentials, self._tls, signing, allow_plaintext=allow_plaintext)

    def _detach(self) -> None:
        remote, self._remote, self._url = self._remote, None, None
        self._way.attach(None)
        if remote is not None:
            self._keep(asyncio.create_task(remote.close()))

    def _start_reading(self) -> None:
        """Read the schemas, so that the first request need not wait for them."""
        is_reading = self._reading is not None and not self._reading.done()
        if not self.registry.log.readings and not is_reading:
            self._reading = supervised("reading the schemas first", self._read)

    async def _read(self) -> None:
        while not self.registry.log.readings:
            try:
                await self.registry.log.read_to_end()
            except RegistryError as error:
                _log.warning("cannot read the schemas yet: %s", error)
                await asyncio.sleep(RETRY_S)

    def _keep(self, task: "asyncio.Task[None]") -> None:
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    def check_ready(self) -> None:
        """Raise `NoLeader` if the schemas have not been read yet."""
        if not self.registry.log.readings:
            raise NoLeader(reason="the log of schemas has not been read yet")

    async def close(self) -> None:
        """Stop being master, and stop reaching the log."""
        if self._mastership is not None:
            await self._mastership.close()
        self._detach()
        await self._forwarder.close()
        if self._reading is not None:
            self._reading.cancel()
            self._tasks.add(self._reading)
        await asyncio.gather(*self._tasks, return_exceptions=True)
