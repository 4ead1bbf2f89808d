"""Servers that share three shards on simulated rows.

Leases, and which server knows of which, are set by hand. The services are a server's real ones, on
its own stores. The network between servers is replaced: if a server does not lead the shard of a
request, the request goes to the services of one other server.
"""

import asyncio
from contextlib import AsyncExitStack
from typing import Any, cast

from prometheus_client import CollectorRegistry

from tests.manual_clock import ManualClock
from tests.simulation.gateway import Call, Rows, SimulatedGateway
from tests.simulation.leaders import lease_after, taken_over
from tms.cluster.lease import Lease
from tms.core.errors import NoLeader
from tms.core.limits import Limits
from tms.core.runtime.trusted_clock import trusted
from tms.core.services.server_services import Services
from tms.core.values.shards import Sharding
from tms.core.values.topic import TopicId
from tms.namespaces.store import UndeclaredNamespaces
from tms.server.shard import Opened, Process
from tms.server.sharded import ShardedServices, services_of_shards
from tms.settings import Settings

SHARDS = 3


class Server:
    """A server that leads shards, and knows or assumes who leads the others."""

    def __init__(self, sharding: Sharding, now_ms: int) -> None:
        self.clock = ManualClock(1)
        self.clock.set(max(1, now_ms))  # the machine has been up for a long time
        self.time = trusted(self.clock, Limits())
        limits, registry = Limits(), CollectorRegistry()
        process = Process(limits, self.time, registry, UndeclaredNamespaces(limits), None, False)
        self.services: ShardedServices = services_of_shards(sharding, process, Settings())
        self.turns: dict[int, Turn] = {}
        """Its turns with open services, by shard; their leases may be over."""
        self.known: dict[int, Server] = {}
        """The leaders of shards, as it last heard."""

    def is_here(self, shard: int) -> bool:
        """Whether it leads a shard now, as `api.cluster.routing` sees it."""
        return shard in self.turns and self.turns[shard].lease.left_s > 0

    def hear(self, shard: int, leader: "Server | None") -> None:
        """Record who leads a shard, or that nobody does."""
        self.known.pop(shard, None)
        asked = None
        if leader is not None and leader is not self:
            self.known[shard] = leader
            asked = cast("Services", _Asked(leader, shard))
        self.services.places.set_remote(shard, asked, asked)

    def way(self, shard: int) -> ShardedServices:
        """Return the services that answer a request for a shard: one hop. Raises `NoLeader`.

        A server that does not lead the shard refuses in its services, or because its lease is over.
        """
        answering = self if self.is_here(shard) else self.known.get(shard)
        if answering is None or (shard in answering.turns and not answering.is_here(shard)):
            raise NoLeader(shard=shard)
        return answering.services.in_shard(shard)

    async def die(self) -> None:
        """Stop leading anything, and get no answers."""
        for turn in list(self.turns.values()):
            turn.lease.end()
        for turn in list(self.turns.values()):
            await turn.close()


class _Asked:
    """The services of a shard at the server that is assumed to lead it."""

    def __init__(self, server: Server, shard: int) -> None:
        self._server = server
        self._shard = shard

    def __getattr__(self, name: str) -> Any:
        """Return a service, found like by a request with `?shard=`. Raises `NoLeader`."""
        if not self._server.is_here(self._shard):
            raise NoLeader(shard=self._shard)
        return getattr(self._server.services.in_shard(self._shard), name)


class Turn:
    """A server's turn as the leader of a shard."""

    def __init__(self, server: Server, shard: int, rows: Rows, before: "Turn | None") -> None:
        self.server, self.shard = server, shard
        last: Lease | None = None
        after_ms = 0
        if before is not None:
            last, after_ms = before.lease, before.last_key_ms
            server.time.go_on_from(before.server.time.now_ms())
        self.lease: Lease = lease_after(last, after_ms, server.time.now_ms())
        self.is_given_back = False
        self.gateway = SimulatedGateway(rows, self.lease.check)
        self._closing = AsyncExitStack()

    @property
    def last_key_ms(self) -> int:
        """The time up to which its keys may reach."""
        return self.lease.last_given_ms if self.is_given_back else self.lease.keys_until_ms

    @property
    def late(self) -> list[Call]:
        """Its calls that may still arrive."""
        return [] if self.lease.left_s > 0 else self.gateway.late

    async def open(self) -> None:
        """Open the services."""
        tables, services = taken_over(self.gateway, self.lease), self.server.services
        self._closing.push_async_callback(asyncio.to_thread, tables.close)
        opened = cast("Opened", (tables, None))
        await self._closing.enter_async_context(services.leading(self.shard, opened, self.lease))
        self.server.turns[self.shard] = self

    async def give_back(self) -> None:
        """Close the services, then give the lease back."""
        await self.close()
        self.is_given_back = not self.gateway.late
        self.lease.end()

    async def close(self) -> None:
        """Close the services."""
        del self.server.turns[self.shard]
        await self._closing.aclose()

    def renew(self) -> None:
        """Renew the lease, with a ceiling by the trusted time, as members do."""
        if self.lease.left_s > 0:
            self.lease.renewed(0.0, self.lease.ceiling_ms(self.server.time.now_ms()))


def strangers(rows: Rows, topics: set[TopicId]) -> set[bytes]:
    """Return the rows in a shard of topics that do not belong to it."""
    starts = tuple(f"{each.namespace}:{each.name}:".encode() for each in topics)
    found = [row for table in rows.tables.values() for row in table]
    return {row for row in found if row[1:].startswith(starts)}
