"""Groups under successive leaders: an acknowledged state stays the same under the next leader.

Members take, settle, fall silent and come late, across any takeover; acks are sent alone or with
commits. Each time a topic is read, its group is compared: every committed message that was read is
open, or is acknowledged once and for good (`Followed`).
"""

import asyncio
from contextlib import suppress
from typing import Any

from hypothesis import strategies as st
from hypothesis.stateful import initialize, precondition, rule

from tests.messaging.groups.followed import Followed, Given
from tests.simulation.gateway import Mode
from tests.simulation.leaders import End, Leader, Work
from tests.simulation.leaders_machine import LeadersMachine
from tests.simulation.leaders_world import FATES, HELD, TOPICS
from tms.core.errors import AckRefused, OutcomeUnknown, Unavailable
from tms.core.services.commits import CommitRequest
from tms.core.values.group_settings import GroupSettings, Order
from tms.core.values.groups import (
    Acks,
    CommitAcks,
    Nacks,
    Releases,
    SeekTo,
    Settle,
    Take,
)
from tms.core.values.topic import TopicId

GROUP = "g"
GROUP_TOPIC = TOPICS[0]
MEMBERS = st.sampled_from(["a", "b"])
ANSWERED = (Mode.ANSWERED, 0)
LEASE_S = 2
BACK = st.integers(0, 3)
"""The latest take, or one before it."""
Fate = tuple[Mode, int]


class GroupLeaders(LeadersMachine):
    """One group of one topic, which leaders hand on."""

    def __init__(self) -> None:
        super().__init__()
        self.followed = Followed()
        self.in_doubt_of: Leader | None = None
        """The leader of an unanswered request, which is decided once another reads the group."""
        self.carried: dict[int, list[bytes]] = {}
        """Ids acknowledged by commits that got no answer, by the numbers of their works."""
        self.beside: set[bytes] = set()
        """Ids acknowledged by a former leader, before the next one may have read the group."""

    @initialize(order=st.sampled_from(Order))
    def begin(self, order: Order) -> None:
        super().begin()
        settings = GroupSettings(order=order, lease_s=LEASE_S, retry_s=1, retry_s_max=2)
        self.await_(self.services.groups.create_group(GROUP_TOPIC, GROUP, settings))

    # -- leaders

    def open_leader(self) -> None:
        super().open_leader()
        # The next request writes the edits of takes: a timer would make each run different.
        self.services.groups._groups._flush_s = 3600.0

    def end_leader(self, leader: Leader) -> None:
        leader.lease.end()
        try:  # it pauses, and does not know that another leads
            taken = self.await_(leader.services.groups.take(GROUP_TOPIC, GROUP, Take("late", 9)))
        except (Unavailable, OutcomeUnknown):
            pass
        else:
            assert taken.delivery is None, "given without a lease"
        super().end_leader(leader)

    def go_on_beside(self, before: Leader) -> None:
        """A former leader answers a take, perhaps with messages given elsewhere too, but no ack."""
        groups = before.services.groups
        with suppress(Unavailable, OutcomeUnknown):
            taken = self.await_(groups.take(GROUP_TOPIC, GROUP, Take("beside", 2)))
            ids = [message.id for block in taken.blocks for message in block]
            settle = Settle(acks=[Acks(taken.delivery or 0, ids)])
            self.beside |= set(ids)
            self.in_doubt_of = self.leader
            settled = self.await_(groups.settle(GROUP_TOPIC, GROUP, "beside", settle))
            assert not self.followed.acked(ids, settled), "acknowledged beside another leader"
        super().go_on_beside(before)

    def find_out(self, work: Work) -> None:
        was_unknown = work.end is End.UNKNOWN
        super().find_out(work)
        ids = self.carried.pop(work.number, [])
        if was_unknown and work.end is End.COMMITTED:
            self.followed.acknowledge(ids)
        elif was_unknown:
            self.followed.maybe -= set(ids)

    def look(self, topic: TopicId) -> bool:
        can_be_read = super().look(topic)
        if can_be_read and topic == GROUP_TOPIC:
            can_be_read = self.look_at_group()
        return can_be_read

    def look_at_group(self) -> bool:
        """Compare the group with what readers just got; return whether it could be read."""
        groups = self.services.groups
        try:
            shown = self.await_(groups.group(GROUP_TOPIC, GROUP))
            opened = self.await_(groups.open_messages(GROUP_TOPIC, GROUP, limit=10_000))
        except Unavailable:
            return False
        self.followed.maybe |= self.beside
        is_decided = self.in_doubt_of not in (None, self.leader)
        self.followed.see(
            shown.state.through,
            {one.id for one in opened},
            [each for each, _ in self.committed[GROUP_TOPIC]],
            is_decided=is_decided,
        )
        if is_decided:
            self.in_doubt_of = None
            self.beside.clear()
        return True

    # -- members

    @precondition(lambda self: not self.is_cut)
    @rule(member=MEMBERS, messages=st.integers(1, 4), anew=st.booleans())
    def take(self, member: str, messages: int, anew: bool) -> None:  # noqa: FBT001
        if not self.look(GROUP_TOPIC):
            return  # the set of committed messages must be known
        committed = {payload for _, payload in self.committed[GROUP_TOPIC]}
        take = Take(member, messages, anew=anew)
        done, taken = self.tried(self.services.groups.take(GROUP_TOPIC, GROUP, take), ANSWERED)
        if done:
            self.followed.note(member, taken, committed)

    @precondition(lambda self: not self.is_cut)
    @rule(member=MEMBERS, back=BACK, fate=FATES)
    def take_and_ack(self, member: str, back: int, fate: Fate) -> None:
        """Publish, take, and acknowledge the messages of this take or of earlier ones."""
        self.publish(GROUP_TOPIC, 2, ANSWERED)
        self.take(member, 2, anew=False)
        self.ack(back, 0, fate)

    def settled(self, given: Given, settle: Settle, fate: Fate) -> Any:
        """Settle; return the answer, or None without one."""
        self.followed.maybe |= self.beside
        work = self.services.groups.settle(GROUP_TOPIC, GROUP, given.member, settle)
        _, answer = self.tried(work, fate)
        if answer is None:
            self.in_doubt_of = self.leader
        return answer

    @precondition(lambda self: not self.is_cut)
    @rule(back=BACK, first=st.integers(0, 1), fate=FATES)
    def ack(self, back: int, first: int, fate: Fate) -> None:
        given = self.followed.latest(back)
        if given is not None:
            ids = given.ids[first:]
            settle = Settle(acks=[Acks(given.delivery, ids)])
            self.followed.acked(ids, self.settled(given, settle, fate))

    @precondition(lambda self: not self.is_cut)
    @rule(back=BACK, held=HELD, member=MEMBERS)
    def ack_and_hand_on(self, back: int, held: Fate, member: str) -> None:
        """Deliver acks after the next leader has read the group and carried out other acks."""
        self.take_and_ack(member, back, held)
        self.take_over(0, {GROUP_TOPIC}, writes=False)
        self.take_and_ack(member, 0, ANSWERED)
        for call in self.late[-2:]:
            self.arrive(call)
        self.take_over(0, {GROUP_TOPIC}, writes=False)

    @precondition(lambda self: not self.is_cut)
    @rule(back=BACK, how=st.sampled_from(["nack", "now", "release", "extend", "leave"]), fate=FATES)
    def settle(self, back: int, how: str, fate: Fate) -> None:
        given = self.followed.latest(back)
        if given is not None:
            settle = {
                "nack": Settle(nacks=[Nacks(given.delivery)]),
                "now": Settle(nacks=[Nacks(given.delivery, delay_s=0)]),
                "release": Settle(releases=[Releases(given.delivery)]),
                "extend": Settle(extend=[]),
                "leave": Settle(leave=True),
            }[how]
            self.settled(given, settle, fate)

    @precondition(lambda self: not self.is_cut)
    @rule(by_ms=st.sampled_from([1_100, LEASE_S * 1_000 + 1]))
    def fall_silent(self, by_ms: int) -> None:
        """Let members stay silent until waits or leases are over."""
        self.now_ms += by_ms
        self.leader.clock.advance(by_ms)
        self.renew()

    @precondition(lambda self: not self.is_cut)
    @rule(fate=FATES)
    def seek(self, fate: Fate) -> None:
        """Begin again."""
        work = self.services.groups.seek(GROUP_TOPIC, GROUP, SeekTo.START)
        done, _ = self.tried(work, fate)
        self.carried.clear()
        self.followed.sought(is_sure=done)
        if not done:
            self.in_doubt_of = self.leader

    # -- acks with commits

    @precondition(lambda self: not self.is_cut)
    @rule(back=BACK, fate=FATES, data=st.data())
    def commit_with_acks(self, back: int, fate: Fate, data: st.DataObject) -> None:
        given, work = self.followed.latest(back), self.opened(data)
        if given is None or work is None or work.is_in_doubt or work.stored:
            return
        request = CommitRequest(acks=[self.acks_of(given)])
        committing = self.services.transactions.commit(work.transaction_id, request)
        try:
            done, _ = self.tried(committing, fate)
        except AckRefused:
            return  # it is still in progress
        work.end = End.COMMITTED if done else End.UNKNOWN
        if done:
            self.followed.acknowledge(given.ids)
        else:
            self.followed.maybe |= set(given.ids)
            self.carried[work.number] = given.ids
            self.in_doubt_of = self.leader

    def acks_of(self, given: Given) -> CommitAcks:
        return CommitAcks(GROUP_TOPIC, GROUP, given.member, given.delivery, given.ids)

    @precondition(lambda self: not self.is_cut)
    @rule(back=BACK, held=HELD, member=MEMBERS, data=st.data())
    def commit_with_acks_and_hand_on(
        self, back: int, held: Fate, member: str, data: st.DataObject
    ) -> None:
        """Make the next leader continue with a commit and its acks, or with neither."""
        self.publish(GROUP_TOPIC, 1, ANSWERED)
        self.take(member, 2, anew=False)
        self.commit_with_acks(back, held, data)
        self.take_over(0, {GROUP_TOPIC}, writes=False)

    @precondition(lambda self: not self.is_cut)
    @rule(member=MEMBERS, data=st.data())
    def ack_twice_at_once(self, member: str, data: st.DataObject) -> None:
        """Ack the same messages by a commit and a settle of one flush: only one succeeds."""
        self.publish(GROUP_TOPIC, 1, ANSWERED)
        self.take(member, 2, anew=False)
        given, work = self.followed.latest(0), self.opened(data)
        if given is None or work is None or work.is_in_doubt or work.stored:
            return
        settle = Settle(acks=[Acks(given.delivery, given.ids)])
        request = CommitRequest(acks=[self.acks_of(given)])

        async def both() -> tuple[Any, Any]:
            return await asyncio.gather(
                self.services.groups.settle(GROUP_TOPIC, GROUP, given.member, settle),
                self.services.transactions.commit(work.transaction_id, request),
                return_exceptions=True,
            )

        settled, committed = self.await_(both())
        for failure in (settled, committed):
            if isinstance(failure, BaseException) and not isinstance(
                failure, AckRefused | Unavailable | OutcomeUnknown
            ):
                raise failure
        if not isinstance(committed, BaseException):
            work.end = End.COMMITTED
            self.followed.acknowledge(given.ids)
        elif not isinstance(committed, AckRefused):
            work.end = End.UNKNOWN
            self.carried[work.number] = given.ids
            self.followed.maybe |= set(given.ids)
            self.in_doubt_of = self.leader
        if isinstance(settled, BaseException):
            self.in_doubt_of = self.leader
        self.followed.acked(given.ids, settled)

    # -- the end

    def teardown(self) -> None:
        """Check that a good worker of the next leader gets all remaining messages, each once."""
        try:
            if self.leaders:
                self.take_over(0, set(), writes=False)
                self.drain()
        finally:
            super().teardown()

    def drain(self) -> None:
        for work in self.works.values():
            if work.end is End.OPEN:
                self.await_(self.services.transactions.invalidate(work.transaction_id))
                work.end = End.UNDONE
        assert self.look(GROUP_TOPIC), "a new leader can read all"
        for _ in range(100):
            self.fall_silent(LEASE_S * 1_000 + 1)
            self.take("good", 1_000, anew=False)
            self.ack(0, 0, ANSWERED)
            all_ids = {each for each, _ in self.committed[GROUP_TOPIC]}
            if self.followed.acknowledged == all_ids:
                break
        else:
            raise AssertionError("messages are never given")
        assert self.look_at_group()
