"""Servers that share shards: what they publish, who leads, and what readers of any server get.

`shards_machine` adds the rules of transactions and positions.
"""

from collections.abc import Callable, Coroutine
from contextlib import suppress
from typing import Any, TypeVar

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, precondition, rule

from tests.simulation.gateway import Call, Mode, Rows, simulate
from tests.simulation.leaders import End, PositionModel, Work
from tests.simulation.leaders_world import NAME, START_MS, with_keys
from tests.simulation.oracle import Log, Oracle
from tests.simulation.shards_servers import SHARDS, Server, Turn, strangers
from tests.virtual_loop import VirtualLoop
from tms.core.errors import (
    NoLeader,
    OutcomeUnknown,
    SubscriptionNotFound,
    TopicExists,
    Unavailable,
)
from tms.core.services.transactions import TransactionStatus
from tms.core.values.message import position_of
from tms.core.values.reading import Reading, View, isolation_of
from tms.core.values.shards import ShardBy, Sharding
from tms.core.values.subscriptions import SubscriptionPosition
from tms.core.values.topic import TopicId
from tms.server.sharded import ShardedServices

T = TypeVar("T")
SERVERS = 3
TOPICS = [TopicId("n0", "a"), TopicId("n1", "a"), TopicId("n1", "c"), TopicId("n2", "a")]
"""By either sharding rule, each shard has a topic, and one shard has two."""
TOPIC = st.sampled_from(TOPICS)
SHARD = st.integers(0, SHARDS - 1)
THROUGH = st.integers(0, SERVERS - 1)
"""The server that gets the request; if it is gone, the next one that runs."""
FATE = st.sampled_from(
    [*[(Mode.ANSWERED, 0)] * 4, (Mode.REPEATED, 0), (Mode.REPEATED, 1), (Mode.HELD, 0)]
)
"""The fate of one call of a request. A held call is the last one until another server leads."""
_LATEST = 8


class ShardsWorld(RuleBasedStateMachine):
    """Servers that join, leave and sleep; the acknowledged messages, and those that readers got."""

    def __init__(self) -> None:
        super().__init__()
        self.loop = VirtualLoop()
        self.patch = pytest.MonkeyPatch()
        simulate(self.patch, self.loop)
        self.rows = [Rows() for _ in range(SHARDS)]
        self.now_ms = START_MS
        self.servers: list[Server | None] = []
        self.turns: list[list[Turn]] = [[] for _ in range(SHARDS)]
        """The turns of each shard; only the last one may still lead."""
        self.created: dict[TopicId, bool] = {}
        """The topics that were created; False if that is uncertain."""
        self.positions = {topic: PositionModel() for topic in TOPICS}
        self.count = 0

    @initialize(by=st.sampled_from(ShardBy), late=st.sets(THROUGH))
    def begin(self, by: ShardBy, late: set[int]) -> None:
        """Begin with a leader for each shard; servers that join late assume a different one."""
        self.sharding = Sharding(SHARDS, by)
        self.oracles = [
            Oracle([topic for topic in TOPICS if self.shard_of(topic) == shard])
            for shard in range(SHARDS)
        ]
        self.servers = [Server(self.sharding, self.now_ms) for _ in range(SERVERS)]
        for shard in range(SHARDS):
            self.take_over(shard, shard, deaf=late, is_given_back=False)
            for number in late - {shard}:
                self.server(number).hear(shard, self.server(shard + 1))

    def shard_of(self, topic: TopicId) -> int:
        return self.sharding.shard_of(topic)

    def oracle(self, topic: TopicId) -> Oracle:
        return self.oracles[self.shard_of(topic)]

    def await_(self, work: Coroutine[Any, Any, T]) -> T:
        return self.loop.run_until_complete(work)

    # Choose the leaders, and which servers know them.

    def server(self, number: int) -> Server:
        """Return a server; if it is gone, the next one that runs."""
        found = [self.servers[(number + each) % SERVERS] for each in range(SERVERS)]
        return next(each for each in found if each is not None)

    def leader(self, shard: int) -> Turn | None:
        """Return the turn of the server that leads a shard; None if none does."""
        last = self.turns[shard][-1] if self.turns[shard] else None
        return last if last is not None and last.lease.left_s > 0 else None

    def is_cut(self, shard: int) -> bool:
        """Whether nothing can be done in a shard until another server leads it."""
        turn = self.leader(shard)
        return turn is None or turn.gateway.is_cut

    @rule(
        shard=SHARD,
        number=THROUGH,
        deaf=st.sets(THROUGH, max_size=1),
        is_given_back=st.booleans(),
    )
    def take_over(self, shard: int, number: int, deaf: set[int], *, is_given_back: bool) -> None:
        """Make a server lead a shard: it is moved there, or its former leader is unreachable.

        In that case the former leader finds out later (`notice`).
        """
        server, before = self.server(number), self.leader(shard)
        if before is not None:
            if is_given_back and not before.gateway.is_cut:
                self.await_(before.give_back())
            before.lease.end()
        if shard in server.turns:
            self.await_(server.turns[shard].close())
        turns = self.turns[shard]
        turn = Turn(server, shard, self.rows[shard], turns[-1] if turns else None)
        turns.append(turn)
        self.await_(turn.open())
        for each, other in enumerate(self.servers):
            if other is server or (other is not None and each not in deaf):
                other.hear(shard, server)
        for work in self.oracles[shard].works.values():
            self.find_out(work, server.services.in_shard(shard))
        for topic in self.oracles[shard].acknowledged:
            if self.positions[topic].mover is not None:
                self.position(
                    topic, server.services.in_shard(shard)
                )  # before that transaction continues

    @rule(number=THROUGH)
    def notice(self, number: int) -> None:
        """Make a server close the shards that it no longer leads."""
        server = self.server(number)
        for turn in list(server.turns.values()):
            if turn.lease.left_s == 0:
                self.await_(turn.close())

    @rule(number=THROUGH, shard=SHARD)
    def hear(self, number: int, shard: int) -> None:
        turn = self.leader(shard)
        self.server(number).hear(shard, None if turn is None else turn.server)

    @rule(number=THROUGH, skew_ms=st.sampled_from([0, 0, 2_000, -700, -100_000]))
    def die_or_join(self, number: int, skew_ms: int) -> None:
        server = self.servers[number]
        if server is None:
            self.servers[number] = Server(self.sharding, self.now_ms + skew_ms)
        elif sum(each is not None for each in self.servers) > 1:
            self.await_(server.die())
            self.servers[number] = None

    @rule(number=THROUGH, by_ms=st.sampled_from([1, 300, 1_500, -300]))
    def pass_time(self, number: int, by_ms: int) -> None:
        self.now_ms += abs(by_ms)
        self.server(number).clock.advance(by_ms)
        for turns in self.turns:
            turns[-1].renew()

    def late(self, shard: int) -> list[Call]:
        """Return the calls of earlier leaders that may still arrive."""
        return [call for turn in self.turns[shard] for call in turn.late]

    @precondition(lambda self: any(self.late(shard) for shard in range(SHARDS)))
    @rule(number=THROUGH, data=st.data())
    def come_late(self, number: int, data: st.DataObject) -> None:
        """Let a call of an earlier leader arrive, whole or in part, between two reads."""
        shards = [shard for shard in range(SHARDS) if self.late(shard)]
        shard = data.draw(st.sampled_from(shards))
        late = self.late(shard)
        call = data.draw(st.sampled_from(late[-_LATEST:]) | st.sampled_from(late))
        self.rows[shard].carry_out(call, data.draw(st.sampled_from([None, 1, 2])))
        self.look_at_all(number)

    # Requests.

    def tried(
        self,
        number: int,
        shard: int,
        request: Callable[[ShardedServices], Coroutine[Any, Any, T]],
        fate: tuple[Mode, int] = (Mode.ANSWERED, 0),
    ) -> tuple[bool | None, T | None]:
        """Send a server a request for a shard; one call of the request has that fate.

        Return the answer, and whether it was done, or None if nothing was sent.
        """
        if self.is_cut(shard):
            self.take_over(shard, number + 1, deaf=set(), is_given_back=False)
        turn = self.leader(shard)
        assert turn is not None
        try:
            services = self.server(number).way(shard)
        except NoLeader:
            self.hear(number, shard)
            return None, None
        turn.gateway.mode, turn.gateway.skip = fate
        try:
            return True, self.await_(request(services))
        except (Unavailable, OutcomeUnknown):
            self.hear(number, shard)
            return False, None
        finally:
            turn.gateway.mode = Mode.ANSWERED

    def payloads(self, number: int, work: int = 0) -> list[bytes]:
        self.count += number
        return [b"%d.%d" % (work, n) for n in range(self.count - number, self.count)]

    @rule(topic=TOPIC, number=THROUGH, fate=FATE)
    def create(self, topic: TopicId, number: int, fate: tuple[Mode, int]) -> None:
        """Create a topic, or find that it exists already."""
        try:
            done, _ = self.tried(
                number, self.shard_of(topic), lambda to: to.messaging.create_topic(topic), fate
            )
        except TopicExists:
            assert topic in self.created
            done = True
        if done is not None:
            self.created[topic] = self.created.get(topic, False) or done

    def has(self, topic: TopicId) -> bool:
        """Whether a topic certainly exists; create it if nobody has tried to."""
        if topic not in self.created:
            self.create(topic, 0, (Mode.ANSWERED, 0))
        return self.created.get(topic, False)

    @rule(topic=TOPIC, count=st.integers(1, 3), number=THROUGH, fate=FATE)
    def publish(self, topic: TopicId, count: int, number: int, fate: tuple[Mode, int]) -> None:
        if self.has(topic):
            payloads = self.payloads(count)
            done, _ = self.tried(
                number,
                self.shard_of(topic),
                lambda to: to.messaging.publish(topic, with_keys(payloads)),
                fate,
            )
            if done:
                self.oracle(topic).acknowledged[topic] += payloads

    @rule(topic=TOPIC)
    def a_request_in_hand(self, topic: TopicId) -> None:
        """Let a server that slept finish a request: it is never acknowledged."""
        if not self.has(topic):  # a server that slept may lead again to create it
            return
        shard = self.shard_of(topic)
        for server in [each for each in self.servers if each is not None]:
            turn = server.turns.get(shard)
            if turn is not None and turn.lease.left_s == 0:
                own = server.services.in_shard(shard)
                work = own.messaging.publish(topic, with_keys(self.payloads(1)))
                with suppress(Unavailable, OutcomeUnknown):
                    self.await_(work)
                    raise AssertionError("acknowledged without a lease")

    # Looks.

    def find_out(self, work: Work, services: ShardedServices) -> None:
        """Find out the outcome of a transaction."""
        if work.end not in (End.UNKNOWN, End.UNDOING):
            return
        status = self.await_(services.transactions.info(work.transaction_id)).status
        if status is not TransactionStatus.IN_PROGRESS:
            is_committed = status is TransactionStatus.COMMITTED
            assert not (is_committed and work.end is End.UNDOING)
            work.end = End.COMMITTED if is_committed else End.UNDONE
        elif work.end is End.UNKNOWN:
            work.end = End.OPEN
        else:
            self.await_(services.transactions.invalidate(work.transaction_id))
            work.end = End.UNDONE

    def position(self, topic: TopicId, services: ShardedServices) -> SubscriptionPosition | None:
        """Return where a topic's position is."""
        found: SubscriptionPosition | None = None
        with suppress(SubscriptionNotFound):
            found = self.await_(services.subscriptions.subscription(topic, NAME))
        turn: Any = self.leader(self.shard_of(topic))
        self.positions[topic].see(found, turn)
        return found

    async def poll(self, services: ShardedServices, topic: TopicId, view: View) -> Log:
        reading = Reading(position_of(None), limit=1_000_000, view=view)
        polled = services.messaging.poll(topic, reading)
        return [(message.id, message.payload) async for block in polled for message in block]

    @rule(topic=TOPIC, number=THROUGH)
    def look(self, topic: TopicId, number: int) -> None:
        """Compare the messages of a topic that readers of a server get, if it can be read now."""
        if not self.created.get(topic):
            return
        try:
            services = self.server(number).way(self.shard_of(topic))
            views = [isolation_of(committed=committed) for committed in (False, True)]
            found = [self.await_(self.poll(services, topic, view)) for view in views]
            self.position(topic, services)
        except Unavailable:
            return  # the outcome of an unanswered call must be known first
        self.oracle(topic).see(topic, *found)

    def look_at_all(self, number: int) -> None:
        """Check all topics, and the rows of the shards."""
        for topic in TOPICS:
            self.look(topic, number)
        for shard, rows in enumerate(self.rows):
            others = {topic for topic in TOPICS if self.shard_of(topic) != shard}
            assert not strangers(rows, others), "another shard's rows"

    def teardown(self) -> None:
        try:
            if any(self.servers):
                for number in range(SERVERS):
                    self.look_at_all(number)
        finally:
            self.close()

    def close(self) -> None:
        """End all servers, whatever state they are in."""
        try:
            for server in self.servers:
                if server is not None:
                    self.await_(server.die())
        finally:
            self.loop.close()
            self.patch.undo()
