"""The commands of a group: what its members may do, decided by its state.

A command changes the state only through `OpenMessages.apply`, and keeps its edits encoded until
they are written as one row (`take_row`). Nothing here waits. To serve a take, the caller calls
`reserve`, reads the bodies, then calls `lease`.

1. Acks, even late ones, count by the rules of `acks`.
2. A nack, a release or an extension counts only while the member holds the lease.
3. By key, if a message fails, later messages of its key that are leased are released: no attempt of
   theirs is counted.
4. A message that was rejected, or whose last attempt failed, is dying. It is not delivered again,
   and blocks its key, until it is written as a dead letter. An ack before that still counts.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from tms.core.limits import MS_PER_S
from tms.core.values.dead_letters import Disposition
from tms.core.values.group_settings import GroupSettings
from tms.core.values.groups import (
    Acks,
    CommitAcks,
    LimitedBy,
    Nacks,
    Refusal,
    RefusedMessage,
    Releases,
    Settle,
    Settled,
    kept_of,
)
from tms.messaging.groups.acks import AckCheck, UnwrittenTakes
from tms.messaging.groups.counts import Tally
from tms.messaging.groups.death_rate import DeathRate
from tms.messaging.groups.edits import (
    Death,
    DyingEdit,
    Edit,
    FailedEdit,
    How,
    ReadEdit,
    ReleasedEdit,
    ReopenedEdit,
    SettledEdit,
    SoughtEdit,
    TakenEdit,
    Why,
    encode_edit,
    encode_row,
)
from tms.messaging.groups.open_entries import Reservation, Taker
from tms.messaging.groups.pace import Pace
from tms.messaging.groups.state import OpenMessages

_DOUBLINGS_MAX = 32


class GroupCommands:
    """The commands of one group, and its edits that are not written yet."""

    def __init__(
        self,
        state: OpenMessages,
        settings: GroupSettings,
        now_ms: int,
        last_number: int = 0,
        counts: Tally | None = None,
    ) -> None:
        """Continue from a state that was read at `now_ms`, and add to `counts`.

        New deliveries have numbers above `last_number`, which this process has used, perhaps
        without writing it.
        """
        self.state = state
        self.settings = settings
        self._first_number = max(now_ms * 1000, state.last_delivery + 1, last_number + 1)
        """The smallest number that a new delivery may have."""
        self._unwritten = UnwrittenTakes(state.through, state.last_delivery, self._first_number)
        self._edits: list[bytes] = []
        self.deaths = DeathRate()
        self.has_deaths = False
        """Whether any message has died since the group was loaded, or was to."""
        self.counts = Tally() if counts is None else counts
        self.pace = Pace()
        self.edit_ids = 0
        """How many ids the edits since the last snapshot have: reading them takes that long."""

    @property
    def has_edits(self) -> bool:
        """Whether edits wait to be written."""
        return bool(self._edits)

    def take_row(self) -> bytes | None:
        """Return the row of all edits that are not written yet, or None if there are none."""
        edits, self._edits = self._edits, []
        return encode_row(edits) if edits else None

    def _do(self, edit: Edit, now_ms: int) -> None:
        self.state.apply(edit, now_ms)
        self._edits.append(encode_edit(edit))
        self.edit_ids += len(edit.ids)

    # -- taking

    def repeated(self, member: Taker, sequence: int | None) -> int | None:
        """Return the delivery of an earlier take with `sequence`, if the member still holds it."""
        if sequence is None:
            return None
        for number in reversed(self.state.of_member.get(member, ())):
            delivery = self.state.deliveries[number]
            if delivery.sequence is None:
                continue
            if delivery.sequence == sequence:
                return number
            if delivery.sequence < sequence:
                # A member's sequences ascend.
                return None
        return None

    def release_all(self, member: Taker, now_ms: int) -> None:
        """Release all messages that the member holds."""
        numbers = self.state.of_member.get(member, ())
        self._release([each for number in numbers for each in self.state.ids_of(number)], now_ms)

    def room(self, member: Taker) -> int:
        """Return how many more messages the member may hold."""
        return max(0, self.settings.member_max - self.state.held.get(member, 0))

    def read(
        self,
        through: bytes | None,
        ids: Sequence[bytes],
        digests: Sequence[bytes],
        now_ms: int,
    ) -> None:
        """Open messages; all committed ones up to `through` have been read."""
        if ids or through != self.state.through:
            self._do(ReadEdit(through, ids, digests), now_ms)

    def reserve(self, limit: int, now_ms: int) -> Reservation:
        """Reserve the next messages to deliver; `lease` or `give_up` must follow."""
        return Reservation(self.state.reserve(limit, now_ms), self.state.epoch)

    def joined(self, *parts: Reservation) -> Reservation:
        """Join reservations into one; those that have ended are left out."""
        epoch = self.state.epoch
        ids = sorted(each for part in parts if part.epoch == epoch for each in part.ids)
        return Reservation(ids, epoch)

    def give_up(self, reserved: Reservation) -> None:
        """End a reservation, so that other takes may get its messages."""
        if reserved.epoch == self.state.epoch:
            self.state.unreserve(reserved.ids)

    def still_open(self, reserved: Reservation) -> list[bytes]:
        """Return the reserved messages that have not been settled in the meantime."""
        if reserved.epoch != self.state.epoch:
            return []
        return [each for each in reserved.ids if each in self.state.open]

    def lease(
        self,
        reserved: Reservation,
        ids: Sequence[bytes],
        member: Taker,
        *,
        lease_ms: int,
        sequence: int | None,
        now_ms: int,
    ) -> int:
        """Lease `ids`, the first of those that are `still_open`; return the delivery's number."""
        assert ids, "a delivery has messages"
        number = self._next_number(now_ms)
        taken = TakenEdit(number, lease_ms, member.name, member.principal, sequence, ids)
        self._do(taken, now_ms)
        self.counts.taken += len(ids)
        self.give_up(reserved)
        return number

    def _next_number(self, now_ms: int) -> int:
        return max(now_ms * 1000, self.state.last_delivery + 1, self._first_number)

    def gone(self, ids: Sequence[bytes], now_ms: int) -> None:
        """Settle messages that can no longer be read."""
        there = [each for each in ids if each in self.state.open]
        if there:
            self._do(SettledEdit(How.GONE, there), now_ms)
            self.counts.gone += len(there)

    def short_because(self, member: Taker) -> LimitedBy | None:
        """Return why the open messages gave a take less than it asked for."""
        state = self.state
        if self.settings.paused:
            return LimitedBy.PAUSED
        if not self.room(member):
            return LimitedBy.MEMBER_MAX
        if len(state.open) >= self.settings.open_max:
            return LimitedBy.OPEN_MAX
        if state.is_waiting() or state.dying:
            return LimitedBy.RETRY if state.is_waiting() else LimitedBy.DEAD_LETTER
        if state.by_key and len(state.open) > state.leased:
            return LimitedBy.KEYS
        return None

    # -- interventions of operators

    def skip(self, ids: Iterable[bytes], now_ms: int) -> int:
        """Settle open messages, even leased ones; return how many there were."""
        there = sorted(self.state.open.keys() & ids)
        if there:
            self._do(SettledEdit(How.SKIPPED, there), now_ms)
            self.counts.skipped += len(there)
        return len(there)

    def take_back(
        self, ids: Iterable[bytes], member: str | None, now_ms: int, *, failed: bool
    ) -> int:
        """Take leased messages, and all that members of a name hold, back; return how many.

        An attempt is counted if they `failed`.
        """
        state = self.state
        leased = {each for each in state.open.keys() & ids if state.open[each].delivery}
        for taker, numbers in state.of_member.items():
            if taker.name == member:
                leased.update(each for number in numbers for each in state.ids_of(number))
        back = sorted(leased)
        if failed:
            self._fail(back, Why.NACK, None, now_ms)
        else:
            self._release(back, now_ms)
        return len(back)

    # -- settling

    def settle(self, member: Taker, settle: Settle, now_ms: int) -> Settled:
        """Acknowledge, fail, release, extend and leave, in this order; return the refusals too."""
        refused: list[RefusedMessage] = []
        acked = self._ack(member, settle.acks, refused, now_ms)
        for nacks in settle.nacks:
            held = self._held(member, nacks, refused)
            if nacks.dead and not self.settings.dead_letter:
                reason = Refusal.NO_DEAD_LETTER
                refused += [RefusedMessage(nacks.delivery, each, reason) for each in held]
                continue
            self._fail(held, Why.NACK, nacks, now_ms)
        for releases in settle.releases:
            self._release(self._held(member, releases, refused), now_ms)
        if settle.extend is not None:
            self._extend(member, settle, refused, now_ms)
        if settle.leave:
            self.release_all(member, now_ms)
        if refused:
            self.counts.refused += len(refused)
        lease_s = None if settle.extend is None else settle.lease_s or self.settings.lease_s
        return Settled(acked, refused, lease_s)

    def refusals(self, acks: Iterable[CommitAcks], principal: str | None) -> list[RefusedMessage]:
        """Return the acks of a commit that are refused; if there are none, call `acknowledge`."""
        refused: list[RefusedMessage] = []
        check = AckCheck(self.state, self._unwritten)
        named = [
            (each, ack.delivery, Taker(ack.member, principal)) for ack in acks for each in ack.ids
        ]
        for message_id, number, member in sorted(named):
            is_twice = message_id == check.last
            reason = Refusal.SETTLED if is_twice else check.refusal(message_id, number, member)
            if reason is not None:
                refused.append(RefusedMessage(number, message_id, reason))
        self.counts.refused += len(refused)
        return refused

    def acknowledge(self, acks: Iterable[CommitAcks], now_ms: int) -> None:
        """Settle the messages of acks of which none is refused."""
        self._acked(sorted(each for ack in acks for each in ack.ids), now_ms)

    def _ack(
        self, member: Taker, acks: Sequence[Acks], refused: list[RefusedMessage], now_ms: int
    ) -> int:
        if len(acks) == 1 and acks[0].ids is None and self._has(member, acks[0].delivery):
            # Nothing can refuse it: by key, these are the first open messages of their keys.
            ids = self.state.ids_of(acks[0].delivery)
            self._do(SettledEdit(How.ACK, ids), now_ms)
            self.counts.ack(ids, now_ms)
            return len(ids)
        named: list[tuple[bytes, int]] = []
        whole: set[int] = set()
        for ack in acks:
            if ack.ids is not None:
                named += [(each, ack.delivery) for each in ack.ids]
            elif ack.delivery in whole:
                continue
            elif not self._has(member, ack.delivery):
                refused.append(RefusedMessage(ack.delivery, None, Refusal.LEASE_LOST))
            else:
                whole.add(ack.delivery)
                named += [(each, ack.delivery) for each in self.state.ids_of(ack.delivery)]
        check = AckCheck(self.state, self._unwritten)
        ids = []
        for message_id, number in sorted(named):
            if message_id == check.last:
                continue
            reason = check.refusal(message_id, number, member)
            if reason is not None:
                refused.append(RefusedMessage(number, message_id, reason))
            else:
                ids.append(message_id)
        self._acked(ids, now_ms)
        return len(ids)

    def _acked(self, ids: Sequence[bytes], now_ms: int) -> None:
        if ids:
            self._do(SettledEdit(How.ACK, ids), now_ms)
            self.counts.ack(ids, now_ms)

    def _has(self, member: Taker, number: int) -> bool:
        """Whether a delivery belongs to a member and still has messages."""
        delivery = self.state.deliveries.get(number)
        return delivery is not None and delivery.taker == member

    def _held(
        self, member: Taker, request: Nacks | Releases, refused: list[RefusedMessage]
    ) -> list[bytes]:
        """Return the named messages that the member holds, ascending; refuse the others."""
        number, state = request.delivery, self.state
        is_his = self._has(member, number)
        if request.ids is None:
            if not is_his:
                refused.append(RefusedMessage(number, None, Refusal.LEASE_LOST))
                return []
            return state.ids_of(number)
        held = []
        for message_id in sorted(set(request.ids)):
            if is_his and state.has(number, message_id):
                held.append(message_id)
                continue
            is_settled = message_id not in state.open and state.was_read(message_id)
            reason = Refusal.SETTLED if is_settled else Refusal.LEASE_LOST
            refused.append(RefusedMessage(number, message_id, reason))
        return held

    def _fail(self, ids: Sequence[bytes], why: Why, nacks: Nacks | None, now_ms: int) -> None:
        """Count a failed attempt of leased messages; by key, release those leased after them."""
        failed, behind = self._behind(ids)
        self.counts.failed += len(failed)
        delay_s = None if nacks is None else nacks.delay_s
        reason = "" if nacks is None else kept_of(nacks.reason)
        if self.settings.dead_letter:
            is_rejected = nacks is not None and nacks.dead
            failed = self._die(failed, why, reason, now_ms, is_rejected=is_rejected)
        waits: dict[int, list[bytes]] = {}
        for message_id in failed:
            wait_ms = self._back_off_ms(message_id) if delay_s is None else int(delay_s * 1000)
            waits.setdefault(wait_ms, []).append(message_id)
        for wait_ms, group in waits.items():
            not_before_ms = now_ms + wait_ms if wait_ms else 0
            self._do(FailedEdit(why, not_before_ms, group, reason), now_ms)
        if behind:
            self._do(ReleasedEdit(behind), now_ms)

    def _die(
        self, failed: Sequence[bytes], why: Why, reason: str, now_ms: int, *, is_rejected: bool
    ) -> list[bytes]:
        """Let messages die that have no attempt left; return the others.

        If that exceeds the limit on deaths, it pauses the group, and they get one more attempt.
        """
        state, settings = self.state, self.settings
        dying: dict[Death, list[bytes]] = {}
        alive: list[bytes] = []
        by_nack = Disposition.REJECTED if is_rejected else Disposition.ATTEMPTS
        disposition = by_nack if why is Why.NACK else Disposition.UNACKNOWLEDGED
        for message_id in failed:
            opened = state.open[message_id]
            is_last = 0 < settings.attempts_max <= opened.attempts + 1
            if not (is_rejected or is_last):
                alive.append(message_id)
            elif self.deaths.take(settings, now_ms):
                member = "" if opened.last_taker is None else opened.last_taker.name
                dying.setdefault(Death(disposition, now_ms, member, reason), []).append(message_id)
            else:
                alive.append(message_id)
                self.settings = replace(settings, paused=True)
        self.has_deaths |= bool(dying) or self.deaths.is_over
        for death, ids in dying.items():
            self._do(DyingEdit(death, ids), now_ms)
        return alive

    def still_dying(self, ids: Iterable[bytes]) -> bool:
        """Return whether all these messages still wait to be written as dead letters."""
        return all(each in self.state.dying for each in ids)

    def buried(self, ids: Sequence[bytes], now_ms: int) -> None:
        """Settle messages whose dead letters are written in this flush."""
        self._do(SettledEdit(How.DEAD, sorted(ids)), now_ms)
        self.counts.dead += len(ids)

    def reopen(
        self,
        redriven: bytes | None,
        handled: Sequence[bytes],
        messages: Mapping[bytes, bytes],
        now_ms: int,
    ) -> int:
        """Mark dead letters as handled, and reopen `messages`, each with the digest of its key.

        Messages that are open or not read yet need no reopening. Return how many were reopened.
        """
        state = self.state
        ids = sorted(each for each in messages if each not in state.open and state.was_read(each))
        digests = [messages[each] for each in ids] if state.by_key else []
        leased = [
            each
            for digest in set(digests) & state.keys.keys()
            for each in state.keys[digest].open
            if state.open[each].delivery
        ]
        if leased:
            self._do(ReleasedEdit(sorted(leased)), now_ms)
        self._do(ReopenedEdit(redriven, sorted(handled), ids, digests), now_ms)
        return len(ids)

    def _behind(self, ids: Sequence[bytes]) -> tuple[list[bytes], list[bytes]]:
        """Return which of `ids` fail, and which messages are released: by key, those after them."""
        state = self.state
        if not state.by_key:
            return list(ids), []
        first: dict[bytes, bytes] = {}
        for message_id in ids:
            digest = state.open[message_id].digest
            assert digest is not None
            first.setdefault(digest, message_id)
        behind: list[bytes] = []
        for digest, failed in first.items():
            for message_id in state.keys[digest].open:
                if message_id > failed:
                    if not state.open[message_id].delivery:
                        break  # those that are leased are the first ones of their key
                    behind.append(message_id)
        return sorted(first.values()), sorted(behind)

    def _back_off_ms(self, message_id: bytes) -> int:
        settings = self.settings
        doublings = min(self.state.open[message_id].attempts, _DOUBLINGS_MAX)
        return min(settings.retry_s << doublings, settings.retry_s_max) * 1000

    def _release(self, ids: Sequence[bytes], now_ms: int) -> None:
        """Release messages, and by key those that are leased after them."""
        if ids:
            first, behind = self._behind(ids)
            self._do(ReleasedEdit(sorted({*first, *behind, *ids})), now_ms)

    def _extend(
        self, member: Taker, settle: Settle, refused: list[RefusedMessage], now_ms: int
    ) -> None:
        """Extend leases. An extension without a length of its own never shortens a lease."""
        assert settle.extend is not None
        state, lease_s = self.state, settle.lease_s
        end_ms = now_ms + (self.settings.lease_s if lease_s is None else lease_s) * MS_PER_S
        for number in settle.extend or tuple(state.of_member.get(member, ())):
            if self._has(member, number):
                least_ms = state.deliveries[number].end_ms if lease_s is None else 0
                state.extend(number, max(end_ms, least_ms))
            else:
                refused.append(RefusedMessage(number, None, Refusal.LEASE_LOST))

    # -- leases, expiry, seeks

    def end_leases(self, now_ms: int) -> bool:
        """Fail the messages whose leases have ended; return whether there were any."""
        has_any = False
        while (number := self.state.next_ended(now_ms)) is not None:
            has_any = True
            self._fail(self.state.ids_of(number), Why.LEASE_ENDED, None, now_ms)
        return has_any

    def restart_leases(self, now_ms: int) -> None:
        """Start each lease again with its whole length, as after a restart."""
        for number, delivery in self.state.deliveries.items():
            self.state.extend(number, max(delivery.end_ms, now_ms + delivery.lease_ms))

    def expire(self, oldest: bytes, limit: int, now_ms: int) -> bool:
        """Settle up to `limit` messages with ids below `oldest`, which are no longer live.

        Leased and reserved messages stay open. Return whether any were settled.
        """
        ids: list[bytes] = []
        for message_id, opened in self.state.open.items():
            if message_id >= oldest or len(ids) == limit:
                break
            if not (opened.delivery or opened.is_reserved):
                ids.append(message_id)
        self.gone(ids, now_ms)
        return bool(ids)

    def seek(self, through: bytes | None, now_ms: int) -> None:
        """Forget all open messages, and continue reading after `through`."""
        # Each seek has a floor of its own, which distinguishes reads that began before it.
        self._do(SoughtEdit(through, self._next_number(now_ms)), now_ms)
