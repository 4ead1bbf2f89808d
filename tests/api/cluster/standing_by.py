"""A server of a cluster on one store, behind a socket, and the real leader to which it forwards."""

import asyncio
from collections.abc import AsyncIterator
from typing import Unpack

import httpx
import pytest
from prometheus_client import CollectorRegistry

from api.app import create_app
from api.cluster.forwarding import Forwarder
from api.cluster.routing import ShardRouting
from api.console.application import beside
from api.http.application import Application
from api.http.context import Options
from api.http.door.callers import Callers
from api.registry.forwarding import PREFIX
from tests.api.rest import Live, Wire, live, serving
from tms.client.remote.remote_services import RemoteServices
from tms.core.limits import Limits
from tms.core.runtime.trusted_clock import trusted
from tms.core.services.cluster import ClusterState, Instance, Role
from tms.core.services.findings import Finding
from tms.core.text.hosts import networks_of
from tms.core.values.shards import Sharding
from tms.namespaces.store import UndeclaredNamespaces
from tms.server.shard import Process
from tms.server.sharded import ShardedServices, services_of_shards
from tms.settings import Settings

ID = 7
LIMITS = Limits(request_body_s_max=1.0)
STATE = ClusterState(
    id=ID,
    role=Role.STANDBY,
    leader=4,
    token=2,
    instances=[Instance(id=4, address="http://a:1", version="1", since_ms=5)],
)


class Known:
    """A cluster with a fixed state."""

    async def state(self) -> ClusterState:
        return STATE

    def findings(self) -> list[Finding]:
        return []


class Following:
    """The parts of a server that leads nothing yet."""

    def __init__(
        self,
        forwarder: Forwarder,
        limits: Limits = LIMITS,
        *,
        hold_s: float = 0.0,
        schemas: Application | None = None,
        **options: Unpack[Options],
    ) -> None:
        """`schemas` is the application of its registry, if it has one."""
        self.forwarder = forwarder
        registry = options.setdefault("registry", CollectorRegistry())
        clock, namespaces = trusted(options.get("clock"), limits), UndeclaredNamespaces(limits)
        process = Process(limits, clock, registry, namespaces, None, False)
        self.services: ShardedServices = services_of_shards(Sharding(1), process, Settings())
        self.routing = ShardRouting(
            Sharding(1), [forwarder], hold_s=hold_s, held_bytes_max=limits.queue_bytes_max
        )
        app = beside(create_app(self.services, limits, **options))
        if schemas is not None:
            app.routes.mount_whole(PREFIX, schemas.routes)
        self.app: Application = self.routing.install(app)
        self._asked: list[RemoteServices] = []

    def hear(self, address: str) -> None:
        """Know who leads."""
        self.routing.set_leader(0, address, "")
        asked = RemoteServices(address, timeout_s=5, retry_for_s=0, compress=False)
        self._asked.append(asked)
        self.services.places.set_remote(0, asked, asked)

    async def close(self) -> None:
        for asked in self._asked:
            await asked.close()
        await self.forwarder.close()


class Second:
    """A follower, and a client of it."""

    def __init__(self, following: Following, http: httpx.AsyncClient) -> None:
        self.forwarder = following.forwarder
        self.routing = following.routing
        self.services = following.services
        self.http = http

    async def connect(self) -> Wire:
        url = self.http.base_url
        return Wire(*await asyncio.open_connection(url.host, url.port))


@pytest.fixture
async def leader(anyio_backend: str) -> AsyncIterator[Live]:
    async with live(own=True) as leading:
        yield leading


@pytest.fixture
async def second(leader: Live) -> AsyncIterator[Second]:
    """Start a follower that trusts this machine as a proxy, and a client of it."""
    forwarder, callers = Forwarder(ID), Callers(proxies=networks_of("127.0.0.1"))
    following = Following(forwarder, cluster=Known(), callers=callers)
    following.hear(f"http://127.0.0.1:{leader.port}")
    async with (
        serving(following.app, LIMITS, grace_s=0.5) as (url, _),
        httpx.AsyncClient(
            base_url=url, headers={"accept-encoding": "identity"}, trust_env=False, verify=False
        ) as http,
    ):
        yield Second(following, http)
    await following.close()
