"""Stores and sessions on real metadata servers (tests/servers/shared_servers.py)."""

import asyncio
import uuid
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import suppress
from typing import Any

import pytest
from aetcd import rpc
from kazoo.client import KazooClient

from dev.processes import Servers
from tms.core.errors import MetadataUnavailable
from tms.metadata.etcd.session import Etcd
from tms.metadata.etcd.thread import in_grpc_loop
from tms.metadata.interface import MetadataStore
from tms.metadata.remote import RemoteStore
from tms.server.stores import open_metadata

Open = Callable[..., Awaitable[MetadataStore]]
"""Opens a session: of the first servers by default, with the options given."""


@pytest.fixture(params=["zk", "etcd"])
def remote(request: pytest.FixtureRequest) -> str:
    """The URL of an empty store on a server."""
    name = "zookeeper" if request.param == "zk" else "etcd"
    return fresh_url(request.param, request.getfixturevalue(name))


ONE_IN_THE_GATE = pytest.mark.parametrize(
    "remote", [pytest.param("zk", marks=pytest.mark.slow), "etcd"], indirect=True
)
"""For a test that waits for seconds: on both kinds of server only with `--all`."""


@pytest.fixture
async def sessions_at() -> AsyncIterator[Open]:
    """Return a function that opens sessions, which are closed at the end."""
    opened: list[MetadataStore] = []

    async def open_at(url: str, session_timeout_s: float = 30) -> MetadataStore:
        store = await open_metadata(f"{url}?session_timeout_s={session_timeout_s}")
        opened.append(store)
        return store

    yield open_at
    for store in opened:
        await store.close()


async def expire(store: MetadataStore) -> None:
    """Make the server end a session, as if the session had been silent for too long."""
    assert isinstance(store, RemoteStore)
    server: Any = store._server
    if isinstance(server, Etcd):
        revoked = rpc.LeaseRevokeRequest(ID=server._connection.lease)

        async def revoke() -> None:
            await server._connection._leases.LeaseRevoke(revoked)

        await in_grpc_loop(revoke())
        with suppress(MetadataUnavailable):
            await server.touch()  # otherwise it would learn of it at its next check
        return
    client = server._connection._client
    host, port = client._connection._socket.getpeername()[:2]
    # A client that has a session's number and password can end the session.
    twin = KazooClient(hosts=f"{host}:{port}", client_id=client.client_id)
    await asyncio.to_thread(twin.start)
    await asyncio.to_thread(twin.stop)
    await asyncio.to_thread(twin.close)


def fresh_url(kind: str, servers: Servers) -> str:
    """Return the URL of an empty store."""
    return f"{kind}://{servers.addresses}/t{uuid.uuid4().hex[:10]}"
