"""Supervised tasks of a cluster's server: each survives an error of a part."""

from typing import Any

from tests.cluster.shards_world import SHARDS, Servers
from tests.cluster.world import World
from tests.faults.breaking import Breaking, Parts
from tests.waiting import until
from tms.cluster.instances import Registration
from tms.core.services.cluster import Instance


async def registers_again(parts: Parts) -> None:
    instance = Instance(id=1, address="http://a:1", version="1", since_ms=1)
    registration = Registration(parts.store, instance)
    await registration.open()
    parts.store.faults["delete_recursive"] = parts.fault
    await parts.host.expire(parts.session)
    parts.host.reconnect(parts.session)
    await until(lambda: parts.other.get("/cluster/instances/1"))
    await registration.close()


async def takes_part_in_a_cluster(parts: Parts) -> None:
    servers = World()
    first = await servers.server()
    await until(lambda: first.is_open)
    second = await servers.server()
    store: Any = Breaking(second.session)
    store.faults["get"] = parts.fault
    second.member._store = store
    await until(lambda: store.raised == 1)
    await first.stop()
    await until(lambda: second.is_open)
    servers.servers.remove(first)
    await servers.close()


async def renews_its_lease(parts: Parts) -> None:
    servers = World()
    server = await servers.server()
    await until(lambda: server.is_open)
    holding: Any = server.member._holding
    store = holding._store = Breaking(holding._store)
    store.faults["put"] = parts.fault
    await until(lambda: store.raised == 1)
    renewals = holding._record.renewals
    await until(lambda: holding._record.renewals > renewals)
    assert server.is_open
    await servers.close()


async def looks_at_the_store(parts: Parts) -> None:
    servers = World()
    server = await servers.server()
    await until(lambda: server.is_open)
    looks: list[int] = []

    def look() -> None:
        looks.append(1)
        if len(looks) == 1:
            raise parts.fault

    server.member._presence.watch._look = look
    await until(lambda: len(looks) > 1)
    assert server.is_open
    await servers.close()


async def asks_the_other_servers(parts: Parts) -> None:
    servers = Servers()
    first, second = await servers.start(), await servers.start()
    await until(lambda: servers.is_even(first, second))
    peers = first.members._presence.peers
    store: Any = Breaking(first.session)
    store.faults["get_children"] = parts.fault
    peers._metadata = store
    await until(lambda: store.raised == 1)
    servers.hidden.add(second.id)
    await until(lambda: peers.unreached == 1)
    await servers.close()


async def shares_the_shards(parts: Parts) -> None:
    servers = Servers()
    first = await servers.start()
    await until(lambda: len(first.led) == SHARDS)
    store: Any = Breaking(first.session)
    store.faults["get_children"] = parts.fault
    first.members._presence.store = store
    await until(lambda: store.raised == 1)
    second = await servers.start()
    await until(lambda: servers.is_even(first, second))
    await servers.close()
