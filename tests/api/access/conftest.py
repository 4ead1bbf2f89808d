"""A server that lets in whom it knows, and one that stands by and passes on, sealed, who asked."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass

import httpx
import pytest
from prometheus_client import CollectorRegistry

from api.app import create_app, create_standby
from api.cluster.forwarding import Forwarder
from api.cluster.standby import ClusterApp
from api.http.access_control import AccessControl
from tests.api.cluster.standing_by import ID, LIMITS, Known
from tests.api.doors import Doors, bearer
from tests.api.rest import Live, live, serving
from tms.metadata.host import MetadataHost
from tms.security.forward_keys import ForwardKeys
from tms.security.forwards import Opener, Sealer

NS = "/v1/namespaces/ns"


@dataclass(frozen=True)
class Guarded:
    """Both servers, and clients of them that keep their connections."""

    doors: Doors
    served: Live
    access: AccessControl
    keys: ForwardKeys
    url: str
    standby_url: str
    http: httpx.AsyncClient
    """Of the server itself."""
    by_standby: httpx.AsyncClient

    def way(self, name: str) -> httpx.AsyncClient:
        return self.http if name == "itself" else self.by_standby

    async def headers(self, principal: str) -> dict[str, str]:
        return bearer(await self.doors.token(principal))


@asynccontextmanager
async def guarding(*, is_required: bool = True) -> AsyncIterator[Guarded]:
    doors = Doors()
    await doors.open()
    keys = ForwardKeys(MetadataHost().open_session(), doors.clock)
    await keys.open()
    async with live(own=True) as served:
        for topic in ("a", "b", "t"):
            await served.create(f"{NS}/topics/{topic}")
        access = doors.access(is_required=is_required)
        app = create_app(served.services, LIMITS, registry=CollectorRegistry(), access=access)
        forwarder = Forwarder(ID)
        forwarder.sealer = Sealer(keys, str(ID), doors.clock)
        standby = create_standby(
            forwarder,
            Known(),
            LIMITS,
            registry=CollectorRegistry(),
            access=doors.access(is_required=is_required),
        )
        async with (
            serving(app, LIMITS) as (url, _),
            serving(ClusterApp(standby), LIMITS) as (standby_url, _),
            httpx.AsyncClient(base_url=url, trust_env=False) as http,
            httpx.AsyncClient(base_url=standby_url, trust_env=False) as by_standby,
        ):
            access.open_forwards(Opener(keys, url, doors.clock))
            forwarder.lead_to(url)
            yield Guarded(doors, served, access, keys, url, standby_url, http, by_standby)
            await forwarder.close()
    await keys.close()
    await doors.grants.close()


@pytest.fixture
async def guarded(anyio_backend: object) -> AsyncIterator[Guarded]:
    async with guarding() as both:
        yield both


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"
