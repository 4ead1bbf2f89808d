"""A world of servers that share a metadata store."""

import asyncio
import threading
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from tests.virtual_loop import VirtualClock, VirtualLoop
from tests.waiting import WAIT_S_MAX
from tms.cluster.instances import next_instance_id
from tms.cluster.lease import Lease, SteadySeconds
from tms.cluster.member import Member
from tms.cluster.presence import Presence
from tms.core.errors import StoreUnavailable
from tms.core.runtime.clock import Clock, SystemClock
from tms.core.runtime.trusted_clock import TrustedClock
from tms.core.services.cluster import Instance
from tms.metadata.host import MetadataHost
from tms.metadata.local import LocalSession

LEASE_S = 0.5
FENCE_S = 0.3


def clock_of_loop() -> Clock:
    """Return the clock that the running event loop goes by."""
    loop = asyncio.get_running_loop()
    return VirtualClock(loop) if isinstance(loop, VirtualLoop) else SystemClock()


class WallOfItsOwn(Clock):
    """A clock with another one's steady time, whose wall is ahead."""

    def __init__(self, clock: Clock, ahead_ms: int) -> None:
        self._clock = clock
        self.ahead_ms = ahead_ms

    def now_ms(self) -> int:
        return self._clock.now_ms() + self.ahead_ms

    def steady_ms(self) -> int:
        return self._clock.steady_ms()


class World:
    """The servers of a test, and which of them have their services open or were able to write."""

    def __init__(self) -> None:
        self.clock = clock_of_loop()
        self.host = MetadataHost(clock=self.clock)
        self.open: list[Server] = []
        self.servers: list[Server] = []
        self.most_open = 0
        self.writers: list[int] = []
        """The tokens that wrote, in order."""
        self.marks: set[int] = set()
        """The tokens in the store's marks, which say which cluster owns it."""

    async def server(
        self, of_store: str = "s", fence_s: float = FENCE_S, ahead_ms: int = 0
    ) -> "Server":
        session = self.host.open_session()
        wall = WallOfItsOwn(self.clock, ahead_ms)
        server = Server(self, session, await self.next_id(), of_store, fence_s, wall)
        self.servers.append(server)
        await server.member.open(server.lead, server.hear)
        return server

    async def next_id(self) -> int:
        session = self.host.open_session()
        try:
            return await next_instance_id(session)
        finally:
            await session.close()

    async def close(self) -> None:
        for server in self.servers:
            await server.stop()


class Server:
    """One member, whose services record that they are open."""

    def __init__(  # noqa: PLR0917  all that is one's own
        self,
        world: World,
        session: LocalSession,
        number: int,
        of_store: str,
        fence_s: float,
        wall: WallOfItsOwn,
    ) -> None:
        self.world = world
        self.session = session
        self.id = number
        self.leader: str | None = None
        self.lease: Lease | None = None
        self.opened = 0
        self.fails = False
        self.reaches = True
        """Whether it reaches the store."""
        self.wait_for: threading.Event | None = None
        """The event that its checks of the store wait for."""
        self.known_token = 0
        """The latest token that the store has seen."""
        self.wall, self.time = wall, TrustedClock(wall)
        self.may_close = asyncio.Event()
        self.may_close.set()
        presence = Presence(
            session,
            Instance(id=number, address=f"http://{number}", version="1", since_ms=1),
            lease_s=LEASE_S,
            look=self.look,
            clock=SteadySeconds(wall),
            time=self.time,
        )
        self.member = Member(presence, of_store=of_store, fence_s=fence_s, free=self.free)

    def free(self, through: int) -> None:
        if not any(token > through for token in self.world.marks):
            self.world.marks.clear()

    def look(self) -> None:
        if self.wait_for is not None:
            self.wait_for.wait(WAIT_S_MAX)
        if not self.reaches:
            raise StoreUnavailable(reason="a test")

    def hear(self, leader: str | None, _: str) -> None:
        self.leader = leader

    @property
    def is_open(self) -> bool:
        return self in self.world.open

    @asynccontextmanager
    async def lead(self, lease: Lease) -> AsyncIterator[None]:
        if self.fails:
            raise StoreUnavailable(reason="a test")
        if lease.token < self.known_token:
            raise StoreUnavailable(later_token=self.known_token)
        self.opened += 1
        self.lease = lease
        self.world.open.append(self)
        self.world.marks = {lease.token}
        try:
            yield
            await self.may_close.wait()
        finally:
            self.world.open.remove(self)
            if lease.is_last:
                self.world.marks.discard(lease.token)

    def write(self) -> None:
        """Write as a store does: only while the lease is held."""
        assert self.lease is not None
        self.lease.check()
        self.world.writers.append(self.lease.token)

    async def stop(self) -> None:
        self.may_close.set()
        await self.member.close()
        await self.session.close()
