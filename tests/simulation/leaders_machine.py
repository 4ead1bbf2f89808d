"""Leaders in quick succession, each of whose calls may arrive at any later moment.

Any call of a leader may be held, or held and repeated; it arrives whole or in part, once, again or
never. Readers of all leaders get one log: it only grows at its end, ids ascend, every acknowledged
message is there, and transactions are whole. Positions are where the committed moves have put them.
Clocks differ, and go back.
"""

from contextlib import suppress

from hypothesis import strategies as st
from hypothesis.stateful import precondition, rule

from tests.simulation.gateway import Mode
from tests.simulation.leaders import (
    ANY,
    End,
    Work,
)
from tests.simulation.leaders_world import FATES, HELD, NAME, TOPIC, LeadersWorld, with_keys
from tms.core.errors import (
    RollbackRefused,
    TopicMoved,
    Unavailable,
)
from tms.core.services.commits import CommitRequest, Stored
from tms.core.services.messaging import NO_ENTRIES
from tms.core.services.transactions import StartRequest
from tms.core.values.subscriptions import Advance, SubscriptionPosition
from tms.core.values.topic import TopicId

TIMEOUT_S = 86_400


class LeadersMachine(LeadersWorld):
    """Transactions and positions, which leaders hand on."""

    def __init__(self) -> None:
        super().__init__()
        self.pruned: set[int] = set()
        """The pointers that were removed from the list of invalid transactions."""

    @precondition(lambda self: not self.is_cut)
    @rule(topic=TOPIC, fate=FATES)
    def write_the_registry(self, topic: TopicId, fate: tuple[Mode, int]) -> None:
        """Publish only if the topic has nothing after the last message read, as the master does."""
        if not self.look(topic):
            return
        shown, payloads = self.oracle.shown[topic], self.payloads(1)
        last = shown[-1][0] if shown else NO_ENTRIES
        publishing = self.services.messaging.publish(topic, with_keys(payloads), if_last=last)
        try:
            done, _ = self.tried(publishing, fate)
        except TopicMoved:
            return  # the unanswered publish turned out to be there
        if done:
            self.acknowledged[topic] += payloads
            if self.look(topic):
                at = [payload for _, payload in self.oracle.shown[topic]].index(payloads[0])
                assert at == len(shown), "something came between"

    @precondition(lambda self: not self.is_cut)
    @rule(fate=FATES)
    def prune(self, fate: tuple[Mode, int]) -> None:
        """Remove a transaction that wrote nothing from the invalid list, as cleanup does."""
        transactions = self.services.transactions
        done, started = self.tried(transactions.start(StartRequest()), (Mode.ANSWERED, 0))
        if not done:
            return
        pointer = started.transaction_id
        if not self.tried(transactions.invalidate(pointer), (Mode.ANSWERED, 0))[0]:
            return
        if self.tried(transactions.truncate_invalid_ids([pointer]), fate)[0]:
            self.pruned.add(pointer)
        with suppress(Unavailable):
            listed = self.await_(self.services.transactions.invalid())
            assert self.pruned.isdisjoint(each.transaction_id for each in listed)

    def opened(self, data: st.DataObject) -> Work | None:
        """Return a transaction that continues, or a new one; None if none can be started."""
        open_ones = [each for each in self.works.values() if each.end is End.OPEN]
        found: Work | None = data.draw(st.sampled_from([*open_ones * 3, None]))
        if found is None:
            request = StartRequest(timeout_s=TIMEOUT_S)
            done, started = self.tried(
                self.services.transactions.start(request), (Mode.ANSWERED, 0)
            )
            if not done:
                return None
            found = Work(len(self.works) + 1, started.transaction_id)
            self.works[found.number] = found
        return found

    @precondition(lambda self: not self.is_cut)
    @rule(topic=TOPIC, fate=FATES, data=st.data())
    def publish_in_a_transaction(
        self, topic: TopicId, fate: tuple[Mode, int], data: st.DataObject
    ) -> None:
        work = self.opened(data)
        if work is None or work.is_in_doubt:
            return
        payloads = self.payloads(2, work.number)
        pointer = work.transaction_id
        done, published = self.tried(
            self.services.messaging.publish(topic, with_keys(payloads), pointer), fate
        )
        if done:
            work.published.append((topic, published.rollback_range))
            work.certain.setdefault(topic, []).extend(payloads)
            self.acknowledged[topic] += payloads
        work.is_in_doubt = not done

    @precondition(lambda self: not self.is_cut)
    @rule(topic=TOPIC, fate=FATES, data=st.data())
    def store(self, topic: TopicId, fate: tuple[Mode, int], data: st.DataObject) -> None:
        """Store something. Without an answer it may be stored or not; the transaction continues."""
        work = self.opened(data)
        if work is None or work.is_in_doubt:
            return
        payloads = self.payloads(2, work.number)
        done, _ = self.tried(
            self.services.messaging.store(topic, with_keys(payloads), work.transaction_id), fate
        )
        if done:
            work.stored.setdefault(topic, []).extend(payloads)

    @precondition(lambda self: not self.is_cut)
    @rule(topic=TOPIC, held=HELD, data=st.data())
    def store_and_hand_on(
        self, topic: TopicId, held: tuple[Mode, int], data: st.DataObject
    ) -> None:
        """Let the next leader continue a transaction that has stored something."""
        self.store(topic, (Mode.ANSWERED, 0), data)
        if not self.is_cut:
            self.store(topic, held, data)
        self.take_over(0, set(), writes=False)
        self.commit((Mode.ANSWERED, 0), None, data)
        self.look(topic)

    @precondition(lambda self: not self.is_cut)
    @rule(fate=FATES, moves=st.none() | TOPIC, data=st.data())
    def commit(self, fate: tuple[Mode, int], moves: TopicId | None, data: st.DataObject) -> None:
        work = self.opened(data)
        if work is None or work.is_in_doubt:
            return
        advances = [] if moves is None else self.advances(moves)
        publish = [Stored(topic, work.transaction_id) for topic in sorted(work.stored)]
        done, _ = self.tried(
            self.services.transactions.commit(
                work.transaction_id, CommitRequest(advances, publish)
            ),
            fate,
        )
        work.end = End.COMMITTED if done else End.UNKNOWN
        for topic, payloads in work.stored.items() if done else ():
            self.acknowledged[topic] += payloads
        for advance in advances:
            self.moved(advance, done=done)
            self.positions[advance.topic_id].mover = work

    @precondition(lambda self: not self.is_cut)
    @rule(held=HELD, data=st.data())
    def commit_and_hand_on(self, held: tuple[Mode, int], data: st.DataObject) -> None:
        """Make the next leader continue with a commit, or without it."""
        self.commit(held, None, data)
        self.take_over(0, set(), writes=False)

    @precondition(lambda self: not self.is_cut)
    @rule(fate=FATES, data=st.data())
    def roll_back(self, fate: tuple[Mode, int], data: st.DataObject) -> None:
        """Undo a transaction, as `TransactionContext` does: if that fails, it becomes invalid."""
        work = self.opened(data)
        if work is None:
            return

        async def run() -> None:
            transactions = self.services.transactions
            try:
                for topic, published in work.published:
                    await self.services.messaging.rollback(topic, published)
            except RollbackRefused:
                await transactions.invalidate(work.transaction_id)
            else:
                end = transactions.invalidate if work.is_in_doubt else transactions.abort
                await end(work.transaction_id)

        done, _ = self.tried(run(), fate)
        work.end = End.UNDONE if done else End.UNDOING

    def advances(self, topic: TopicId) -> list[Advance]:
        """Return a move of the topic's position, if it has a position."""
        with suppress(Unavailable):
            found = self.position(topic)
            if found is not None:
                return [Advance(topic, NAME, b"%020d" % self.count, found.version)]
        return []

    def moved(self, advance: Advance, *, done: bool) -> None:
        version = advance.expected_version + 1
        moved = SubscriptionPosition(advance.topic_id, NAME, advance.after, version)
        self.positions[advance.topic_id].put(moved, self.leader, done=done)

    @precondition(lambda self: not self.is_cut)
    @rule(topic=TOPIC, fate=FATES)
    def move(self, topic: TopicId, fate: tuple[Mode, int]) -> None:
        for advance in self.advances(topic):
            done, _ = self.tried(self.services.subscriptions.advance(advance), fate)
            self.moved(advance, done=done)

    @precondition(lambda self: not self.is_cut)
    @rule(topic=TOPIC, held=HELD)
    def move_and_hand_on(self, topic: TopicId, held: tuple[Mode, int]) -> None:
        """Make the next leader find a position that this one may still move."""
        self.move(topic, held)
        self.take_over(0, {topic}, writes=False)

    @precondition(lambda self: not self.is_cut)
    @rule(topic=TOPIC, fate=FATES)
    def create_or_delete(self, topic: TopicId, fate: tuple[Mode, int]) -> None:
        subscriptions = self.services.subscriptions
        try:
            is_there = self.position(topic) is not None
        except Unavailable:
            return
        if is_there:
            done, _ = self.tried(subscriptions.delete_subscription(topic, NAME), fate)
            self.positions[topic].put(None, self.leader, done=done)
        else:
            done, made = self.tried(subscriptions.create_subscription(topic, NAME), fate)
            self.positions[topic].put(made if done else ANY, self.leader, done=done)
