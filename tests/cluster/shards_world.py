"""Servers that share shards, on one metadata store."""

from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from tests.cluster.world import clock_of_loop
from tests.waiting import passes, turns
from tms.cluster.instances import next_instance_id
from tms.cluster.lease import Lease
from tms.cluster.presence import Presence
from tms.cluster.shard_members import MoveCause, ShardMembers
from tms.core.errors import StoreCorrupt, StoreUnavailable
from tms.core.runtime.clock import Clock
from tms.core.services.cluster import Instance
from tms.core.values.shards import Sharding
from tms.metadata.host import MetadataHost

SHARDS = 4
LEASE_S = 1.0
MOVE_DELAY_S = 0.5


class Servers:
    """The servers of a test, on one metadata store."""

    def __init__(
        self, rest_s: float = 2.0, clock: Clock | None = None, *, shards: int = SHARDS
    ) -> None:
        self.shards = shards
        self.clock = clock or clock_of_loop()
        self.host = MetadataHost(clock=self.clock)
        self.rest_s = rest_s
        self.all: list[Server] = []
        self.turns: list[tuple[int, int]] = []
        """The shards and servers in the order in which they began to lead."""
        self.faults: list[str] = []
        """Leaders beside others."""
        self.moves: Counter[MoveCause] = Counter()
        self.sick: dict[int, Exception] = {}
        """Shards that nobody can open."""
        self.hidden: set[int] = set()
        """Servers that no other server reaches at their addresses."""
        self.cut: set[tuple[int, int]] = set()
        """Pairs of servers of which the first does not reach the second."""

    async def start(self) -> "Server":
        session = self.host.open_session()
        server = Server(self, await next_instance_id(session))
        self.all.append(server)
        await server.members.open(server.lead, server.hear)
        return server

    @property
    def leaders(self) -> dict[int, int]:
        return {shard: each.id for each in self.all for shard in each.led}

    def is_even(self, *among: "Server") -> bool:
        counts = Counter(self.leaders.values())
        numbers = [counts[each.id] for each in among]
        return sum(numbers) == self.shards - len(self.sick) and max(numbers) - min(numbers) <= 1

    async def close(self) -> None:
        for server in self.all:
            await server.stop()
        assert not self.faults


class Server:
    """One server. Records a fault if it leads a shard that another leads."""

    def __init__(self, servers: Servers, number: int) -> None:
        self.servers = servers
        self.id = number
        self.session = servers.host.open_session()
        self.led: dict[int, Lease] = {}
        self.heard: dict[int, str | None] = {}
        self.damaged: set[int] = set()
        self.reaches = True
        self.fault: Exception | None = None
        """Raised instead of opening a shard."""
        self.opens_s = 0.0
        """How long it takes to open a shard."""
        instance = Instance(id=number, address=f"http://{number}", version="1", since_ms=1)
        presence = Presence(
            self.session,
            instance,
            lease_s=LEASE_S,
            look=self.look,
            ask=self.ask,
            time=servers.clock,
        )
        self.members = ShardMembers(
            presence,
            Sharding(servers.shards),
            of_store="s",
            move_delay_s=MOVE_DELAY_S,
            on_moved=lambda why: servers.moves.update([why]),
            settling_s=MOVE_DELAY_S,
            rest_s=servers.rest_s,
        )

    def look(self) -> None:
        if not self.reaches:
            raise StoreUnavailable(reason="a test")

    async def ask(self, other: Instance) -> bool:
        return (self.id, other.id) not in self.servers.cut and other.id not in self.servers.hidden

    def hear(self, shard: int, address: str | None, _: str) -> None:
        self.heard[shard] = address

    @asynccontextmanager
    async def lead(self, shard: int, lease: Lease) -> AsyncIterator[None]:
        if shard in self.damaged:
            raise StoreCorrupt(reason="a test")
        await (passes(self.opens_s) if self.opens_s else turns())
        if shard in self.servers.sick:
            raise self.servers.sick[shard]
        if self.fault is not None:
            raise self.fault
        for other in self.servers.all:
            if other is not self and shard in other.led and other.led[shard].left_s > 0:
                self.servers.faults.append(f"{self.id} leads {shard} beside {other.id}")
        self.led[shard] = lease
        self.servers.turns.append((shard, self.id))
        try:
            yield
        finally:
            del self.led[shard]

    async def die(self) -> None:
        """End like a killed process: no lease is given back, and the session stays for a while."""
        self.reaches = False
        tasks = [each._running for each in self.members._members]
        tasks += [self.members._presence.peers._watching]
        tasks += [self.members._presence.watch._watching, self.members._sharing]
        for task in tasks:
            assert task is not None
            task.cancel()
        for member in self.members._members:
            if member._holding is not None:
                member._holding._is_over = True
                member._holding._is_due.set()
        self.servers.all.remove(self)

    async def stop(self) -> None:
        await self.members.close()
        await self.session.close()
