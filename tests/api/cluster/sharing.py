"""Servers that share three shards in one process; tests set who leads and who knows it."""

from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Protocol

import httpx
from prometheus_client import CollectorRegistry

from api.app import create_app
from api.cluster.forwarding import Forwarder
from api.cluster.routing import ShardRouting
from api.console.application import beside
from api.http.context import Options
from api.http.door.access_control import AccessControl
from tables.memory import MemoryStore
from tables.store_tables import StoreTables
from tests.api.rest import serving
from tests.sharding.three_shards import SHARDS, new_process
from tms.client.remote.remote_services import RemoteServices
from tms.core.limits import Limits
from tms.core.runtime.clock import SystemClock
from tms.core.values.shards import ShardBy, Sharding
from tms.security.forward_keys import ForwardKeys
from tms.security.forwards import Opener, Sealer
from tms.server.shard import Upkeep
from tms.server.sharded import ShardedServices, services_of_shards
from tms.settings import Settings

HOLD_S = 0.5
LIMITS = Limits()
NAMESPACES = ("n0", "n1", "n2")
"""One namespace for each shard, in the order of the shards."""


class Guard(Protocol):
    """The access control of a server, and the keys that it shares with others."""

    access: AccessControl
    keys: ForwardKeys


class SharingServer:
    """A server that leads the shards that tests assign to it."""

    def __init__(
        self,
        number: int,
        services: ShardedServices,
        routing: ShardRouting,
        stores: Sequence[MemoryStore],
    ) -> None:
        self.number = number
        self.services = services
        self.routing = routing
        self._stores = stores
        self._turns: dict[int, AsyncExitStack] = {}
        self._asked: list[RemoteServices] = []
        self.left_s = 1.0
        self.http: httpx.AsyncClient

    @property
    def url(self) -> str:
        return str(self.http.base_url)

    async def lead(self, shard: int) -> None:
        turn = self._turns[shard] = AsyncExitStack()
        store = self._stores[shard]
        opened = StoreTables(store), Upkeep("memory:", store, Settings())
        await turn.enter_async_context(self.services.leading(shard, opened))
        self.routing.lead(shard, self.services.in_shard(shard), lambda: self.left_s)

    async def stop_leading(self, shard: int) -> None:
        await self.routing.leave(shard, self.services.places.led[shard].stop_waiting)
        await self._turns.pop(shard).aclose()

    def hear(self, shard: int, leader: "SharingServer | None") -> None:
        """Learn who leads a shard."""
        address = None if leader is None else leader.url
        self.routing.set_leader(shard, address, "")
        asked = None
        if address is not None:
            asked = RemoteServices(address, timeout_s=5, retry_for_s=0, compress=False, shard=shard)
            self._asked.append(asked)
        self.services.places.set_remote(shard, asked, asked)

    async def close(self) -> None:
        for asked in self._asked:
            await asked.close()
        for shard in list(self._turns):
            await self.stop_leading(shard)


@asynccontextmanager
async def sharing(
    count: int,
    by: ShardBy = ShardBy.NAMESPACE,
    *,
    hold_s: float = HOLD_S,
    guards: Sequence[Guard] = (),
) -> AsyncIterator[Sequence[SharingServer]]:
    """Start this number of servers, of which none leads anything yet.

    Each has a console, and access control if `guards` has one for each.
    """
    sharding = Sharding(SHARDS, by)
    stores = [MemoryStore() for _ in range(SHARDS)]
    async with AsyncExitStack() as stack:
        servers = []
        for number in range(1, count + 1):
            registry = CollectorRegistry()
            process = await new_process(LIMITS, SystemClock(), registry)
            stack.push_async_callback(process.namespaces.close)
            services = services_of_shards(sharding, process, Settings())
            guard = guards[number - 1] if guards else None
            sealer = None if guard is None else Sealer(guard.keys, str(number), SystemClock())
            forwarders = [Forwarder(number, None, sealer) for _ in range(SHARDS)]
            for forwarder in forwarders:
                stack.push_async_callback(forwarder.close)
            routing = ShardRouting(
                sharding, forwarders, hold_s=hold_s, held_bytes_max=LIMITS.queue_bytes_max
            )
            access = None if guard is None else guard.access
            options = Options(registry=registry, sharding=sharding, access=access)
            app = routing.install(beside(create_app(services, LIMITS, **options)))
            server = SharingServer(number, services, routing, stores)
            url, _ = await stack.enter_async_context(
                serving(app, LIMITS, on_stopping=services.stop_waiting, grace_s=0.5)
            )
            server.http = await stack.enter_async_context(
                httpx.AsyncClient(base_url=url, trust_env=False, verify=False)
            )
            if guard is not None:
                guard.access._opener = Opener(guard.keys, server.url, SystemClock())
            stack.push_async_callback(server.close)
            servers.append(server)
        yield servers


@asynccontextmanager
async def shared(
    by: ShardBy = ShardBy.NAMESPACE,
    guards: Sequence[Guard] = (),
    hold_s: float = HOLD_S,
) -> AsyncIterator[Sequence[SharingServer]]:
    """Start two servers that know each other: the first leads shard 0, the second the others."""
    async with sharing(2, by, hold_s=hold_s, guards=guards) as servers:
        first, second = servers
        for leader, other, shards in ((first, second, (0,)), (second, first, (1, 2))):
            for shard in shards:
                await leader.lead(shard)
                other.hear(shard, leader)
        yield servers


def topic(namespace: str, name: str = "t") -> str:
    return f"/v1/namespaces/{namespace}/topics/{name}"


async def publish(server: SharingServer, namespace: str, text: str = "x") -> httpx.Response:
    body = {"messages": [text]}
    return await server.http.post(f"{topic(namespace)}/publish?ids=true", json=body)


def code_of(answer: httpx.Response) -> tuple[int, str]:
    return answer.status_code, answer.json()["error"]["code"]
