"""The registry's part of a server: what is opened for it, beside the service or without one."""

import asyncio
import importlib.util
import logging
import ssl
from collections.abc import Sequence
from pathlib import Path

from prometheus_client import CollectorRegistry

from tms.client.access import Access
from tms.client.credentials import credentials_of
from tms.client.remote_services import RemoteServices
from tms.core.clock import Clock
from tms.core.errors import NoLeader
from tms.core.extras import install_command
from tms.core.messaging import Messaging
from tms.core.supervision import supervised
from tms.metadata.interface import MetadataStore
from tms.registry.checker import ProcessChecker
from tms.registry.ids import StoreIds
from tms.registry.log import REACHED_S_MAX, WayToLog
from tms.registry.mastership import RETRY_S, Mastership
from tms.registry.members import Announcement, MembersElection
from tms.registry.metrics import SchemaMetrics
from tms.registry.payload_values import RegistryValues
from tms.registry.refusal import RegistryError
from tms.registry.service import Registry, RegistryOptions
from tms.registry.store_election import StoreElection
from tms.server.security_part import SecurityPart
from tms.server.stores import importing, open_metadata
from tms.settings import Settings

with importing("api"):
    from api.cluster.forwarding import Forwarder
    from api.http.application import Application
    from api.http.callers import Callers
    from api.http.metrics import RestMetrics
    from api.http.server import ListeningAddress
    from api.registry.application import create_registry_app
    from api.registry.forwarding import PREFIX, MasterForwarding

_log = logging.getLogger(__name__)


class RegistryPart:
    """A registry that is served, and the way to its log."""

    def __init__(
        self,
        settings: Settings,
        clock: Clock,
        tls: ssl.SSLContext | None = None,
        security: SecurityPart | None = None,
    ) -> None:
        """Open nothing yet. Its log is reached by `tls`, and not before it is led there.

        Raises `ValueError` for a token file that cannot be used.
        """
        options = RegistryOptions(
            settings.registry_topic_id,
            settings.schema_limits(),
            eventual_lists=settings.registry_eventual_lists,
        )
        self._way = WayToLog()
        checker = ProcessChecker(settings.registry_check_s_max)
        self._clock = clock
        self.registry = Registry(self._way, options, clock, checker)
        self.values = RegistryValues(self.registry, ProcessChecker(settings.registry_check_s_max))
        """Checks payloads in separate processes, so that they do not delay the checks of
        schemas."""
        self._settings = settings
        self._tls = tls
        self._security = security
        token_file = settings.registry_token_file
        self._credentials = credentials_of(Path(token_file)) if token_file else None
        self._mastership: Mastership | None = None
        self._forwarder: Forwarder | None = None
        self._metadata: MetadataStore | None = None
        self._metrics = RestMetrics("tms_registry_http")
        self._app = create_registry_app(
            self.registry,
            settings.limits(),
            self._metrics,
            self._forwarding() if settings.registry_mode == "master" else None,
            callers=Callers(settings.own_hosts),
            access=None if security is None else security.registry_access,
        )
        self._address = settings.registry_address
        self._remote: RemoteServices | None = None
        self._url: str | None = None
        self._boot = ""
        self._tasks: set[asyncio.Task[None]] = set()
        self._reading: asyncio.Task[None] | None = None

    def _forwarding(self) -> MasterForwarding:
        """Return the way of writes to the master; this server is no master yet."""
        settings = self._settings
        assert settings.registry_url is not None
        self._mastership = Mastership(
            self.registry, settings.registry_url, is_eligible=settings.registry_master_eligible
        )
        self._forwarder = Forwarder(0, self._tls)
        return MasterForwarding(self.registry, self._mastership, self._forwarder)

    async def elect(self) -> None:
        """Take part in electing a master, if there is to be one.

        Raises as `open_metadata`.
        """
        settings, mastership = self._settings, self._mastership
        if mastership is None:
            return
        if self._forwarder is not None and self._security is not None:
            self._forwarder.sealer = self._security.sealer
        if not settings.elects_by_metadata:
            announcement = Announcement(mastership.address, mastership.is_eligible)
            session_s = settings.registry_session_s
            mastership.take_part(
                MembersElection(self._way, announcement, self._clock, session_s=session_s)
            )
            return
        store = self._metadata = await open_metadata(settings.metadata)
        namespace = settings.registry_namespace
        self.registry.take_ids_from(StoreIds(store, namespace))
        is_eligible = mastership.is_eligible
        mastership.take_part(
            StoreElection(store, namespace, mastership.address, is_eligible=is_eligible)
        )

    def beside(self, main: Application) -> Application:
        """Return `main` with the registry below its prefix."""
        main.routes.mount_whole(PREFIX, self._app.routes)
        return main

    @property
    def listeners(self) -> Sequence[ListeningAddress]:
        """The registry's own address, if it has one."""
        return [] if self._address is None else [ListeningAddress(self._app, *self._address)]

    def register(self, metrics: CollectorRegistry) -> None:
        """Show the registry's metrics beside others."""
        metrics.register(self._metrics)
        metrics.register(SchemaMetrics(self.registry))

    # The way to the log.

    def attach(self, messaging: Messaging) -> None:
        """Reach the log in this process."""
        self._detach()
        self._way.attach(messaging)
        self._start_reading()

    def attach_to(self, url: str | None, boot: str = "") -> None:
        """Reach the log at the server of a URL; None: nowhere for now.

        `boot` says which process of it that is; empty: that is not known.
        """
        if (url, boot) == (self._url, self._boot) and self._remote is not None:
            return
        self._detach()
        if url is None:
            return
        self._url, self._boot = url, boot
        # Retries are the log's own: where it is may change in between.
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
        """Return as whom the log is reached: by a token if there is one, else as this server."""
        signing = None
        if self._credentials is None and self._security is not None:
            signing = self._security.signing(url, boot)
        allow_plaintext = self._settings.allow_plaintext
        return Access(self._credentials, self._tls, signing, allow_plaintext=allow_plaintext)

    def _detach(self) -> None:
        remote, self._remote, self._url = self._remote, None, None
        self._way.detach()
        if remote is not None:
            self._keep(asyncio.create_task(remote.close()))

    def _start_reading(self) -> None:
        """Read what there is, so that the first request need not wait for that."""
        is_reading = self._reading is not None and not self._reading.done()
        if not self.registry.log.readings and not is_reading:
            self._reading = supervised("reading the schemas first", self._read)

    async def _read(self) -> None:
        while not self.registry.log.readings:
            try:
                await self.registry.log.read_to_end()
            except RegistryError as error:
                _log.warning("the schemas have not been read yet: %s", error)
                await asyncio.sleep(RETRY_S)

    def _keep(self, task: "asyncio.Task[None]") -> None:
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    def check_ready(self) -> None:
        """Raise `NoLeader` if no schemas could be told yet."""
        if not self.registry.log.readings:
            raise NoLeader(reason="the log of schemas has not been read yet")

    async def close(self) -> None:
        """Be no master, and reach the log no more."""
        if self._mastership is not None:
            await self._mastership.close()
        self._detach()
        if self._forwarder is not None:
            await self._forwarder.close()
        if self._metadata is not None:
            await self._metadata.close()
        if self._reading is not None:
            self._reading.cancel()
            self._tasks.add(self._reading)
        await asyncio.gather(*self._tasks, return_exceptions=True)


def open_registry(
    settings: Settings,
    clock: Clock,
    tls: ssl.SSLContext | None = None,
    security: SecurityPart | None = None,
) -> RegistryPart | None:
    """Return the registry that settings ask for; None if its extra is not installed.

    Raises `ValueError` if it is not, and was asked for.
    """
    if importlib.util.find_spec("avro") is not None:
        return RegistryPart(settings, clock, tls, security)
    if settings.registry_listen or settings.registry_log:
        raise ValueError(f"the registry needs more: {install_command('registry')}")
    return None
