"""Stores and sessions on real metadata servers (tests/servers/shared_servers.py)."""

import asyncio
import socket
import uuid
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import suppress
from functools import partial
from typing import Any

import pytest
from aetcd import rpc
from kazoo.protocol.serialization import (
    Close,
    Connect,
    int_int_struct,
    int_struct,
    write_buffer,
)

from dev.processes import Servers
from tests.waiting import WAIT_S_MAX, until
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
    address = client._connection._socket.getpeername()[:2]
    ended = partial(_end_on_zookeeper, address, *client.client_id)
    await until(partial(asyncio.to_thread, ended), "ZooKeeper ends a session")


def _end_on_zookeeper(address: tuple[str, int], session: int, password: bytes) -> bool:
    """Ask to end a session, with its number and password; return whether it had ended before.

    A session moves to its newest connection, so its own client loses its connection, and returns.
    If it returns before the server reads the request to close, that request is lost: ask again.
    Source: ConnectRequest and RequestHeader of zookeeper.jute.
    """
    connect = Connect(0, 0, 30_000, session, password, False).serialize()
    close = int_int_struct.pack(1, Close.type)
    with socket.create_connection(address, WAIT_S_MAX) as connection:
        connection.sendall(write_buffer(connect) + write_buffer(close))
        with suppress(ConnectionError), connection.makefile("rb") as answers:
            if start := answers.read(int_struct.size):
                granted, _ = Connect.deserialize(answers.read(*int_struct.unpack(start)), 0)
                answers.read()  # the server closes the connection when it has closed the session
                return bool(granted.time_out <= 0)
    return False


def fresh_url(kind: str, servers: Servers) -> str:
    """Return the URL of an empty store."""
    return f"{kind}://{servers.addresses}/t{uuid.uuid4().hex[:10]}"
