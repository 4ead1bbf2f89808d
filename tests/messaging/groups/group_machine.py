"""A model of a group that members take from; its stored rows are read again at each step."""

from itertools import pairwise
from typing import ClassVar

from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
)

from tms.core.values.group_settings import GroupSettings, Order
from tms.core.values.groups import (
    Acks,
    CommitAcks,
    Nacks,
    Refusal,
    Releases,
    Settle,
)
from tms.core.values.message import MessageId
from tms.messaging.groups.commands import GroupCommands
from tms.messaging.groups.edits import (
    decode_row,
)
from tms.messaging.groups.open_entries import Taker
from tms.messaging.groups.snapshots import decode_snapshot, encode_snapshot, freeze
from tms.messaging.groups.state import OpenMessages

T = 1_700_000_000_000
KEYS = st.lists(st.integers(0, 2), min_size=1, max_size=6)
BACK = st.integers(0, 4)
"""The last delivery, or an earlier one; most earlier ones hold no messages any more."""
PART = st.sampled_from((slice(None), slice(1), slice(1, None), slice(2, 3)))
HOW = st.sampled_from(
    ("ack", "ack all", "nack", "now", "reject", "release", "extend", "shorten", "lengthen")
)
MEMBERS = [Taker("a", None), Taker("b", "bea"), Taker("b", None), Taker("c", None)]


class GroupMachine(RuleBasedStateMachine):
    """Members that take, settle, fall silent and come late; the group is read again at any time.

    Subclasses define the order.
    """

    order: ClassVar[Order]

    def __init__(self) -> None:
        super().__init__()
        self.now_ms = T
        self.keys: dict[bytes, bytes] = {}
        self.settled: set[bytes] = set()
        self.given: list[tuple[int, Taker, tuple[bytes, ...]]] = []
        self.last: dict[bytes, tuple[int, Taker]] = {}
        """For each message, its last delivery and that delivery's member."""
        self.kept: set[bytes] = set()
        """The messages whose last delivery was written since the snapshot, or is in it."""
        self.unwritten: set[bytes] = set()
        """The messages whose last delivery was not written before a crash."""
        self.written: dict[bytes, tuple[int, Taker] | None] = {}
        """The delivery before, which a process that loads the group takes for the last one."""
        self.read_again: set[bytes] = set()
        """The messages that were read at a restart, and not delivered since."""
        self.window = range(0)
        """The delivery numbers that may have been used before the restart without being written."""
        self.dead: list[bytes] = []
        """The messages that are dead letters, and not redriven."""
        self.letters = 0
        self.rows: list[bytes] = []
        self.start = b""

    @initialize(
        member_max=st.sampled_from((1_000, 2)),
        attempts_max=st.sampled_from((0, 1, 2)),
        dead_letters_max=st.sampled_from((100, 2)),
    )
    def begin(self, member_max: int, attempts_max: int, dead_letters_max: int) -> None:
        self.by_key = self.order is Order.KEY
        self.settings = GroupSettings(
            order=self.order,
            member_max=member_max,
            retry_s_max=4,
            attempts_max=attempts_max,
            dead_letter="dead",
            dead_letters_max=dead_letters_max,
        )
        self.commands = GroupCommands(OpenMessages(by_key=self.by_key), self.settings, self.now_ms)
        self.snapshot()

    def snapshot(self) -> None:
        self.write()
        self.start, self.rows = encode_snapshot(freeze(self.commands.state)), []
        self.kept = {each for each, opened in self.commands.state.open.items() if opened.delivery}

    def write(self) -> None:
        row = self.commands.take_row()
        if row is not None:
            self.rows.append(row)

    def folded(self) -> OpenMessages:
        state = decode_snapshot(self.start, self.now_ms, by_key=self.by_key)
        for row in self.rows:
            for edit in decode_row(row, by_key=self.by_key):
                state.apply(edit, self.now_ms)
        return state

    def load(self) -> None:
        """Load the group from its written state."""
        state = self.folded()
        self.window = range(state.last_delivery + 1, self.now_ms * 1000)
        self.read_again = set(state.open)
        self.commands = GroupCommands(state, self.settings, self.now_ms)

    @rule(keys=KEYS)
    def publish(self, keys: list[int]) -> None:
        start = len(self.keys)
        ids = [MessageId(T, start + number).encode() for number in range(len(keys))]
        self.keys |= {each: bytes((key,)) * 8 for each, key in zip(ids, keys, strict=True)}
        digests = [self.keys[each] for each in ids] if self.by_key else []
        self.commands.read(ids[-1], ids, digests, self.now_ms)

    @rule(
        keys=KEYS,
        member=st.sampled_from(MEMBERS),
        limit=st.integers(1, 5),
        part=st.sampled_from((5, 5, 1)),
    )
    def take(self, keys: list[int], member: Taker, limit: int, part: int) -> None:
        # Without this most takes would find nothing, and most rules would have nothing to do.
        if keys:
            self.publish(keys)
        commands, now_ms = self.commands, self.now_ms
        commands.end_leases(now_ms)
        reserved = commands.reserve(min(limit, commands.room(member)), now_ms)
        assert list(reserved.ids) == sorted(reserved.ids)
        ids = commands.still_open(reserved)[:part]
        if not ids:
            commands.give_up(reserved)
            return
        number = commands.lease(
            reserved, ids, member, lease_ms=10_000, sequence=len(self.given), now_ms=now_ms
        )
        assert commands.repeated(member, len(self.given)) == number
        self.given.append((number, member, tuple(ids)))
        self.last |= dict.fromkeys(ids, (number, member))
        self.kept |= set(ids)
        self.unwritten -= set(ids)
        self.read_again -= set(ids)
        for each in ids:
            self.written.pop(each, None)
        for each in ids:
            assert each not in self.settled, "what is settled is not given"
            assert each not in commands.state.dying, "what is dying is not given"

    @rule(keys=KEYS, member=st.sampled_from(MEMBERS), part=PART, how=HOW)
    def take_and_settle(self, keys: list[int], member: Taker, part: slice, how: str) -> None:
        self.take(keys, member, 5, 5)
        self.settle(0, part, how)

    @rule(keys=KEYS, how=HOW)
    def come_late(self, keys: list[int], how: str) -> None:
        """Settle messages that another member has taken in the meantime."""
        self.take(keys, MEMBERS[0], 5, 5)
        self.pass_time(11)
        self.pass_time(4)
        self.take([], MEMBERS[1], 5, 5)
        if self.given:
            self.settle(1, slice(None), how)

    def some_of(self, back: int, part: slice) -> tuple[int, Taker, tuple[bytes, ...]]:
        """Return the last delivery or one before it, and a part of its ids."""
        number, member, ids = self.given[-1 - min(back, len(self.given) - 1)]
        return number, member, ids[part] or ids

    @precondition(lambda self: self.given)
    @rule(back=BACK, part=PART, how=HOW)
    def settle(self, back: int, part: slice, how: str) -> None:
        number, member, some = self.some_of(back, part)
        state = self.commands.state
        before = {each: state.open[each].delivery for each in some if each in state.open}
        wanted = {
            "ack": Settle(acks=[Acks(number, some)]),
            "ack all": Settle(acks=[Acks(number)]),
            "nack": Settle(nacks=[Nacks(number, some, reason="no")]),
            "reject": Settle(nacks=[Nacks(number, some, dead=True)]),
            "now": Settle(nacks=[Nacks(number, some, delay_s=0)]),
            "release": Settle(releases=[Releases(number, some)]),
            "extend": Settle(extend=[]),
            "shorten": Settle(extend=[], lease_s=1),
            "lengthen": Settle(extend=[], lease_s=20),
        }[how]
        had, doubtful = (
            set(state.open),
            {each for each in some if self.is_doubtful(each, member, number)},
        )
        ends_ms = {number: delivery.end_ms for number, delivery in state.deliveries.items()}
        done = self.commands.settle(member, wanted, self.now_ms)
        gone = had - set(state.open)
        assert len(gone) == done.settled
        self.settled |= gone
        refused = {each.id: each.reason for each in done.refused}
        if how == "extend":
            for one, delivery in state.deliveries.items():
                assert delivery.end_ms >= ends_ms[one], "it was shortened"
        if how != "ack":
            assert not gone or how == "ack all"
            return
        for each in some:
            if each in had and self.last[each] != (number, member) and each not in doubtful:
                assert refused[each] is Refusal.LEASE_LOST, "only the newest holder counts"
            elif each in had and not self.by_key and self.counts(each, before[each]):
                assert each in gone or number <= state.floor
        self.check_order(gone)

    def is_doubtful(self, each: bytes, member: Taker, number: int) -> bool:
        """Whether an ack may count because a later delivery was never written."""
        opened = self.commands.state.open.get(each)
        is_held = opened is not None and opened.delivery
        is_in_window = each in self.read_again and number in self.window and not is_held
        return is_in_window or self.written.get(each) == (number, member)

    def counts(self, each: bytes, holder: int) -> bool:
        """Whether a late ack of a message surely counts: its last delivery is known."""
        return bool(holder) or each in self.kept or each in self.unwritten

    @precondition(lambda self: self.commands.state.open)
    @rule(data=st.data(), member=st.sampled_from(MEMBERS), ahead=st.integers(-3, 3))
    def invent(self, data: st.DataObject, member: Taker, ahead: int) -> None:
        """Acknowledge an open message under a number that no delivery to this member had."""
        each = data.draw(st.sampled_from(sorted(self.commands.state.open)))
        numbers = [self.commands.state.last_delivery, *(number for number, _, _ in self.given)]
        number = data.draw(st.sampled_from(numbers)) + ahead
        is_last = self.last.get(each) == (number, member)
        if is_last or self.is_doubtful(each, member, number):
            return
        done = self.commands.settle(member, Settle(acks=[Acks(number, [each])]), self.now_ms)
        assert [one.reason for one in done.refused] == [Refusal.LEASE_LOST]
        assert not done.settled

    @precondition(lambda self: self.commands.state.dying)
    @rule(count=st.integers(1, 3))
    def bury(self, count: int) -> None:
        ids = list(self.commands.state.dying)[:count]
        assert self.commands.still_dying(ids)
        self.commands.buried(ids, self.now_ms)
        assert not self.commands.still_dying(ids)
        self.settled |= set(ids)
        self.dead += ids  # in key order, earlier messages of the same key may still be leased

    @precondition(lambda self: self.dead)
    @rule(data=st.data(), is_settled_through=st.booleans())
    def redrive(self, data: st.DataObject, *, is_settled_through: bool) -> None:
        chosen = data.draw(st.lists(st.sampled_from(self.dead), min_size=1, unique=True))
        letters = [MessageId(T, self.letters + place).encode() for place in range(len(chosen))]
        self.letters += len(chosen)
        redriven = letters[-1] if is_settled_through else self.commands.state.redriven
        opened = self.commands.reopen(
            redriven, letters, {each: self.keys[each] for each in chosen}, self.now_ms
        )
        assert opened == len(chosen)
        assert all(map(self.commands.state.is_handled, letters))
        self.dead = [each for each in self.dead if each not in chosen]
        self.settled -= set(chosen)
        for each in chosen:
            assert self.commands.state.open[each].attempts == 0
            self.last[each] = (0, MEMBERS[0])  # no ack of an earlier delivery counts
            self.written.pop(each, None)
        for ids in (self.kept, self.unwritten, self.read_again):
            ids -= set(chosen)

    @rule(keys=KEYS, member=st.sampled_from(MEMBERS))
    def crash(self, keys: list[int], member: Taker) -> None:
        """Take, and die before it is written: acks count until the message is taken again."""
        self.publish(keys)
        self.write()
        before, last = len(self.given), dict(self.last)
        self.take([], member, 3, 3)
        self.now_ms += 1
        self.load()
        for _, _, ids in self.given[before:]:
            self.kept -= set(ids)
            self.unwritten |= set(ids)
            self.written |= {each: last.get(each) for each in ids}

    @rule(back=st.integers(0, 6))
    def expire(self, back: int) -> None:
        """Let the oldest messages expire, up to one of the newest ones."""
        oldest = MessageId(T, max(0, len(self.keys) - back)).encode()
        state = self.commands.state
        had = {each: opened.delivery for each, opened in state.open.items()}
        while self.commands.expire(oldest, 2, self.now_ms):
            pass
        gone = set(had) - set(state.open)
        assert gone == {each for each, delivery in had.items() if each < oldest and not delivery}
        self.settled |= gone

    @precondition(lambda self: self.commands.state.open)
    @rule(data=st.data())
    def skip(self, data: st.DataObject) -> None:
        """Skip any open messages, also leased ones and later ones of a key."""
        opened = st.sampled_from(sorted(self.commands.state.open))
        chosen = data.draw(st.sets(opened, min_size=1))
        assert self.commands.skip(chosen, self.now_ms) == len(chosen)
        self.settled |= chosen

    def check_order(self, gone: set[bytes]) -> None:
        """By key, nothing is acknowledged before an earlier message of its key."""
        if self.by_key:
            for each in gone:
                for earlier in self.commands.state.open:
                    assert earlier > each or self.keys[earlier] != self.keys[each]

    @precondition(lambda self: self.given)
    @rule(back=BACK, part=PART)
    def commit(self, back: int, part: slice) -> None:
        number, member, ids = self.some_of(back, part)
        acks = [CommitAcks(None, "g", member.name, number, ids)]  # type: ignore[arg-type]
        if self.commands.refusals(acks, member.principal):
            return
        self.commands.acknowledge(acks, self.now_ms)
        self.settled |= set(ids)
        self.check_order(set(ids))

    @rule(member=st.sampled_from(MEMBERS))
    def leave(self, member: Taker) -> None:
        self.commands.settle(member, Settle(leave=True), self.now_ms)
        assert member not in self.commands.state.held

    @rule(seconds=st.sampled_from((0, 1, 3, 11)))
    def pass_time(self, seconds: int) -> None:
        self.now_ms += seconds * 1000
        self.commands.end_leases(self.now_ms)
        for delivery in self.commands.state.deliveries.values():
            assert delivery.end_ms > self.now_ms, "a lease ends when its time is over"

    @rule()
    def stand_still(self) -> None:
        """Pause the server for longer than any lease: no lease has ended when it continues."""
        held = list(self.commands.state.deliveries)
        self.now_ms += 60_000
        self.commands.restart_leases(self.now_ms)
        self.commands.end_leases(self.now_ms)
        assert list(self.commands.state.deliveries) == held

    @rule()
    def seek_to_end(self) -> None:
        if self.keys:
            self.settled |= set(self.commands.state.open)
            self.commands.seek(max(self.keys), self.now_ms)

    @rule()
    def write_snapshot(self) -> None:
        self.snapshot()

    @rule()
    def restart(self) -> None:
        self.write()
        self.load()
        assert not self.commands.end_leases(self.now_ms), "each lease begins anew"

    @invariant()
    def state_is_the_fold_of_its_rows(self) -> None:
        self.write()
        states = (self.commands.state, self.folded())
        state, folded = map(freeze, states)
        assert state[:3] == folded[:3]
        assert state.ids == folded.ids
        assert state.marks == folded.marks
        assert state[-3:] == folded[-3:], "the dying, and the dead letters that are dealt with"
        told = [
            [
                (number, d.taker, d.sequence, each.ids_of(number))
                for number, d in each.deliveries.items()
            ]
            for each in states
        ]
        assert told[0] == told[1]

    @invariant()
    def one_holder_each_and_keys_in_order(self) -> None:
        state = self.commands.state
        assert state.leased == sum(each.held_count for each in state.deliveries.values())
        assert state.leased == sum(state.held.values())
        for number, delivery in state.deliveries.items():
            ids = state.ids_of(number)
            assert len(ids) == delivery.held_count > 0
            assert len(delivery.taken) <= 2 * len(ids)
            assert all(state.open[each].delivery == number for each in ids)
        for key in state.keys.values():
            holders = [state.open[each].delivery for each in key.open]
            assert len(set(holders) - {0}) <= 1, "one member has messages of a key"
            assert all(later == 0 or earlier for earlier, later in pairwise(holders))
        assert set(state.open) == set(self.keys) - self.settled

    def teardown(self) -> None:
        """Check that a good worker gets everything, each message at most once more."""
        if not hasattr(self, "commands"):
            return
        worker = Taker("good", None)
        for _ in range(400):
            if not self.commands.state.open:
                break
            if self.commands.state.dying:
                self.commands.buried(list(self.commands.state.dying), self.now_ms)
            self.now_ms += 5_000
            self.commands.end_leases(self.now_ms)
            reserved = self.commands.reserve(self.commands.room(worker), self.now_ms)
            if not reserved.ids:
                continue
            number = self.commands.lease(
                reserved, reserved.ids, worker, lease_ms=10_000, sequence=None, now_ms=self.now_ms
            )
            done = self.commands.settle(worker, Settle(acks=[Acks(number)]), self.now_ms)
            assert (done.settled, done.refused) == (len(reserved.ids), [])
        assert not self.commands.state.open
        assert not self.commands.state.keys


class Unordered(GroupMachine):
    order = Order.NONE


class ByKey(GroupMachine):
    order = Order.KEY
