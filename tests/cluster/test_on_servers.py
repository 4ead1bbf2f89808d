"""Servers that take turns, and namespaces that several servers follow, on ZooKeeper and etcd."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial

import pytest

from tests.metadata.servers import Open, expire
from tests.waiting import until
from tms.cluster.instances import next_instance_id
from tms.cluster.lease import Lease
from tms.cluster.member import Member
from tms.cluster.presence import Presence
from tms.core.errors import Unavailable
from tms.core.limits import Limits
from tms.core.services.cluster import Instance
from tms.core.values.namespaces import NamespaceSettings
from tms.metadata.interface import MetadataStore
from tms.namespaces.store import NamespaceStore

pytestmark = pytest.mark.anyio

LEASE_S = 1.0


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


class Server:
    """One member; `open` lists the members whose services are open."""

    def __init__(self, store: MetadataStore, number: int, opened: list["Server"]) -> None:
        self.store = store
        self.id = number
        self.opened = opened
        self.lease: Lease | None = None
        self.most_at_once = 0
        address = f"http://{number}"
        instance = Instance(id=number, address=address, version="1", since_ms=1)
        presence = Presence(store, instance, lease_s=LEASE_S, look=lambda: None)
        self.member = Member(presence, of_store="s", fence_s=0.5)

    @asynccontextmanager
    async def lead(self, lease: Lease) -> AsyncIterator[None]:
        self.lease = lease
        self.opened.append(self)
        holders = [each for each in self.opened if each.lease and each.lease.left_s > 0]
        self.most_at_once = max(self.most_at_once, len(holders))
        try:
            yield
        finally:
            self.opened.remove(self)


async def test_servers_take_turns_and_come_back_after_their_session_was_lost(
    remote: str, sessions_at: Open
) -> None:
    opened: list[Server] = []
    servers = []
    for _ in range(3):
        store = await sessions_at(remote, session_timeout_s=5)
        servers.append(Server(store, await next_instance_id(store), opened))
        await servers[-1].member.open(servers[-1].lead, lambda *_: None)
    assert len({server.id for server in servers}) == 3
    await until(lambda: len(opened) == 1)

    await expire(opened[0].store)
    await until(partial(are_registered, servers))
    await until(lambda: len(opened) == 1)
    leader = opened[0]
    await leader.member.close()
    await until(lambda: len(opened) == 1)
    assert opened[0] is not leader

    for server in servers:
        await server.member.close()
    assert max(server.most_at_once for server in servers) == 1


async def are_registered(servers: list[Server]) -> bool:
    """Whether all are registered, which they are not while the first one's session is lost."""
    try:
        return len((await servers[0].member.state()).instances) == len(servers)
    except Unavailable:
        return False


def has_heard(namespaces: NamespaceStore, message_bytes_max: int) -> bool:
    rules = namespaces.rules.get("shop")
    return rules is not None and rules.message_bytes_max == message_bytes_max


async def test_a_change_of_a_namespace_is_heard_by_another_server(
    remote: str, sessions_at: Open
) -> None:
    here, there = [NamespaceStore(await sessions_at(remote), Limits()) for _ in range(2)]
    await here.open()
    await there.open()
    for number in range(1, 21):
        await here.declare("shop", NamespaceSettings(message_bytes_max=number))
        await until(partial(has_heard, there, number))

    await here.delete("shop")
    await until(lambda: there.rules == {})
    await here.close()
    await there.close()
