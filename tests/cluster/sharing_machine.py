"""Servers that share shards, with a simulated clock: they join, die, fall silent and return.

The members, their metadata store, and everything that they wait for are real; only time is not. Two
servers never lead the same shard. In the end every shard is served, the shards are spread evenly,
and none moves any more.
"""

import asyncio

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from tests.cluster.shards_world import MOVE_DELAY_S, SHARDS, Server, Servers
from tests.virtual_loop import VirtualClock, VirtualLoop
from tests.waiting import passes
from tms.core.errors import StoreCorrupt, StoreUnavailable
from tms.metadata.local import LocalSession

SERVERS_MAX = 4
REST_S = 2.0
SETTLED_S = 5 * REST_S
"""Enough time to serve all shards evenly: some leases, the delay, the rest, and all moves."""
SICK = [StoreCorrupt(reason="a test"), StoreUnavailable(reason="a test")]
NUMBER = st.integers(0, SERVERS_MAX - 1)


class Sharing(RuleBasedStateMachine):
    """Servers, and the shards that they lead in turn."""

    def __init__(self) -> None:
        super().__init__()
        self.loop = VirtualLoop()
        asyncio.set_event_loop(self.loop)
        self.servers = Servers(REST_S, VirtualClock(self.loop))
        self.left: list[LocalSession] = []
        """The sessions of servers that died."""

    @initialize(count=st.integers(1, 3))
    def begin(self, count: int) -> None:
        for _ in range(count):
            self.join()

    def server(self, number: int) -> Server:
        return self.servers.all[number % len(self.servers.all)]

    def pass_time_of(self, seconds: float) -> None:
        self.loop.run_until_complete(passes(seconds))

    @precondition(lambda self: len(self.servers.all) < SERVERS_MAX)
    @rule()
    def join(self) -> None:
        self.loop.run_until_complete(self.servers.start())

    @precondition(lambda self: len(self.servers.all) > 1)
    @rule(number=NUMBER)
    def stop(self, number: int) -> None:
        server = self.server(number)
        self.servers.all.remove(server)
        self.loop.run_until_complete(server.stop())

    @precondition(lambda self: len(self.servers.all) > 1)
    @rule(number=NUMBER)
    def die(self, number: int) -> None:
        """Kill a server; its session and its leases stay for a time."""
        server = self.server(number)
        self.loop.run_until_complete(server.die())
        self.left.append(server.session)

    @rule(number=NUMBER)
    def fall_silent_or_return(self, number: int) -> None:
        """Cut a server off from the store, or reconnect it."""
        server = self.server(number)
        server.reaches = not server.reaches

    @rule(number=NUMBER, fault=st.sampled_from([None, StoreUnavailable(reason="a"), OSError()]))
    def open_no_shard_or_again(self, number: int, fault: Exception | None) -> None:
        """Make one server unable to open a shard, or able again."""
        self.server(number).fault = fault

    @rule(shard=st.integers(0, SHARDS - 1), fault=st.sampled_from([*SICK, None]))
    def fall_sick_or_recover(self, shard: int, fault: Exception | None) -> None:
        """Make all servers unable to open a shard, or able again."""
        self.servers.sick.pop(shard, None)
        if fault is not None:
            self.servers.sick[shard] = fault

    @rule(number=NUMBER, opens_s=st.sampled_from([0.0, 0.1, 0.8]))
    def slow_down(self, number: int, opens_s: float) -> None:
        self.server(number).opens_s = opens_s

    @rule(shard=st.integers(0, SHARDS - 1), number=NUMBER, is_wished=st.booleans())
    def wish(self, shard: int, number: int, *, is_wished: bool) -> None:
        server = self.server(number)
        wished = {shard: server.id if is_wished else None}
        self.loop.run_until_complete(server.members.wish(wished))

    @rule(seconds=st.sampled_from([0.05, 0.2, 0.6, 2.0]))
    def pass_time(self, seconds: float) -> None:
        self.pass_time_of(seconds)

    @rule()
    def settle(self) -> None:
        """Repair everything, and wait long enough."""
        for session in self.left:
            self.loop.run_until_complete(session.close())
        self.left.clear()
        self.servers.sick.clear()
        for server in self.servers.all:
            server.reaches, server.fault, server.opens_s = True, None, 0.0
        changes = dict.fromkeys(range(SHARDS))
        self.loop.run_until_complete(self.server(0).members.wish(changes))
        self.pass_time_of(SETTLED_S)
        assert self.servers.is_even(*self.servers.all), self.servers.leaders
        turns = len(self.servers.turns)
        self.pass_time_of(2 * MOVE_DELAY_S)
        assert len(self.servers.turns) == turns, "a shard moved without need"

    @invariant()
    def nobody_leads_beside_another(self) -> None:
        assert not self.servers.faults

    def teardown(self) -> None:
        try:
            if self.servers.all:
                self.settle()
        finally:
            self.loop.run_until_complete(self.servers.close())
            self.loop.close()
            asyncio.set_event_loop(None)
