"""The rules of a group: what its members may do, decided by its state.

Each command does its edits through `OpenMessages.apply` alone, and keeps them encoded until they
are written as one row (`take_row`). Nothing here waits: a take is served by `reserve`, then the
bodies are read, then `lease` follows.

1. An ack counts as `acks` says, late ones too.
2. A nack, a release and an extension need the lease.
3. By key, if a message fails, those that are leased behind it go back, uncounted.
4. A message whose last attempt failed, or that was rejected, is dying: it is not given any more,
   and keeps its key, until it is written as a dead letter. An ack before that counts.
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
    ids_in,
)
from tms.messaging.groups.open_entries import Reservation, Taker
from tms.messaging.groups.pace import Pace
from tms.messaging.groups.state import OpenMessages

_DOUBLINGS_MAX = 32


class GroupCommands:
    """The commands of one group, and the edits that are not written yet."""

    def __init__(
        self,
        state: OpenMessages,
        settings: GroupSettings,
        now_ms: int,
        given: int = 0,
        counts: Tally | None = None,
    ) -> None:
        """Go on with a state that was read at `now_ms`, and add to `counts`.

        No delivery gets a number up to `given`, which this process gave before, perhaps without
        writing it.
        """
        self.state = state
        self.settings = settings
        self._first_number = max(now_ms * 1000, state.last_delivery + 1, given + 1)
        """No delivery from now on has a smaller number."""
        self._unwritten = UnwrittenTakes(state.through, state.last_delivery, self._first_number)
        self._edits: list[bytes] = []
        self.deaths = DeathRate()
        self.counts = Tally() if counts is None else counts
        self.pace = Pace()
        self.told = 0
        """How many ids the edits had since the last snapshot: so long they are to be read."""

    @property
    def has_edits(self) -> bool:
        """Whether there is something to write."""
        return bool(self._edits)

    def take_row(self) -> bytes | None:
        """Return the row of all edits that are not written yet; None if there are none."""
        edits, self._edits = self._edits, []
        return encode_row(edits) if edits else None

    def _do(self, edit: Edit, now_ms: int) -> None:
        self.state.apply(edit, now_ms)
        self._edits.append(encode_edit(edit))
        self.told += ids_in(edit)

    # -- taking

    def repeated(self, member: Taker, sequence: int | None) -> int | None:
        """Return the delivery that an earlier take with `sequence` got, if it still holds."""
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

    def begin_anew(self, member: Taker, now_ms: int) -> None:
        """Release all that the member's name has."""
        self._leave(member, now_ms)

    def room(self, member: Taker) -> int:
        """Return how many messages more the member may have."""
        return max(0, self.settings.member_max - self.state.held.get(member, 0))

    def read(
        self,
        through: bytes | None,
        ids: Sequence[bytes],
        digests: Sequence[bytes],
        now_ms: int,
    ) -> None:
        """Open messages: all committed ones up to `through` have been read."""
        if ids or through != self.state.through:
            self._do(ReadEdit(through, ids, digests), now_ms)

    def reserve(self, limit: int, now_ms: int) -> Reservation:
        """Return the next messages to give; `lease` or `give_up` must follow."""
        return Reservation(self.state.reserve(limit, now_ms), self.state.epoch)

    def joined(self, *parts: Reservation) -> Reservation:
        """Return several reservations as one, without those that have ended."""
        epoch = self.state.epoch
        ids = sorted(each for part in parts if part.epoch == epoch for each in part.ids)
        return Reservation(ids, epoch)

    def give_up(self, reserved: Reservation) -> None:
        """Let others have what was reserved."""
        if reserved.epoch == self.state.epoch:
            self.state.unreserve(reserved.ids)

    def still_open(self, reserved: Reservation) -> list[bytes]:
        """Return what was reserved and has not been settled meanwhile."""
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
        """Lease `ids`, the first of those that are `still_open`, and return the delivery."""
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
        """Settle messages that cannot be read any more."""
        there = [each for each in ids if each in self.state.open]
        if there:
            self._do(SettledEdit(How.GONE, there), now_ms)
            self.counts.gone += len(there)

    def short_because(self, member: Taker) -> LimitedBy | None:
        """Return why a take found less than it asked for in what is open."""
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

    # -- an operator's hand

    def skip(self, ids: Iterable[bytes], now_ms: int) -> int:
        """Settle open messages, whoever has them; return how many."""
        there = sorted(self.state.open.keys() & ids)
        if there:
            self._do(SettledEdit(How.SKIPPED, there), now_ms)
            self.counts.skipped += len(there)
        return len(there)

    def take_back(
        self, ids: Iterable[bytes], member: str | None, now_ms: int, *, failed: bool
    ) -> int:
        """Take leased messages, or all that members of a name have, back; return how many.

        If they `failed`, an attempt is counted.
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
        """Acknowledge, fail, release, extend and leave, in this order, as far as it may be."""
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
            self._leave(member, now_ms)
        self.counts.refused += len(refused)
        lease_s = None if settle.extend is None else settle.lease_s or self.settings.lease_s
        return Settled(acked, refused, lease_s)

    def refusals(self, acks: Iterable[CommitAcks], principal: str | None) -> list[RefusedMessage]:
        """Return which acks of one commit cannot be done; `acknowledge` does them if none."""
        refused: list[RefusedMessage] = []
        check = AckCheck(self.state, self._unwritten)
        asked = [
            (each, ack.delivery, Taker(ack.member, principal)) for ack in acks for each in ack.ids
        ]
        for each, number, member in sorted(asked):
            is_twice = each == check.last
            reason = Refusal.SETTLED if is_twice else check.refusal(each, number, member)
            if reason is not None:
                refused.append(RefusedMessage(number, each, reason))
        self.counts.refused += len(refused)
        return refused

    def acknowledge(self, acks: Iterable[CommitAcks], now_ms: int) -> None:
        """Settle messages of which none is refused."""
        self._acked(sorted(each for ack in acks for each in ack.ids), now_ms)

    def _ack(
        self, member: Taker, acks: Sequence[Acks], refused: list[RefusedMessage], now_ms: int
    ) -> int:
        if len(acks) == 1 and acks[0].ids is None and self._has(member, acks[0].delivery):
            # Nothing is in its way: by key, they are the first open ones of their keys.
            ids = self.state.ids_of(acks[0].delivery)
            self._acked(ids, now_ms)
            return len(ids)
        asked: list[tuple[bytes, int]] = []
        whole: set[int] = set()
        for ack in acks:
            if ack.ids is not None:
                asked += [(each, ack.delivery) for each in ack.ids]
            elif ack.delivery in whole:
                continue
            elif not self._has(member, ack.delivery):
                refused.append(RefusedMessage(ack.delivery, None, Refusal.LEASE_LOST))
            else:
                whole.add(ack.delivery)
                asked += [(each, ack.delivery) for each in self.state.ids_of(ack.delivery)]
        check = AckCheck(self.state, self._unwritten)
        ids = []
        for each, number in sorted(asked):
            if each == check.last:
                continue
            reason = check.refusal(each, number, member)
            if reason is not None:
                refused.append(RefusedMessage(number, each, reason))
            else:
                ids.append(each)
        self._acked(ids, now_ms)
        return len(ids)

    def _acked(self, ids: Sequence[bytes], now_ms: int) -> None:
        if ids:
            self._do(SettledEdit(How.ACK, ids), now_ms)
            self.counts.ack(ids, now_ms)

    def _has(self, member: Taker, number: int) -> bool:
        """Whether a delivery is a member's, and has messages."""
        delivery = self.state.deliveries.get(number)
        return delivery is not None and delivery.taker == member

    def _held(
        self, member: Taker, asked: Nacks | Releases, refused: list[RefusedMessage]
    ) -> list[bytes]:
        """Return what the member has of what it names, ascending."""
        number, state = asked.delivery, self.state
        is_his = self._has(member, number)
        if asked.ids is None:
            if not is_his:
                refused.append(RefusedMessage(number, None, Refusal.LEASE_LOST))
                return []
            return state.ids_of(number)
        held = []
        for each in sorted(set(asked.ids)):
            if is_his and state.has(number, each):
                held.append(each)
                continue
            is_settled = each not in state.open and state.was_read(each)
            reason = Refusal.SETTLED if is_settled else Refusal.LEASE_LOST
            refused.append(RefusedMessage(number, each, reason))
        return held

    def _fail(self, ids: Sequence[bytes], why: Why, nacks: Nacks | None, now_ms: int) -> None:
        """Count an attempt of messages that are leased, and give back what is behind them."""
        failed, behind = self._behind(ids)
        self.counts.failed += len(failed)
        delay_s = None if nacks is None else nacks.delay_s
        reason = "" if nacks is None else kept_of(nacks.reason)
        if self.settings.dead_letter:
            is_rejected = nacks is not None and nacks.dead
            failed = self._die(failed, why, reason, now_ms, is_rejected=is_rejected)
        waits: dict[int, list[bytes]] = {}
        for each in failed:
            wait_ms = self._back_off_ms(each) if delay_s is None else int(delay_s * 1000)
            waits.setdefault(wait_ms, []).append(each)
        for wait_ms, group in waits.items():
            not_before_ms = now_ms + wait_ms if wait_ms else 0
            self._do(FailedEdit(why, not_before_ms, group, reason), now_ms)
        if behind:
            self._do(ReleasedEdit(behind), now_ms)

    def _die(
        self, failed: Sequence[bytes], why: Why, reason: str, now_ms: int, *, is_rejected: bool
    ) -> list[bytes]:
        """Let those die that have no attempt left; return the others.

        If more would die than may, the group is paused instead, and they get one more attempt.
        """
        state, settings = self.state, self.settings
        dying: dict[Death, list[bytes]] = {}
        left: list[bytes] = []
        disposition = Disposition.ATTEMPTS if why is Why.NACK else Disposition.UNACKNOWLEDGED
        disposition = Disposition.REJECTED if is_rejected else disposition
        for each in failed:
            opened = state.open[each]
            is_last = 0 < settings.attempts_max <= opened.attempts + 1
            if not (is_rejected or is_last):
                left.append(each)
            elif self.deaths.take(settings, now_ms):
                member = "" if opened.last_taker is None else opened.last_taker.name
                dying.setdefault(Death(disposition, now_ms, member, reason), []).append(each)
            else:
                left.append(each)
                self.settings = replace(settings, paused=True)
        for death, ids in dying.items():
            self._do(DyingEdit(death, ids), now_ms)
        return left

    def still_dying(self, ids: Iterable[bytes]) -> bool:
        """Return whether messages wait to be written as dead letters."""
        return all(each in self.state.dying for each in ids)

    def buried(self, ids: Sequence[bytes], now_ms: int) -> None:
        """Settle messages that are written as dead letters in this flush."""
        self._do(SettledEdit(How.DEAD, sorted(ids)), now_ms)
        self.counts.dead += len(ids)

    def reopen(
        self,
        redriven: bytes | None,
        handled: Sequence[bytes],
        messages: Mapping[bytes, bytes],
        now_ms: int,
    ) -> int:
        """Deal with dead letters, and give `messages` again, each with the digest of its key.

        Those that are open, or not read yet, are given anyway. Return how many were opened.
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
        """Return which of `ids` fail, and which messages go back: by key, those behind them."""
        state = self.state
        if not state.by_key:
            return list(ids), []
        first: dict[bytes, bytes] = {}
        for each in ids:
            digest = state.open[each].digest
            assert digest is not None
            first.setdefault(digest, each)
        behind: list[bytes] = []
        for digest, failed in first.items():
            for each in state.keys[digest].open:
                if each > failed:
                    if not state.open[each].delivery:
                        break  # those that are leased are the first ones of their key
                    behind.append(each)
        return sorted(first.values()), sorted(behind)

    def _back_off_ms(self, each: bytes) -> int:
        settings = self.settings
        doublings = min(self.state.open[each].attempts, _DOUBLINGS_MAX)
        return min(settings.retry_s << doublings, settings.retry_s_max) * 1000

    def _release(self, ids: Sequence[bytes], now_ms: int) -> None:
        """Give messages back, and by key what is leased behind them."""
        if ids:
            first, behind = self._behind(ids)
            self._do(ReleasedEdit(sorted({*first, *behind, *ids})), now_ms)

    def _extend(
        self, member: Taker, settle: Settle, refused: list[RefusedMessage], now_ms: int
    ) -> None:
        """Extend leases. Without a length of its own, an extension shortens none."""
        assert settle.extend is not None
        state, lease_s = self.state, settle.lease_s
        end_ms = now_ms + (self.settings.lease_s if lease_s is None else lease_s) * MS_PER_S
        for number in settle.extend or tuple(state.of_member.get(member, ())):
            if self._has(member, number):
                least_ms = state.deliveries[number].end_ms if lease_s is None else 0
                state.extend(number, max(end_ms, least_ms))
            else:
                refused.append(RefusedMessage(number, None, Refusal.LEASE_LOST))

    def _leave(self, member: Taker, now_ms: int) -> None:
        numbers = self.state.of_member.get(member, ())
        self._release([each for number in numbers for each in self.state.ids_of(number)], now_ms)

    # -- time, and places

    def end_leases(self, now_ms: int) -> bool:
        """Fail what is leased by deliveries whose leases have ended; return whether any has."""
        has_any = False
        while (number := self.state.next_ended(now_ms)) is not None:
            has_any = True
            self._fail(self.state.ids_of(number), Why.LEASE_ENDED, None, now_ms)
        return has_any

    def begin_leases_anew(self, now_ms: int) -> None:
        """Let each lease run for its whole length from now on, as after a restart."""
        for number, delivery in self.state.deliveries.items():
            self.state.extend(number, max(delivery.end_ms, now_ms + delivery.lease_ms))

    def expire(self, oldest: bytes, limit: int, now_ms: int) -> bool:
        """Settle at most `limit` messages below the id `oldest`, which are not live any more.

        Those that somebody has, or is about to get, stay. Return whether there were any.
        """
        ids: list[bytes] = []
        for each, opened in self.state.open.items():
            if each >= oldest or len(ids) == limit:
                break
            if not (opened.delivery or opened.is_reserved):
                ids.append(each)
        self.gone(ids, now_ms)
        return bool(ids)

    def seek(self, through: bytes | None, now_ms: int) -> None:
        """Drop all that is open, and read on behind `through`."""
        # Each seek has a floor of its own, by which a reservation from before is known.
        self._do(SoughtEdit(through, self._next_number(now_ms)), now_ms)
