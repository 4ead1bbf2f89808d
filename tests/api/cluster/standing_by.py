"""A server that stands by, behind a socket, and the real leader to which it forwards."""

import asyncio
from collections.abc import AsyncIterator

import httpx
import pytest

from api.app import create_standby
from api.cluster.forwarding import Forwarder
from api.cluster.standby import ClusterApp
from api.http.callers import Callers
from tests.api.rest import Live, Wire, live, serving
from tms.core.cluster import ClusterState, Instance, Role
from tms.core.findings import Finding
from tms.core.hosts import networks_of
from tms.core.limits import Limits

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
    """A cluster that stands as it does."""

    async def state(self) -> ClusterState:
        return STATE

    def findings(self) -> list[Finding]:
        return []


class Second:
    """A server that stands by, and a client of it."""

    def __init__(self, forwarder: Forwarder, app: ClusterApp, http: httpx.AsyncClient) -> None:
        self.forwarder = forwarder
        self.app = app
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
    """It trusts this machine as a proxy."""
    forwarder, callers = Forwarder(ID), Callers(proxies=networks_of("127.0.0.1"))
    app = ClusterApp(create_standby(forwarder, LIMITS, cluster=Known(), callers=callers))
    forwarder.forward_to(f"http://127.0.0.1:{leader.port}")
    async with (
        serving(app, LIMITS, grace_s=0.5) as (url, _),
        httpx.AsyncClient(
            base_url=url, headers={"accept-encoding": "identity"}, trust_env=False, verify=False
        ) as http,
    ):
        yield Second(forwarder, app, http)
    await forwarder.close()
