"""Groups on a whole service, with silent and late members and a store that dies at a write.

This is not an exact model: `group_machine.py` has the model of the rules. This machine follows all
answers. An acknowledged message is never delivered again, a commit's acks hold if and only if its
message exists, and in the end a good worker gets all the others, each once.
"""

import asyncio
from collections.abc import Coroutine
from contextlib import suppress
from typing import Any, ClassVar, TypeVar

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, precondition, rule
from prometheus_client import CollectorRegistry

from tables.store_tables import StoreTables
from tests.manual_clock import ManualClock
from tests.messaging.conftest import NOW_MS, TOPIC
from tests.messaging.groups.followed import Followed, Given
from tests.store_calls import call_in_loop
from tests.virtual_loop import VirtualLoop
from tests.waiting import turns, until
from tms.core.errors import AckRefused, SubscriptionNotFound, TmsError
from tms.core.limits import Limits
from tms.core.services.commits import CommitRequest
from tms.core.services.transactions import StartRequest
from tms.core.values.filters import Filter
from tms.core.values.frame import bodies_of, encode_body
from tms.core.values.group_settings import GroupSettings, Order
from tms.core.values.groups import (
    Acks,
    CommitAcks,
    LimitedBy,
    Nacks,
    Releases,
    Settle,
    Take,
    Taken,
)
from tms.core.values.message import FIRST_ID, Message
from tms.core.values.reading import Reading
from tms.core.values.topic import TopicId
from tms.messaging.store_threads import StoreThread
from tms.server.node import OpenServices, services_on

DEAD = TopicId(TOPIC.namespace, f"{TOPIC.name}--dead")
Result = TypeVar("Result")
MEMBERS = st.sampled_from(["a", "b", "c"])
KEYS = st.lists(st.sampled_from([b"k", b"l", None]), min_size=1, max_size=4)


class GroupServiceMachine(RuleBasedStateMachine):
    """Subclasses give the store."""

    order: ClassVar[Order]
    store: Any

    def open_store(self) -> StoreTables:
        raise AssertionError("a subclass gives the store")

    @initialize(attempts_max=st.sampled_from([0, 1, 2]))
    def begin(self, attempts_max: int) -> None:
        self.patch = pytest.MonkeyPatch()
        self.patch.setattr(StoreThread, "call", call_in_loop)
        self.loop = VirtualLoop()
        self.clock = ManualClock(NOW_MS)
        self.count = 0
        self.committed: dict[bytes, bytes | None] = {}
        """Payloads and keys of messages that certainly exist."""
        self.doubtful: dict[bytes, bytes | None] = {}
        """Payloads and keys of publishes without an answer."""
        self.open: dict[int, bytes] = {}
        """Transactions in progress, and what they published."""
        self.unsure: set[int] = set()
        """Transactions whose commit had no answer."""
        self.attempts_max = attempts_max
        self.earlier: set[bytes] = set()
        """Ids of the dead letters of groups that were deleted."""
        self.redriven: set[bytes] = set()
        """Ids of messages that may have been redriven."""
        self.follow()
        self.pairs: list[tuple[bytes, list[bytes]]] = []
        """The message of a commit without an answer, and the ids that it acknowledged."""
        self.run(self.start())
        for topic_id in (TOPIC, DEAD):
            self.run(self.services.messaging.create_topic(topic_id))
        self.run(self.create())

    def follow(self) -> None:
        # Nobody settles a message that becomes a dead letter.
        self.followed = Followed(keeps_all=not self.attempts_max)

    async def create(self) -> None:
        settings = GroupSettings(
            order=self.order,
            lease_s=5,
            retry_s=1,
            retry_s_max=3,
            attempts_max=self.attempts_max,
            dead_letter=DEAD.name if self.attempts_max else "",
            dead_letters_max=10_000,
        )
        await self.services.groups.create_group(TOPIC, "g", settings)
        self.rate = 0
        self.filter = ""
        self.passable: set[bytes] = set()
        """Payloads that a filter of the group may have passed; below, those of the present one."""
        self.passed: set[bytes] = set()

    def run(self, work: Coroutine[Any, Any, Result]) -> Result:
        return self.loop.run_until_complete(work)

    async def start(self) -> None:
        self.services: OpenServices = await services_on(
            self.open_store(), Limits(), self.clock, CollectorRegistry()
        )
        self.begin_rate()

    def begin_rate(self) -> None:
        """Restart the count of taken messages: a group read again may give a second's amount."""
        self.at_rate, self.rate_from_ms = 0, self.clock.steady_ms()

    async def again(self) -> None:
        """Wait until the services have recovered from a write that failed."""

        async def have_recovered() -> bool:
            try:
                await self.services.groups.group(TOPIC, "g")
                tx = await self.services.transactions.start(StartRequest())
                await self.services.transactions.abort(tx.transaction_id)
            except TmsError:
                return False
            return True

        await until(have_recovered)
        self.begin_rate()

    def body(self, key: bytes | None) -> tuple[bytes, bytes]:
        self.count += 1
        payload = b"%d" % self.count
        if not self.matches(key):
            self.passed.add(payload)
        return payload, bodies_of([encode_body(payload, key)])[0]

    def matches(self, key: bytes | None) -> bool:
        return not self.filter or Filter(self.filter).matches_message(key, {})

    # -- what publishers do

    @rule(keys=KEYS)
    def publish(self, keys: list[bytes | None]) -> None:
        for key in keys:
            payload, body = self.body(key)
            self.run(self.services.messaging.publish(TOPIC, [body]))
            self.committed[payload] = key

    @precondition(lambda self: len(self.open) < 2)
    @rule()
    def begin_transaction(self) -> None:
        tx = self.run(self.services.transactions.start(StartRequest()))
        payload, body = self.body(None)
        self.run(self.services.messaging.publish(TOPIC, [body], tx.write_pointer))
        self.open[tx.transaction_id] = payload

    @precondition(lambda self: self.open)
    @rule(data=st.data(), dies=st.sampled_from([None, None, "before", "after"]))
    def commit(self, data: Any, dies: str | None) -> None:
        self.commit_with(data.draw(st.sampled_from(sorted(self.open))), None, dies)

    @rule(back=st.integers(0, 3), dies=st.sampled_from([None, None, "before", "after"]))
    def bill(self, back: int, dies: str | None) -> None:
        """Publish and acknowledge in one commit, perhaps late."""
        if not self.followed.given:
            self.take([None], "a", 1, False)
        if not self.followed.given:
            return  # behind a transaction that is in progress
        if len(self.open) < 2:
            self.begin_transaction()
        self.commit_with(max(self.open), self.followed.latest(back), dies)

    def commit_with(self, transaction_id: int, given: Given | None, dies: str | None) -> None:
        acks, ids = [], []
        if given is not None:
            ids = given.ids
            acks = [CommitAcks(TOPIC, "g", given.member, given.delivery, ids)]
        request = CommitRequest(acks=acks)
        work = self.services.transactions.commit(transaction_id, request)
        answer = self.under(work, dies)
        payload = self.open[transaction_id]
        if isinstance(answer, AckRefused):
            return
        del self.open[transaction_id]
        if isinstance(answer, TmsError):
            self.unsure.add(transaction_id)
            self.doubtful[payload] = None
            self.followed.acked(ids, answer)
            self.pairs.append((payload, ids))
            return
        self.committed[payload] = None
        self.followed.acknowledge(ids)
        self.check_pairs(ids)

    @precondition(lambda self: self.open)
    @rule(data=st.data())
    def abort(self, data: Any) -> None:
        transaction_id = data.draw(st.sampled_from(sorted(self.open)))
        del self.open[transaction_id]
        self.run(self.services.transactions.abort(transaction_id))

    # -- what members do

    @rule(
        keys=KEYS,
        member=MEMBERS,
        messages=st.integers(1, 5),
        anew=st.sampled_from([False, False, True]),
    )
    def take(
        self,
        keys: list[bytes | None],
        member: str,
        messages: int,
        anew: bool,  # noqa: FBT001
    ) -> None:
        # Without this most takes would find nothing, and most rules would have nothing to do.
        self.publish(keys)
        self.note(member, self.taken(Take(member, messages, anew=anew)))

    def taken(self, take: Take) -> Taken:
        taken = self.run(self.services.groups.take(TOPIC, "g", take))
        self.at_rate += sum(1 for block in taken.blocks for _ in block)
        elapsed_ms = self.clock.steady_ms() - self.rate_from_ms
        assert not self.rate or self.at_rate * 1_000 <= self.rate * (1_000 + elapsed_ms)
        return taken

    @rule(rate=st.sampled_from([0, 3, 20]), member=MEMBERS)
    def set_rate(self, rate: int, member: str) -> None:
        self.run(self.services.groups.set_group(TOPIC, "g", {"rate": rate}))
        self.rate = rate
        self.begin_rate()
        for _ in range(2):
            self.take([None] * 3, member, 5, False)

    @rule(text=st.sampled_from(["", 'key = "k"', "not key exists"]), member=MEMBERS)
    def set_filter(self, text: str, member: str) -> None:
        self.run(self.services.groups.set_group(TOPIC, "g", {"filter": text}))
        # Messages that were read before are still delivered, passed ones are not.
        self.passable |= self.passed
        self.passed.clear()
        self.filter = text
        known = {**self.committed, **self.doubtful, **dict.fromkeys(self.open.values())}
        self.passable |= {payload for payload, key in known.items() if not self.matches(key)}
        self.take([b"k", None], member, 5, False)

    def note(self, member: str, taken: Taken) -> list[Message]:
        messages = self.followed.note(member, taken, {*self.committed, *self.doubtful})
        assert not self.passed & {message.payload for message in messages}
        return messages

    @precondition(lambda self: self.followed.given)
    @rule(
        data=st.data(),
        how=st.sampled_from(["ack", "ack", "nack", "reject", "release", "extend", "shorten"]),
        dies=st.sampled_from([None, None, None, "before", "after"]),
    )
    def settle(self, data: Any, how: str, dies: str | None) -> None:
        given = data.draw(st.sampled_from(self.followed.given[-4:]))
        ids = given.ids[data.draw(st.integers(0, 2)) :]
        settle = {
            "ack": Settle(acks=[Acks(given.delivery, ids)]),
            "nack": Settle(nacks=[Nacks(given.delivery, ids)]),
            "reject": Settle(nacks=[Nacks(given.delivery, ids, dead=True)]),
            "release": Settle(releases=[Releases(given.delivery, ids)]),
            "extend": Settle(extend=[given.delivery]),
            "shorten": Settle(extend=[given.delivery], lease_s=1),
        }[how]
        work = self.services.groups.settle(TOPIC, "g", given.member, settle)
        done = self.under(work, dies)
        if how == "ack":
            self.check_pairs(self.followed.acked(ids, done))

    @precondition(lambda self: self.attempts_max)
    @rule(
        count=st.integers(1, 3),
        is_oldest=st.booleans(),
        dies=st.sampled_from([None, None, "before", "after"]),
    )
    def redrive(self, count: int, dies: str | None, *, is_oldest: bool) -> None:
        groups = self.services.groups
        limit = 1_000 if is_oldest else count  # expired ones are passed
        letters = self.run(groups.dead_letters(TOPIC, "g", limit=limit)).letters
        self.redriven |= {each.origin.id for each in letters}
        if letters:
            ids = None if is_oldest else [each.id for each in letters]
            self.under(groups.redrive(TOPIC, "g", ids, limit=count), dies)

    @precondition(lambda self: self.attempts_max)
    @rule(gap=st.integers(0, 6))
    def reject_too_many(self, gap: int) -> None:
        """Reject more messages than may die; a group that stops stays paused after a restart."""
        groups = self.services.groups
        self.take([None] * 3, "a", 9, False)
        given = self.followed.latest(0)
        if given is None:
            return  # behind a transaction that is in progress
        self.run(groups.set_group(TOPIC, "g", {"dead_letters_max": 1}))
        self.run(self.rejected(given, gap))
        if self.taken(Take("a", 1)).limited_by is LimitedBy.PAUSED:
            self.run(until(self.is_paused))
            self.restart()
            assert self.taken(Take("a", 1)).limited_by is LimitedBy.PAUSED
        changes = {"paused": False, "dead_letters_max": 10_000}
        self.run(self.services.groups.set_group(TOPIC, "g", changes))

    @rule(number=st.integers(1, 2**50), member=MEMBERS)
    def ack_what_was_never_given(self, number: int, member: str) -> None:
        opened = self.run(self.services.groups.open_messages(TOPIC, "g"))
        settle = Settle(acks=[Acks(number, [each.id for each in opened])])
        done = self.run(self.services.groups.settle(TOPIC, "g", member, settle))
        assert (done.settled, len(done.refused)) == (0, len(opened))

    @rule(member=MEMBERS, times=st.integers(2, 3))
    def repeat_a_take(self, member: str, times: int) -> None:
        """Send a take several times at once, like a client that got no answer."""
        self.count += 1
        take = Take(member, 3, sequence=self.count)

        async def together() -> list[Taken]:
            takes = [self.services.groups.take(TOPIC, "g", take) for _ in range(times)]
            return await asyncio.gather(*takes)

        first, *others = self.run(together())
        self.note(member, first)
        assert {each.delivery for each in others} <= {first.delivery, None}

    @rule(back=st.integers(0, 3), waits=st.booleans(), commits=st.booleans())
    def make_the_group_again(self, back: int, waits: bool, commits: bool) -> None:  # noqa: FBT001
        """Delete the group during a waiting take and a commit with acks, and create it again.

        Earlier deliveries no longer count, and all messages are delivered again.
        """
        given = self.followed.latest(back)
        if commits and not self.open:
            self.begin_transaction()
        self.run(self.used_while_deleted(given if commits else None, waits=waits))
        self.earlier |= {each.id for each in self.run(self.letters())}
        self.redriven.clear()
        self.run(self.create())
        self.follow()
        self.pairs.clear()

    async def used_while_deleted(self, given: Given | None, *, waits: bool) -> None:
        groups, uses = self.services.groups, []
        if waits:
            take = groups.take(TOPIC, "g", Take("idle", 3), wait_s=30)
            uses.append(asyncio.create_task(take))
            await turns(5)
        deletion = asyncio.create_task(groups.delete_group(TOPIC, "g"))
        await turns()
        if given is not None:
            # The transaction ends in any case, so that later steps do not depend on the order.
            transaction_id = max(self.open)
            payload = self.open.pop(transaction_id)
            acks = [CommitAcks(TOPIC, "g", given.member, given.delivery, given.ids)]
            commit = self.services.transactions.commit(transaction_id, CommitRequest(acks=acks))
            try:
                await commit
                self.committed[payload] = None
            except TmsError:
                await self.services.transactions.abort(transaction_id)
        await deletion
        for use in uses:
            with suppress(SubscriptionNotFound):
                await use

    def check_pairs(self, ids: list[bytes]) -> None:
        """Check commits without an answer whose messages are acknowledged now."""
        for payload, pair in self.pairs:
            if set(pair) & set(ids):
                # The acks of the commit do not hold, so the commit was not done.
                self.committed.pop(payload, None)
                assert payload not in self.followed.seen.values(), "half of a commit is there"

    @rule(member=MEMBERS)
    def leave(self, member: str) -> None:
        self.run(self.services.groups.settle(TOPIC, "g", member, Settle(leave=True)))

    # -- what happens

    @rule(by_ms=st.sampled_from([1, 1000, 3000, 6000]))
    def pass_time(self, by_ms: int) -> None:
        self.clock.advance(by_ms)

    @rule(back=st.integers(0, 3), dies=st.sampled_from(["before", "after"]))
    def ack_while_the_store_dies(self, back: int, dies: str) -> None:
        given = self.followed.latest(back)
        if given is not None:
            settle = Settle(acks=[Acks(given.delivery)])
            work = self.services.groups.settle(TOPIC, "g", given.member, settle)
            answer = self.under(work, dies)
            assert isinstance(answer, TmsError)
            self.followed.acked(given.ids, answer)

    @rule()
    def restart(self) -> None:
        self.run(self.services.close())
        self.run(self.start())

    @precondition(lambda self: not self.open)  # transactions in progress would time out
    @rule(member=MEMBERS)
    def start_far_ahead(self, member: str) -> None:
        """Restart the machine with a clock that is 30 days ahead, and correct it after a take."""
        self.run(self.services.close())
        self.clock.reboot()
        self.clock.step(30 * 86_400_000)
        self.run(self.start())
        self.take([None], member, 5, False)
        self.clock.step(-30 * 86_400_000)

    def under(self, work: Coroutine[Any, Any, Any], dies: str | None) -> Any:
        """Return the answer or error; the store may die before or after the write."""
        self.store.writes_fail = dies is not None
        self.store.writes_happen_all_the_same = dies == "after"
        try:
            return self.run(work)
        except TmsError as error:
            return error
        finally:
            self.store.writes_fail = self.store.writes_happen_all_the_same = False
            if dies is not None:
                self.run(self.again())

    async def letters(self) -> list[Message]:
        """Return all dead letters of the present group."""
        poll = self.services.messaging.poll(DEAD, Reading(FIRST_ID))
        found = [message async for block in poll for message in block]
        return [each for each in found if each.id not in self.earlier]

    def teardown(self) -> None:
        if not hasattr(self, "services"):
            return
        try:
            self.drain()
            self.run(self.services.close())
        finally:
            self.loop.close()
            self.patch.undo()

    def drain(self) -> None:
        """Check that a good worker gets all remaining messages, those of a key in order."""
        for transaction_id in (*self.open, *self.unsure):
            with suppress(TmsError):
                self.run(self.services.transactions.abort(transaction_id))
        for _ in range(200):
            self.clock.advance(6000)
            messages = self.note("good", self.taken(Take("good", 100)))
            if messages:
                given = self.followed.given[-1]
                acks = Settle(acks=[Acks(given.delivery)])
                done = self.run(self.services.groups.settle(TOPIC, "g", "good", acks))
                assert (done.settled, done.refused) == (len(messages), [])
                self.check_pairs(self.followed.acked(given.ids, done))
                continue
            shown = self.run(self.services.groups.group(TOPIC, "g")).state
            assert shown.stopped_at is None
            if shown.dying:
                self.run(until(self.is_buried))
            if not shown.open and not shown.unread:
                break
        else:
            raise AssertionError("messages are never given")
        followed, letters = self.followed, self.run(self.letters())
        settled = {followed.seen[one] for one in followed.acknowledged | followed.maybe}
        kept = set(self.committed) - self.passed - self.passable
        assert kept <= settled | {each.payload for each in letters}, "never given"
        origins = {each.id: bytes.fromhex(each.headers["tms-dead-id"].decode()) for each in letters}
        once = {letter: origin for letter, origin in origins.items() if origin not in self.redriven}
        assert len(once) == len(set(once.values())), "two dead letters of one message"
        assert not followed.acknowledged & set(once.values()), "acknowledged, and dead"
        if self.attempts_max:
            listed = self.run(self.services.groups.dead_letters(TOPIC, "g", limit=1_000)).letters
            assert set(once) <= {each.id for each in listed} <= set(origins), "wrong ones listed"

    async def rejected(self, given: Given, gap: int) -> None:
        """Reject two messages, the second one perhaps while the first is written to its topic."""
        tasks = []
        for message_id in given.ids[:2]:
            settle = Settle(nacks=[Nacks(given.delivery, [message_id], dead=True)])
            work = self.services.groups.settle(TOPIC, "g", given.member, settle)
            tasks.append(asyncio.create_task(work))
            await turns(gap)
        await asyncio.gather(*tasks, until(self.is_buried))

    async def is_paused(self) -> bool:
        return (await self.services.groups.group(TOPIC, "g")).settings.paused

    async def is_buried(self) -> bool:
        return not (await self.services.groups.group(TOPIC, "g")).state.dying
