"""The state of a group: how far it has read, which messages are open, and who has them.

1. `apply` alone changes what is stored, by edits; the same edits give the same state.
2. Beside it stands what follows from it and from the time (`is_due`, `is_reserved`), so that the
   next message to give is found in the logarithm of their number.
3. By key, the leased messages of a key are its first open ones, in one delivery.

Time is in milliseconds since 1970, and never goes back while a state is in memory.
"""

from bisect import bisect_left, insort
from collections import deque
from collections.abc import Iterator, Sequence
from heapq import heapify, heappop, heappush

from tms.core.values.dead_letters import Disposition
from tms.messaging.groups.edits import (
    Death,
    DyingEdit,
    Edit,
    FailedEdit,
    ReadEdit,
    ReleasedEdit,
    ReopenedEdit,
    SettledEdit,
    SoughtEdit,
    TakenEdit,
    Why,
)
from tms.messaging.groups.open_entries import (
    NEVER_MS,
    Delivery,
    OpenEntry,
    OpenKey,
    Reasons,
    Taker,
)

_LISTED_MAX = 64
_AGAIN_MS = 1_000
_STALE_MAX = 64


class OpenMessages:
    """The state of one group."""

    def __init__(self, *, by_key: bool) -> None:
        self.by_key = by_key
        self.through: bytes | None = None
        self.floor = 0
        """Deliveries up to this number do not count any more."""
        self.last_delivery = 0
        self.open: dict[bytes, OpenEntry] = {}
        """By id, ascending."""
        self.deliveries: dict[int, Delivery] = {}
        self.keys: dict[bytes, OpenKey] = {}
        self.leased = 0
        self.held: dict[Taker, int] = {}
        """How many messages each member has."""
        self.of_member: dict[Taker, list[int]] = {}
        """The deliveries of each member, ascending."""
        self.reasons = Reasons()
        self.dying: dict[bytes, Death] = {}
        """Open messages that are about to become dead letters, in the order in which they died."""
        self.redriven: bytes | None = None
        """All dead letters up to this id are dealt with: redriven or dropped."""
        self.handled: set[bytes] = set()
        """Later ones that are, too."""
        self.epoch = 0
        """Grows when reservations end that were made before."""
        self._due: list[bytes] = []
        """A heap of ids that may be given; some may not be any more."""
        self._waiting: list[tuple[int, bytes]] = []
        """A heap of ids by the time from which they may be given."""
        self._ends: list[tuple[int, int]] = []
        """A heap of deliveries, each by its `looked_at_ms`; other entries of it do not count."""
        self._reserved: dict[bytes, bytes | None] = {}
        """The digests of the messages that are about to be given."""

    # -- what edits do

    def apply(self, edit: Edit, now_ms: int) -> None:
        """Change the state as `edit` says. A lease begins at `now_ms`."""
        match edit:
            case TakenEdit():
                self._take(edit, now_ms)
            case SettledEdit():
                self._settle(edit.ids)
            case ReadEdit():
                self._read(edit)
            case FailedEdit():
                self._fail(edit)
            case ReleasedEdit():
                for each in edit.ids:
                    self._let_go(each)
                self._made_free(edit.ids)
            case DyingEdit():
                self._die(edit)
            case ReopenedEdit():
                self._reopen(edit)
            case SoughtEdit():
                self._forget()
                self.through, self.floor = edit.through, edit.floor
                self.last_delivery = max(self.last_delivery, edit.floor)

    def restore(self, each: bytes, opened: OpenEntry) -> None:
        """Add a message as a snapshot has it; `add_delivery` follows for those leased."""
        self.open[each] = opened
        if opened.digest is not None:
            key = self.keys.get(opened.digest)
            if key is None:
                key = self.keys[opened.digest] = OpenKey()
            elif len(key.open) == _LISTED_MAX:
                key.open = deque(key.open)
            key.open.append(each)
        self._offer(each, opened)

    def taker_of(self, taken: TakenEdit) -> Taker:
        """Return the member of a delivery, as one value for all its deliveries."""
        taker = Taker(taken.member, taken.principal)
        before = self.of_member.get(taker)
        return self.deliveries[before[0]].taker if before else taker

    def _forget(self) -> None:
        for each in (self.open, self.deliveries, self.keys, self.held, self.of_member, self.dying):
            each.clear()
        self.reasons.clear()
        for heap in (self._due, self._waiting, self._ends):
            heap.clear()
        self._reserved.clear()
        self.epoch += 1
        self.leased = 0

    def _read(self, edit: ReadEdit) -> None:
        self.through = edit.through
        if self.by_key:
            for each, digest in zip(edit.ids, edit.digests, strict=True):
                self.restore(each, OpenEntry(digest))
            return
        for each in edit.ids:
            self.open[each] = OpenEntry(None, is_due=True)
        self._due += edit.ids  # still a heap, because they are behind all that was read before

    def _take(self, edit: TakenEdit, now_ms: int) -> None:
        assert edit.delivery > self.last_delivery, "the numbers of deliveries ascend"
        self.last_delivery = edit.delivery
        taker = self.taker_of(edit)
        self.add_delivery(edit.delivery, Delivery(edit, taker, now_ms + edit.lease_ms))

    def add_delivery(self, number: int, delivery: Delivery) -> None:
        """Add a delivery, as a take or a snapshot has it, once its messages are there."""
        taker = delivery.taker
        for each in delivery.taken:
            opened = self.open[each]
            assert not opened.delivery, "one delivery has a message"
            opened.delivery = opened.last_delivery = number
            opened.last_taker = taker
        if self.by_key:
            for each in delivery.taken:
                digest = self.open[each].digest
                assert digest is not None
                key = self.keys[digest]
                assert key.delivery in (0, number), "one delivery has the messages of a key"
                key.delivery = number
        self.deliveries[number] = delivery
        self.leased += delivery.left
        self.held[taker] = self.held.get(taker, 0) + delivery.left
        self.of_member.setdefault(taker, []).append(number)
        self._look_at_end(number, delivery, delivery.end_ms)

    def _let_go(self, each: bytes) -> OpenEntry:
        """Take a message from the delivery that has it, if one has."""
        opened = self.open[each]
        number, opened.delivery = opened.delivery, 0
        if number:
            self._lost(number, 1)
        return opened

    def _lost(self, number: int, count: int) -> None:
        """Take note that a delivery has `count` messages less."""
        delivery = self.deliveries[number]
        taker = delivery.taker
        delivery.left -= count
        self.leased -= count
        self.held[taker] -= count
        if delivery.left:
            if delivery.left * 2 < len(delivery.taken):
                delivery.taken = tuple(self.ids_of(number))
        else:
            del self.deliveries[number]
            numbers = self.of_member[taker]
            del numbers[bisect_left(numbers, number)]
            if not self.of_member[taker]:
                del self.of_member[taker], self.held[taker]

    def _settle(self, ids: Sequence[bytes]) -> None:
        lost: dict[int, int] = {}
        for each in ids:
            opened = self.open.pop(each)
            if self.reasons:
                self.reasons.pop(each, None)
            if self.dying:
                self.dying.pop(each, None)
            if opened.delivery:
                lost[opened.delivery] = lost.get(opened.delivery, 0) + 1
            if opened.digest is not None:
                self.keys[opened.digest].open.remove(each)
                self._key_changed(opened.digest)
        for number, count in lost.items():
            self._lost(number, count)

    def _fail(self, edit: FailedEdit) -> None:
        for each in edit.ids:
            opened = self._let_go(each)
            opened.attempts += 1
            opened.ends += edit.why is Why.LEASE_ENDED
            opened.not_before_ms = edit.not_before_ms
        self.reasons.note(edit.ids, edit.reason)
        self._made_free(edit.ids)

    def _die(self, edit: DyingEdit) -> None:
        death = edit.death
        for each in edit.ids:
            opened = self._let_go(each)
            opened.attempts += 1
            opened.ends += death.disposition is Disposition.UNACKNOWLEDGED
            opened.not_before_ms = NEVER_MS
            self.dying[each] = death
        self._made_free(edit.ids)

    def _reopen(self, edit: ReopenedEdit) -> None:
        self.redriven = edit.redriven
        handled = self.handled.union(edit.handled)
        self.handled = {each for each in handled if edit.redriven is None or each > edit.redriven}
        if not edit.ids:
            return
        # What is about to be given may not be the first of its key any more.
        self.unreserve(list(self._reserved))
        self.epoch += 1
        digests = edit.digests or (None,) * len(edit.ids)
        for each, digest in zip(edit.ids, digests, strict=True):
            opened = self.open[each] = OpenEntry(digest)
            opened.last_delivery = (
                self.last_delivery
            )  # acks of its earlier deliveries count no more
        self.open = dict(sorted(self.open.items()))
        for each, digest in zip(edit.ids, digests, strict=True):
            if digest is None:
                self._offer(each, self.open[each])
            else:
                insort(self.keys.setdefault(digest, OpenKey()).open, each)
                self._key_changed(digest)

    def _made_free(self, ids: Sequence[bytes]) -> None:
        """Offer messages that nobody has any more."""
        for each in ids:
            opened = self.open[each]
            if opened.digest is None:
                self._offer(each, opened)
            else:
                self._key_changed(opened.digest)

    def _key_changed(self, digest: bytes) -> None:
        """Find again who has a key, and offer its first message if nobody has."""
        key = self.keys[digest]
        if key.open:
            first = key.open[0]
            opened = self.open[first]
            key.delivery = opened.delivery
            self._offer(first, opened)
        elif not key.is_reserved:
            del self.keys[digest]
        else:
            key.delivery = 0

    def _offer(self, each: bytes, opened: OpenEntry) -> None:
        """Let a message be given, now or when it is due, if it may be."""
        if opened.digest is not None:
            key = self.keys[opened.digest]
            if key.delivery or key.is_reserved or key.open[0] != each:
                return
        if opened.is_due or opened.delivery or opened.is_reserved or each in self.dying:
            return
        opened.is_due = True
        if opened.not_before_ms:
            heappush(self._waiting, (opened.not_before_ms, each))
        else:
            heappush(self._due, each)

    # -- what follows from it

    def ids_of(self, number: int) -> list[bytes]:
        """Return the messages that a delivery still has, ascending."""
        delivery = self.deliveries[number]
        if delivery.left == len(delivery.taken):
            return list(delivery.taken)
        return [each for each in delivery.taken if self.has(number, each)]

    def has(self, number: int, each: bytes) -> bool:
        """Whether a delivery has a message."""
        opened = self.open.get(each)
        return opened is not None and opened.delivery == number

    def was_read(self, each: bytes) -> bool:
        """Whether a message has been read into the group."""
        return self.through is not None and each <= self.through

    def is_handled(self, letter: bytes) -> bool:
        """Whether a dead letter is dealt with."""
        return (self.redriven is not None and letter <= self.redriven) or letter in self.handled

    def is_free(self, each: bytes, now_ms: int) -> bool:
        """Whether a message may be given now."""
        opened = self.open.get(each)
        if opened is None or opened.delivery or opened.not_before_ms > now_ms:
            return False
        if opened.digest is None:
            return True
        key = self.keys[opened.digest]
        return not key.delivery and key.open[0] == each

    def make_due(self, now_ms: int) -> None:
        """Let messages be given whose wait is over."""
        waiting = self._waiting
        while waiting and waiting[0][0] <= now_ms:
            _, each = heappop(waiting)
            heappush(self._due, each)

    def reserve(self, limit: int, now_ms: int) -> list[bytes]:
        """Return the first at most `limit` ids that may be given, ascending. Nobody else gets them.

        Each is to be given back by `unreserve`. By key they are the first open ones of their keys.
        """
        self.make_due(now_ms)
        if not self.by_key:
            return self._reserve_in_order(limit, now_ms)
        found: list[bytes] = []
        due = self._due
        following: list[tuple[bytes, Iterator[bytes]]] = []
        while len(found) < limit and (due or following):
            if following and (not due or following[0][0] < due[0]):
                each, rest = heappop(following)
            else:
                each = heappop(due)
                opened = self.open.get(each)
                if opened is None or not opened.is_due:
                    continue
                opened.is_due = False
                if opened.is_reserved or not self.is_free(each, now_ms):
                    if opened.not_before_ms > now_ms:
                        self._offer(each, opened)
                    continue
                rest = iter(())
                if opened.digest is not None:
                    key = self.keys[opened.digest]
                    key.is_reserved = True
                    rest = iter(key.open)
                    next(rest)
            opened = self.open[each]
            opened.is_reserved = True
            self._reserved[each] = opened.digest
            found.append(each)
            behind = next(rest, None)
            if behind is not None and self.open[behind].not_before_ms <= now_ms:
                heappush(following, (behind, rest))
        return found

    def _reserve_in_order(self, limit: int, now_ms: int) -> list[bytes]:
        found: list[bytes] = []
        due, reserved = self._due, self._reserved
        while len(found) < limit and due:
            each = heappop(due)
            opened = self.open.get(each)
            if opened is None or not opened.is_due:
                continue
            opened.is_due = False
            if opened.is_reserved or opened.delivery:
                continue
            if opened.not_before_ms > now_ms:
                self._offer(each, opened)
                continue
            opened.is_reserved = True
            reserved[each] = None
            found.append(each)
        return found

    def unreserve(self, ids: Sequence[bytes]) -> None:
        """End the reservation of ids; those that nobody has may be given again."""
        digests = set()
        for each in ids:
            digest = self._reserved.pop(each)
            opened = self.open.get(each)
            if opened is not None:
                opened.is_reserved = False
            if digest is not None:
                digests.add(digest)
            elif opened is not None and not opened.delivery:
                self._offer(each, opened)
        for digest in digests:
            self.keys[digest].is_reserved = False
            self._key_changed(digest)

    def is_waiting(self) -> bool:
        """Whether a message waits for its next attempt."""
        waiting = self._waiting
        while waiting:
            not_before_ms, each = waiting[0]
            opened = self.open.get(each)
            if opened is not None and opened.not_before_ms == not_before_ms:
                return True
            heappop(waiting)
            if opened is not None:
                opened.is_due = False
                self._made_free([each])
        return False

    def next_ended(self, now_ms: int) -> int | None:
        """Return a delivery whose lease has ended, the earliest first; its messages are to fail.

        If that does not succeed, the delivery comes again a second later, behind all others.
        """
        ends = self._ends
        while ends and ends[0][0] <= now_ms:
            at_ms, number = heappop(ends)
            delivery = self.deliveries.get(number)
            if delivery is None or delivery.looked_at_ms != at_ms:
                continue
            if delivery.end_ms <= now_ms:
                self._look_at_end(number, delivery, now_ms + _AGAIN_MS)
                return number
            self._look_at_end(number, delivery, delivery.end_ms)
        return None

    def next_change_ms(self) -> int | None:
        """Return a time before which no lease ends and no wait is over; None: nothing will."""
        while self._ends and self._ends[0][1] not in self.deliveries:
            heappop(self._ends)
        heads = [heap[0][0] for heap in (self._ends, self._waiting) if heap]
        return min(heads, default=None)

    def extend(self, number: int, end_ms: int) -> None:
        """Move the end of a lease. It is not stored: each lease begins anew at a restart."""
        delivery = self.deliveries[number]
        delivery.end_ms = end_ms
        if end_ms < delivery.looked_at_ms:
            self._look_at_end(number, delivery, end_ms)

    def _look_at_end(self, number: int, delivery: Delivery, at_ms: int) -> None:
        """Have the end of a lease looked at then, by the one entry that counts."""
        delivery.looked_at_ms = at_ms
        if len(self._ends) > 2 * len(self.deliveries) + _STALE_MAX:
            # Entries that do not count would stay until their time, half a day at worst.
            self._ends = [(one.looked_at_ms, each) for each, one in self.deliveries.items()]
            heapify(self._ends)
        else:
            heappush(self._ends, (at_ms, number))
