"""Three servers that share three shards; each call of a leader may arrive at any later moment.

Servers join, leave, sleep and wake up; shards move, or are taken over. Requests are sent through
any server, even one that does not know who leads. The results are those of a single service: a log
only grows at its end, ids ascend, every acknowledged message is there once, and transactions are
whole. An id identifies its shard, and a shard has no rows of another one.
"""

from contextlib import suppress
from functools import partial

from hypothesis import strategies as st
from hypothesis.stateful import rule

from tests.simulation.gateway import Mode
from tests.simulation.leaders import ANY, End, Work
from tests.simulation.leaders_world import NAME, with_keys
from tests.simulation.oracle import number_of
from tests.simulation.shards_world import FATE, THROUGH, TOPIC, TOPICS, ShardsWorld
from tms.core.errors import (
    NoLeader,
    OutcomeUnknown,
    RollbackRefused,
    TopicNotFound,
    TransactionUnknown,
    Unavailable,
)
from tms.core.services.commits import CommitRequest
from tms.core.services.transactions import StartRequest
from tms.core.values.subscriptions import Advance, SubscriptionPosition
from tms.core.values.topic import TopicId
from tms.server.sharded import ShardedServices

TIMEOUT_S = 86_400
_NOT_GIVEN = (End.OPEN, End.UNDOING, End.UNDONE)


async def _advance(advance: Advance, to: ShardedServices) -> None:
    await to.subscriptions.advance(advance)


class ShardsMachine(ShardsWorld):
    """Adds transactions and positions, used through any server."""

    def open_works(self, shard: int) -> list[Work]:
        works = self.oracles[shard].works.values()
        return [each for each in works if each.end is End.OPEN]

    def opened(self, topic: TopicId, number: int, data: st.DataObject) -> Work | None:
        """Return a transaction of a topic's shard that continues, or a new one if one can start."""
        shard = self.shard_of(topic)
        found: Work | None = data.draw(st.sampled_from([*self.open_works(shard) * 3, None]))
        if found is None:
            request = StartRequest(timeout_s=TIMEOUT_S, namespace=topic.namespace, topic=topic.name)
            done, started = self.tried(number, shard, lambda to: to.transactions.start(request))
            if not done or started is None:
                return None
            pointer = started.transaction_id
            assert self.sharding.shard_of_transaction(pointer) == shard, "an id of another shard"
            found = Work(sum(len(each.works) for each in self.oracles) + 1, pointer)
            self.oracles[shard].works[found.number] = found
        return found

    @rule(topic=TOPIC, number=THROUGH, fate=FATE, data=st.data())
    def publish_in_a_transaction(
        self, topic: TopicId, number: int, fate: tuple[Mode, int], data: st.DataObject
    ) -> None:
        work = self.opened(topic, number, data) if self.has(topic) else None
        if work is None or work.is_in_doubt:
            return
        pointer, payloads = work.transaction_id, self.payloads(2, work.number)
        done, published = self.tried(
            number,
            self.shard_of(topic),
            lambda to: to.messaging.publish(topic, with_keys(payloads), pointer),
            fate,
        )
        if done and published is not None:
            assert published.rollback_range is not None
            work.published.append((topic, published.rollback_range))
            work.certain.setdefault(topic, []).extend(payloads)
            self.oracle(topic).acknowledged[topic] += payloads
        work.is_in_doubt = done is False

    @rule(topic=TOPIC, moves=st.booleans(), number=THROUGH, fate=FATE, data=st.data())
    def commit(
        self,
        topic: TopicId,
        number: int,
        fate: tuple[Mode, int],
        data: st.DataObject,
        *,
        moves: bool,
    ) -> None:
        work = self.opened(topic, number, data)
        if work is None or work.is_in_doubt:
            return
        pointer = work.transaction_id
        advances = self.advances(topic, number) if moves else []
        done, _ = self.tried(
            number,
            self.shard_of(topic),
            lambda to: to.transactions.commit(pointer, CommitRequest(advances)),
            fate,
        )
        if done is None:
            return
        work.end = End.COMMITTED if done else End.UNKNOWN
        for advance in advances:
            self.moved(advance, done=done)
            self.positions[topic].mover = work

    @rule(topic=TOPIC, number=THROUGH, fate=FATE, data=st.data())
    def roll_back(
        self, topic: TopicId, number: int, fate: tuple[Mode, int], data: st.DataObject
    ) -> None:
        """Undo a transaction, as `TransactionContext` does: if that fails, it becomes invalid."""
        work = self.opened(topic, number, data)
        if work is None:
            return
        undone = work

        async def run(to: ShardedServices) -> None:
            try:
                for wrote, published in undone.published:
                    await to.messaging.rollback(wrote, published)
            except RollbackRefused:
                await to.transactions.invalidate(undone.transaction_id)
            else:
                does_abort = not undone.is_in_doubt
                end = to.transactions.abort if does_abort else to.transactions.invalidate
                await end(undone.transaction_id)

        done, _ = self.tried(number, self.shard_of(topic), run, fate)
        if done is not None:
            work.end = End.UNDONE if done else End.UNDOING

    # Acts on several shards.

    @rule(topic=TOPIC, of=TOPIC, number=THROUGH, data=st.data())
    def read_by_a_transaction(
        self, topic: TopicId, of: TopicId, number: int, data: st.DataObject
    ) -> None:
        """Read in a transaction, perhaps of another shard: it sees nothing that is in progress."""
        self.publish_in_a_transaction(topic, number, (Mode.ANSWERED, 0), data)
        work, server = self.opened(of, number, data), self.server(number)
        if work is None or not self.has(topic):
            return
        try:
            services = server.way(self.shard_of(of))
            view = self.await_(services.transactions.transaction(work.transaction_id))
            found = self.await_(self.poll(server.way(self.shard_of(topic)), topic, view))
        except Unavailable:
            return
        except TransactionUnknown:
            assert self.shard_of(topic) != self.shard_of(of)
            return
        given = {number_of(payload) for _, payload in found} - {work.number}
        others = self.oracle(topic).works
        ends = {others[each].end for each in given if each}
        assert not ends & {*_NOT_GIVEN}, "of a transaction that did not commit"

    @rule(topic=TOPIC, of=TOPIC, number=THROUGH, commits=st.booleans(), data=st.data())
    def reach_over(
        self, topic: TopicId, of: TopicId, number: int, data: st.DataObject, *, commits: bool
    ) -> None:
        """Use a topic of another shard in a transaction: the request has no effect."""
        shard, server = self.shard_of(of), self.server(number)
        work = None if shard == self.shard_of(topic) else self.opened(of, number, data)
        if work is None or not self.has(topic):
            return
        pointer = work.transaction_id
        try:
            if commits:
                request = CommitRequest([Advance(topic, NAME, bytes(20), 0)])
                self.await_(server.way(shard).transactions.commit(pointer, request))
            else:
                messaging = server.way(self.shard_of(topic)).messaging
                self.await_(messaging.publish(topic, with_keys(self.payloads(1)), pointer))
        except (Unavailable, OutcomeUnknown, TopicNotFound, TransactionUnknown):
            return
        raise AssertionError("a transaction over shards")

    @rule(number=THROUGH)
    def list_all(self, number: int) -> None:
        """Compare the lists that a server makes of all shards, if it can."""
        services = self.server(number).services
        with suppress(Unavailable):
            infos = self.await_(services.transactions.in_progress())
            listed = {each.transaction_id for each in infos}
            for work in (each for oracle in self.oracles for each in oracle.works.values()):
                if work.end in (End.OPEN, End.COMMITTED, End.UNDONE):
                    is_listed = work.transaction_id in listed
                    assert is_listed == (work.end is End.OPEN), "a list is not as it is"
        for namespace in sorted({topic.namespace for topic in TOPICS}):
            with suppress(Unavailable):
                names = self.await_(self.way_to_list(number, namespace).messaging.topics(namespace))
                known = self.created.items()
                own = {each.name: sure for each, sure in known if each.namespace == namespace}
                assert {each for each, sure in own.items() if sure} <= set(names) <= set(own)

    @rule(topic=TOPIC, data=st.data())
    def sleep_through_a_takeover(self, topic: TopicId, data: st.DataObject) -> None:
        """Make another server lead; the earlier leader answers once more before it finds out."""
        shard = self.shard_of(topic)
        turn = self.leader(shard)
        if turn is not None:
            slept = self.servers.index(turn.server)
            self.commit(topic, slept, (Mode.ANSWERED, 0), data, moves=False)
            self.take_over(shard, slept + 1, deaf={slept}, is_given_back=False)
            self.commit(topic, slept + 1, (Mode.ANSWERED, 0), data, moves=False)
            self.a_request_in_hand(topic)
            self.list_all(slept)

    def way_to_list(self, number: int, namespace: str) -> ShardedServices:
        """Return the services that list a namespace's topics. Raises `NoLeader`."""
        server = self.server(number)
        by_namespace = self.sharding.by == "namespace"
        return server.way(self.sharding.home(namespace)) if by_namespace else server.services

    # Positions.

    def advances(self, topic: TopicId, number: int) -> list[Advance]:
        """Return a move of the topic's position, if it has a position."""
        with suppress(Unavailable):
            found = None
            if self.created.get(topic):
                found = self.position(topic, self.server(number).way(self.shard_of(topic)))
            if found is not None:
                return [Advance(topic, NAME, b"%020d" % self.count, found.version)]
        return []

    def moved(self, advance: Advance, *, done: bool) -> None:
        version = advance.expected_version + 1
        moved = SubscriptionPosition(advance.topic_id, NAME, advance.after, version)
        self.put(advance.topic_id, moved, done=done)

    def put(self, topic: TopicId, place: object, *, done: bool) -> None:
        turn = self.leader(self.shard_of(topic))
        self.positions[topic].put(place, turn, done=done)  # type: ignore[arg-type]

    @rule(topic=TOPIC, number=THROUGH, fate=FATE)
    def move(self, topic: TopicId, number: int, fate: tuple[Mode, int]) -> None:
        for advance in self.advances(topic, number):
            done, _ = self.tried(number, self.shard_of(topic), partial(_advance, advance), fate)
            if done is not None:
                self.moved(advance, done=done)

    @rule(topic=TOPIC, number=THROUGH, fate=FATE)
    def create_or_delete(self, topic: TopicId, number: int, fate: tuple[Mode, int]) -> None:
        shard = self.shard_of(topic)
        if not self.has(topic):
            return
        try:
            is_there = self.position(topic, self.server(number).way(shard)) is not None
        except (NoLeader, Unavailable):
            return
        if is_there:
            done, _ = self.tried(
                number, shard, lambda to: to.subscriptions.delete_subscription(topic, NAME), fate
            )
            made = None
        else:
            done, answer = self.tried(
                number, shard, lambda to: to.subscriptions.create_subscription(topic, NAME), fate
            )
            made = answer if done else ANY
        if done is not None:
            self.put(topic, made, done=done)
