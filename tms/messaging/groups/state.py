"""The state of a group: how far it has read, and which messages are open, and leased to whom.

1. Only `apply` changes the stored part of the state, by edits. The same edits give the same state.
2. A derived part, which depends on the time too (`is_due`, `is_reserved`), finds the next message
   to deliver in logarithmic time.
3. By key, the leased messages of a key are its first open ones, in one delivery.

Time is in milliseconds since 1970, and never goes back while a state is in memory.
"""

from bisect import bisect_left
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
        """Deliveries up to this number no longer count."""
        self.last_delivery = 0
        self.open: dict[bytes, OpenEntry] = {}
        """By id, ascending."""
        self.deliveries: dict[int, Delivery] = {}
        self.keys: dict[bytes, OpenKey] = {}
        self.leased = 0
        self.held: dict[Taker, int] = {}
        """How many messages each member holds."""
        self.of_member: dict[Taker, list[int]] = {}
        """The deliveries of each member, ascending."""
        self.reasons = Reasons()
        self.dying: dict[bytes, Death] = {}
        """Open messages that are about to become dead letters, in the order in which they died."""
        self.redriven: bytes | None = None
        """All dead letters up to this id are handled: redriven or dropped."""
        self.handled: set[bytes] = set()
        """The ids of later ones that are handled too."""
        self.epoch = 0
        """Grows when all present reservations end."""
        self._due: list[bytes] = []
        """A heap of ids that may be delivered; it may have some that no longer may."""
        self._waiting: list[tuple[int, bytes]] = []
        """A heap of ids, by the time from which they may be delivered."""
        self._ends: list[tuple[int, int]] = []
        """A heap of deliveries by `checked_at_ms`; entries with another time are invalid."""
        self._reserved: dict[bytes, bytes | None] = {}
        """The reserved messages, each with the digest of its key."""

    # -- edits

    def apply(self, edit: Edit, now_ms: int) -> None:
        """Apply an edit. Its lease starts at `now_ms`."""
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
                for message_id in edit.ids:
                    self._let_go(message_id)
                self._made_free(edit.ids)
            case DyingEdit():
                self._die(edit)
            case ReopenedEdit():
                self._reopen(edit)
            case SoughtEdit():
                self._forget()
                self.through, self.floor = edit.through, edit.floor
                self.last_delivery = max(self.last_delivery, edit.floor)

    def restore(self, message_id: bytes, opened: OpenEntry) -> None:
        """Add a message from a snapshot; for leased ones, `add_delivery` must follow."""
        self.open[message_id] = opened
        if opened.digest is not None:
            key = self.keys.get(opened.digest)
            if key is None:
                key = self.keys[opened.digest] = OpenKey()
            elif len(key.open) == _LISTED_MAX:
                key.open = deque(key.open)
            key.open.append(message_id)
        self._offer(message_id, opened)

    def taker_of(self, taken: TakenEdit) -> Taker:
        """Return the member of a delivery; its deliveries share one value, which saves memory."""
        taker = Taker(taken.member, taken.principal)
        before = self.of_member.get(taker)
        return self.deliveries[before[0]].taker if before else taker

    def _forget(self) -> None:
        for part in (self.open, self.deliveries, self.keys, self.held, self.of_member, self.dying):
            part.clear()
        self.reasons.clear()
        for heap in (self._due, self._waiting, self._ends):
            heap.clear()
        self._reserved.clear()
        self.epoch += 1
        self.leased = 0

    def _read(self, edit: ReadEdit) -> None:
        self.through = edit.through
        if self.by_key:
            for message_id, digest in zip(edit.ids, edit.digests, strict=True):
                self.restore(message_id, OpenEntry(digest))
            return
        for message_id in edit.ids:
            self.open[message_id] = OpenEntry(None, is_due=True)
        self._due += edit.ids  # still a heap: they are above all earlier ids

    def _take(self, edit: TakenEdit, now_ms: int) -> None:
        assert edit.delivery > self.last_delivery, "the numbers of deliveries ascend"
        self.last_delivery = edit.delivery
        taker = self.taker_of(edit)
        self.add_delivery(edit.delivery, Delivery(edit, taker, now_ms + edit.lease_ms))

    def add_delivery(self, number: int, delivery: Delivery) -> None:
        """Add a delivery of a take or a snapshot; its messages must be open."""
        taker = delivery.taker
        for message_id in delivery.taken:
            opened = self.open[message_id]
            assert not opened.delivery, "one delivery has a message"
            opened.delivery = opened.last_delivery = number
            opened.last_taker = taker
        if self.by_key:
            for message_id in delivery.taken:
                digest = self.open[message_id].digest
                assert digest is not None
                key = self.keys[digest]
                assert key.delivery in (0, number), "one delivery has the messages of a key"
                key.delivery = number
        self.deliveries[number] = delivery
        self.leased += delivery.held_count
        self.held[taker] = self.held.get(taker, 0) + delivery.held_count
        self.of_member.setdefault(taker, []).append(number)
        self._check_end_at(number, delivery, delivery.end_ms)

    def _let_go(self, message_id: bytes) -> OpenEntry:
        """Remove a message from its delivery, if it has one."""
        opened = self.open[message_id]
        number, opened.delivery = opened.delivery, 0
        if number:
            self._lost(number, 1)
        return opened

    def _lost(self, number: int, count: int) -> None:
        """Record that a delivery has lost `count` messages."""
        delivery = self.deliveries[number]
        taker = delivery.taker
        delivery.held_count -= count
        self.leased -= count
        self.held[taker] -= count
        if delivery.held_count:
            if delivery.held_count * 2 < len(delivery.taken):
                delivery.taken = tuple(self.ids_of(number))
        else:
            del self.deliveries[number]
            numbers = self.of_member[taker]
            del numbers[bisect_left(numbers, number)]
            if not self.of_member[taker]:
                del self.of_member[taker], self.held[taker]

    def _settle(self, ids: Sequence[bytes]) -> None:
        lost: dict[int, int] = {}
        of_keys: dict[bytes, int] = {}
        for message_id in ids:
            opened = self.open.pop(message_id)
            if self.reasons:
                self.reasons.pop(message_id, None)
            if self.dying:
                self.dying.pop(message_id, None)
            if opened.delivery:
                lost[opened.delivery] = lost.get(opened.delivery, 0) + 1
            if opened.digest is not None:
                of_keys[opened.digest] = of_keys.get(opened.digest, 0) + 1
        for digest, count in of_keys.items():
            key = self.keys[digest]
            for _ in range(count):
                if key.open[0] in self.open:  # a removal of each other one would take long
                    key.open = type(key.open)(filter(self.open.__contains__, key.open))
                    break
                del key.open[0]
            self._key_changed(digest)
        for number, count in lost.items():
            self._lost(number, count)

    def _fail(self, edit: FailedEdit) -> None:
        for message_id in edit.ids:
            opened = self._let_go(message_id)
            opened.attempts += 1
            opened.ends += edit.why is Why.LEASE_ENDED
            opened.not_before_ms = edit.not_before_ms
        self.reasons.note(edit.ids, edit.reason)
        self._made_free(edit.ids)

    def _die(self, edit: DyingEdit) -> None:
        death = edit.death
        for message_id in edit.ids:
            opened = self._let_go(message_id)
            opened.attempts += 1
            opened.ends += death.disposition is Disposition.UNACKNOWLEDGED
            opened.not_before_ms = NEVER_MS
            self.dying[message_id] = death
        self._made_free(edit.ids)

    def _reopen(self, edit: ReopenedEdit) -> None:
        self.redriven = edit.redriven
        handled = self.handled.union(edit.handled)
        self.handled = {
            message_id
            for message_id in handled
            if edit.redriven is None or message_id > edit.redriven
        }
        if not edit.ids:
            return
        # A reserved message may no longer be the first of its key.
        self.unreserve(list(self._reserved))
        self.epoch += 1
        digests = edit.digests or (None,) * len(edit.ids)
        for message_id, digest in zip(edit.ids, digests, strict=True):
            opened = self.open[message_id] = OpenEntry(digest)
            # Acks of its earlier deliveries no longer count.
            opened.last_delivery = self.last_delivery
        self.open = dict(sorted(self.open.items()))
        for message_id, digest in zip(edit.ids, digests, strict=True):
            if digest is None:
                self._offer(message_id, self.open[message_id])
            else:
                self.keys.setdefault(digest, OpenKey()).open.append(message_id)
        for digest in dict.fromkeys(edit.digests):
            key = self.keys[digest]
            key.open = type(key.open)(sorted(key.open))
            self._key_changed(digest)

    def _made_free(self, ids: Sequence[bytes]) -> None:
        """Offer messages that are no longer leased."""
        for message_id in ids:
            opened = self.open[message_id]
            if opened.digest is None:
                self._offer(message_id, opened)
            else:
                self._key_changed(opened.digest)

    def _key_changed(self, digest: bytes) -> None:
        """Update the delivery of a key, and offer its first message if it is not leased."""
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

    def _offer(self, message_id: bytes, opened: OpenEntry) -> None:
        """Add a message to the heap of due or waiting ones, if it may be delivered."""
        if opened.digest is not None:
            key = self.keys[opened.digest]
            if key.delivery or key.is_reserved or key.open[0] != message_id:
                return
        if opened.is_due or opened.delivery or opened.is_reserved or message_id in self.dying:
            return
        opened.is_due = True
        if opened.not_before_ms:
            heappush(self._waiting, (opened.not_before_ms, message_id))
        else:
            heappush(self._due, message_id)

    # -- queries, reservations, leases

    def ids_of(self, number: int) -> list[bytes]:
        """Return the messages that a delivery still has, ascending."""
        delivery = self.deliveries[number]
        if delivery.held_count == len(delivery.taken):
            return list(delivery.taken)
        return [message_id for message_id in delivery.taken if self.has(number, message_id)]

    def has(self, number: int, message_id: bytes) -> bool:
        """Whether a delivery has a message."""
        opened = self.open.get(message_id)
        return opened is not None and opened.delivery == number

    def was_read(self, message_id: bytes) -> bool:
        """Whether a message has been read into the group."""
        return self.through is not None and message_id <= self.through

    def is_handled(self, letter: bytes) -> bool:
        """Whether a dead letter is handled."""
        return (self.redriven is not None and letter <= self.redriven) or letter in self.handled

    def is_free(self, message_id: bytes, now_ms: int) -> bool:
        """Whether a message may be delivered now."""
        opened = self.open.get(message_id)
        if opened is None or opened.delivery or opened.not_before_ms > now_ms:
            return False
        if opened.digest is None:
            return True
        key = self.keys[opened.digest]
        return not key.delivery and key.open[0] == message_id

    def make_due(self, now_ms: int) -> None:
        """Offer the messages whose wait is over."""
        waiting = self._waiting
        while waiting and waiting[0][0] <= now_ms:
            _, message_id = heappop(waiting)
            heappush(self._due, message_id)

    def reserve(self, limit: int, now_ms: int) -> list[bytes]:
        """Reserve the first ids that may be delivered, up to `limit`, and return them, ascending.

        `unreserve` must follow for each. By key, they are the first open messages of their keys.
        """
        self.make_due(now_ms)
        if not self.by_key:
            return self._reserve_in_order(limit, now_ms)
        reserved: list[bytes] = []
        due = self._due
        following: list[tuple[bytes, Iterator[bytes]]] = []
        while len(reserved) < limit and (due or following):
            if following and (not due or following[0][0] < due[0]):
                message_id, rest = heappop(following)
            else:
                message_id = heappop(due)
                opened = self.open.get(message_id)
                if opened is None or not opened.is_due:
                    continue
                opened.is_due = False
                if opened.is_reserved or not self.is_free(message_id, now_ms):
                    if opened.not_before_ms > now_ms:
                        self._offer(message_id, opened)
                    continue
                rest = iter(())
                if opened.digest is not None:
                    key = self.keys[opened.digest]
                    key.is_reserved = True
                    rest = iter(key.open)
                    next(rest)
            opened = self.open[message_id]
            opened.is_reserved = True
            self._reserved[message_id] = opened.digest
            reserved.append(message_id)
            behind = next(rest, None)
            if behind is not None and self.open[behind].not_before_ms <= now_ms:
                heappush(following, (behind, rest))
        return reserved

    def _reserve_in_order(self, limit: int, now_ms: int) -> list[bytes]:
        ids: list[bytes] = []
        due, reserved = self._due, self._reserved
        while len(ids) < limit and due:
            message_id = heappop(due)
            opened = self.open.get(message_id)
            if opened is None or not opened.is_due:
                continue
            opened.is_due = False
            if opened.is_reserved or opened.delivery:
                continue
            if opened.not_before_ms > now_ms:
                self._offer(message_id, opened)
                continue
            opened.is_reserved = True
            reserved[message_id] = None
            ids.append(message_id)
        return ids

    def unreserve(self, ids: Sequence[bytes]) -> None:
        """End the reservation of ids; those that are not leased may be delivered again."""
        digests = set()
        for message_id in ids:
            digest = self._reserved.pop(message_id)
            opened = self.open.get(message_id)
            if opened is not None:
                opened.is_reserved = False
            if digest is not None:
                digests.add(digest)
            elif opened is not None and not opened.delivery:
                self._offer(message_id, opened)
        for digest in digests:
            self.keys[digest].is_reserved = False
            self._key_changed(digest)

    def is_waiting(self) -> bool:
        """Whether a message waits for its next attempt."""
        waiting = self._waiting
        while waiting:
            not_before_ms, message_id = waiting[0]
            opened = self.open.get(message_id)
            if opened is not None and opened.not_before_ms == not_before_ms:
                return True
            heappop(waiting)
            if opened is not None:
                opened.is_due = False
                self._made_free([message_id])
        return False

    def next_ended(self, now_ms: int) -> int | None:
        """Return a delivery whose lease has ended, the earliest first; the caller fails its ids.

        If the caller does not, the delivery is returned again a second later, after all others.
        """
        ends = self._ends
        while ends and ends[0][0] <= now_ms:
            at_ms, number = heappop(ends)
            delivery = self.deliveries.get(number)
            if delivery is None or delivery.checked_at_ms != at_ms:
                continue
            if delivery.end_ms <= now_ms:
                self._check_end_at(number, delivery, now_ms + _AGAIN_MS)
                return number
            self._check_end_at(number, delivery, delivery.end_ms)
        return None

    def next_change_ms(self) -> int | None:
        """Return a time before which no lease or wait ends; None if there are none."""
        while self._ends and self._ends[0][1] not in self.deliveries:
            heappop(self._ends)
        heads = [heap[0][0] for heap in (self._ends, self._waiting) if heap]
        return min(heads, default=None)

    def extend(self, number: int, end_ms: int) -> None:
        """Move the end of a lease. It is not stored: all leases start again after a restart."""
        delivery = self.deliveries[number]
        delivery.end_ms = end_ms
        if end_ms < delivery.checked_at_ms:
            self._check_end_at(number, delivery, end_ms)

    def _check_end_at(self, number: int, delivery: Delivery, at_ms: int) -> None:
        """Check the end of a lease at `at_ms`, by the one valid entry of its delivery."""
        delivery.checked_at_ms = at_ms
        if len(self._ends) > 2 * len(self.deliveries) + _STALE_MAX:
            # Invalid entries would stay until their time, up to half a day.
            self._ends = [
                (delivery.checked_at_ms, number) for number, delivery in self.deliveries.items()
            ]
            heapify(self._ends)
        else:
            heappush(self._ends, (at_ms, number))
