"""The state of all transactions: commands that check and return edits. `QueriedState` has queries.

A command changes nothing. Apply the edits that it returns in their order, before the next command,
and keep them in the log in that order: a recovery applies the same edits. The rules are Tephra's
(`tms.transactions.state`), extended with owners and sequences.

Time, in milliseconds since 1970, is always an argument; it may go backwards, write pointers do not.
"""

from collections.abc import Collection, Iterable
from typing import NamedTuple

from tms.core.errors import (
    InvalidRequest,
    InvalidTruncateTime,
    OwnerBusy,
    OwnerNotFound,
    RateExceeded,
    TooLarge,
    TooManyTransactions,
    TransactionConflict,
    TransactionUnknown,
)
from tms.core.limits import MS_PER_S, NAME_CHARS_MAX, WRITE_POINTERS_PER_MS
from tms.core.services.transactions import (
    IfOpen,
    StartRequest,
    check_owner,
)
from tms.core.values.caller import ANYBODY, Caller
from tms.core.values.transaction import NO_TX_IN_PROGRESS, Transaction, TransactionType
from tms.transactions.change_sets import checked_changes
from tms.transactions.edits import Edit, EditKind
from tms.transactions.in_progress import Open
from tms.transactions.owners import check_owner_own
from tms.transactions.queries import QueriedState
from tms.transactions.transitions import Event, check

Edits = tuple[Edit, ...]

_EXPIRED_AT_ONCE = 10_000
_NO_WORK = (None, None, None)


class Started(NamedTuple):
    """A transaction, and the edits that make it."""

    transaction_id: int
    edits: Edits


class TransactionState(QueriedState):
    """The state machine. Used from one thread at a time."""

    def start(
        self, request: StartRequest, now_ms: int, caller: Caller = ANYBODY, *, keys_from_ms: int = 0
    ) -> Started:
        """Start a transaction; `transaction` returns its snapshot once the edits are applied.

        None of its messages may have an earlier time than `keys_from_ms`. If it joins an open
        transaction, there are no edits. Raises `TransactionDuplicate`, `OwnerBusy`,
        `OwnerElsewhere`, `InvalidRequest` (invalid_timeout, invalid_owner), `TooManyTransactions`,
        `NotPermitted` (transaction_of_another), `RateExceeded` (principal_rate_exceeded),
        `TooLarge` (too_many_owners).
        """
        work = request.owner, request.sequence, request.origin
        if work != _NO_WORK:
            check_owner(*work)
            self._check_owner_own(caller, request.owner)
            self.owners.check(*work)
            self.owners.check_room(request.owner, request.sequence, caller.sharer)
        timeout_s = self._timeout_s(request)
        busy = None if request.owner is None else self.opened.by_owner.get(request.owner)
        fenced: Edits = ()
        if busy is not None:
            if request.if_open is IfOpen.JOIN and (busy.owner, busy.sequence, busy.origin) == work:
                return Started(busy.id, ())
            self._check_fence(busy, request.if_open)
            fenced = (Edit(EditKind.INVALID, busy.id),)
        elif self.opened.count >= self.limits.transactions_in_progress_max:
            raise TooManyTransactions(
                in_progress=self.opened.count,
                transactions_in_progress_max=self.limits.transactions_in_progress_max,
            )
        if caller.sharer is not None and busy is None:
            self._check_count(caller.sharer)
        pointer = self._next_write_pointer(now_ms)
        started = Edit(
            EditKind.STARTED,
            pointer,
            expires_ms=now_ms + timeout_s * MS_PER_S,
            visibility_upper_bound=self._visibility_upper_bound(),
            type=request.type,
            time_ms=keys_from_ms,
            timeout_s=timeout_s,
            sequence=request.sequence,
            owner=request.owner,
            origin=request.origin,
            client=request.client[:NAME_CHARS_MAX],
            principal=caller.principal,
        )
        return Started(pointer, (*fenced, started))

    def _check_owner_own(self, caller: Caller, owner: str | None) -> None:
        check_owner_own(caller, owner, self.opened.by_owner, self.owners.last_commits)

    def _check_count(self, principal: str) -> None:
        if not self.opened.shares.room(principal):
            raise RateExceeded(
                "principal_rate_exceeded",
                setting="principal_transactions_max",
                principal_transactions_max=self.limits.principal_transactions_max,
                in_progress=self.opened.count_of(principal),
                retry_after_s=1,
            )

    def _timeout_s(self, request: StartRequest) -> int:
        limits, timeout_s = self.limits, request.timeout_s
        if request.type is TransactionType.LONG:
            return limits.transaction_long_timeout_s
        if timeout_s is None:
            return limits.transaction_timeout_s_default
        longest_s = limits.transaction_timeout_s_max
        if not 0 < timeout_s <= longest_s:
            raise InvalidRequest("invalid_timeout", timeout_s=timeout_s, timeout_s_max=longest_s)
        return timeout_s

    def _check_fence(self, busy: Open, if_open: IfOpen) -> None:
        if if_open is not IfOpen.FENCE:
            raise OwnerBusy(owner=busy.owner, transaction_id=busy.id, sequence=busy.sequence)
        check(busy.id, busy.status, Event.INVALIDATE)

    def _next_write_pointer(self, now_ms: int) -> int:
        now = now_ms * WRITE_POINTERS_PER_MS
        return self.ids.first_from(max(self.last_write_pointer + 1, now))

    def _visibility_upper_bound(self) -> int:
        first = self.opened.first
        return self.read_pointer if first == NO_TX_IN_PROGRESS else first - 1

    def start_and_commit(
        self,
        now_ms: int,
        committed_ms: int,
        *,
        owner: str | None = None,
        sequence: int | None = None,
        changes: Collection[bytes] = (),
        client: str = "",
        caller: Caller = ANYBODY,
    ) -> Started:
        """Start and commit a transaction in one edit; it is never in progress.

        Raises `TransactionDuplicate`, `OwnerBusy`, `InvalidRequest` (invalid_owner), `TooLarge`,
        `NotPermitted` (transaction_of_another).
        """
        check_owner(owner, sequence)
        self._check_owner_own(caller, owner)
        self.owners.check(owner, sequence)
        self.owners.check_room(owner, sequence, caller.sharer)
        busy = None if owner is None else self.opened.by_owner.get(owner)
        if busy is not None:
            self._check_fence(busy, IfOpen.REFUSE)
        distinct = self._checked_changes(changes, caller)
        pointer = self._next_write_pointer(now_ms)
        edit = Edit(
            EditKind.COMMITTED,
            pointer,
            commit_pointer=pointer + 1,
            can_commit=bool(distinct),
            changes=distinct,
            at_once=True,
            time_ms=committed_ms,
            sequence=sequence,
            owner=owner,
            client=client[:NAME_CHARS_MAX],
            principal=None if owner is None else caller.principal,
        )
        return Started(pointer, (edit,))

    def can_commit(
        self, transaction_id: int, changes: Collection[bytes], caller: Caller = ANYBODY
    ) -> Edits:
        """Announce what a transaction changed.

        Raises `TransactionNotInProgress`, `TransactionUnknown`, `TooLarge` (too_many_changes),
        `TooManyTransactions` (too_many_changes_kept), `TransactionConflict`.
        """
        opened = self._open(transaction_id, Event.CAN_COMMIT)
        if not changes and opened.changes is None:
            return ()
        distinct = self._checked_changes(changes, caller)
        self._check_conflict(transaction_id, distinct)
        return (Edit(EditKind.COMMITTING, transaction_id, changes=distinct),)

    def _checked_changes(self, changes: Collection[bytes], caller: Caller) -> tuple[bytes, ...]:
        return checked_changes(
            changes, self.limits, self.kept_changes, caller.sharer, self.opened.first
        )

    def _check_conflict(self, transaction_id: int, changes: Iterable[bytes]) -> None:
        conflict = self.change_sets.conflict(transaction_id, changes)
        if conflict is not None:
            key, committed = conflict
            raise TransactionConflict(
                transaction_id=transaction_id,
                key=key.hex(),
                other_transaction_id=committed.transaction_id,
                client=committed.client,
            )

    def commit(self, transaction_id: int, committed_ms: int) -> Edits:
        """Commit a transaction, with the changes that it announced.

        Raises `TransactionNotInProgress`, `TransactionUnknown`, `TransactionConflict`,
        `TransactionDuplicate`; then the transaction stays in progress.
        """
        opened = self._open(transaction_id, Event.COMMIT)
        self.owners.check(opened.owner, opened.sequence, opened.origin)
        if opened.changes:
            self._check_conflict(transaction_id, opened.changes)
        edit = Edit(
            EditKind.COMMITTED,
            transaction_id,
            commit_pointer=self.last_write_pointer + 1,
            can_commit=bool(opened.changes),
            time_ms=committed_ms,
            sequence=opened.sequence,
            owner=opened.owner,
            origin=opened.origin,
        )
        return (edit,)

    def abort(self, transaction_id: int) -> Edits:
        """End a transaction whose writes were all undone, even if it is invalid by now.

        A long transaction becomes or stays invalid. Aborting twice changes nothing. Raises
        `TransactionNotInProgress`, `TransactionUnknown`.
        """
        opened = self.opened.by_pointer.get(transaction_id)
        transaction = opened or self.invalids.get(transaction_id)
        if transaction is not None and transaction.id != transaction_id:
            raise TransactionUnknown(transaction_id=transaction_id)
        if transaction is not None and transaction.type is TransactionType.LONG:
            return self.invalidate(transaction_id)
        check(transaction_id, self.status(transaction_id), Event.ABORT)
        return () if transaction is None else (Edit(EditKind.ABORTED, transaction_id),)

    def invalidate(self, write_pointer: int) -> Edits:
        """End the transaction that has a write pointer; readers skip its messages.

        Invalidating twice changes nothing. Raises `TransactionNotInProgress`, `TransactionUnknown`.
        """
        check(write_pointer, self.status(write_pointer), Event.INVALIDATE)
        opened = self.opened.by_pointer.get(write_pointer)
        return () if opened is None else (Edit(EditKind.INVALID, opened.id),)

    def expire(self, now_ms: int, limit: int = _EXPIRED_AT_ONCE) -> Edits:
        """Invalidate transactions that have timed out, at most `limit`, oldest first."""
        return tuple(
            Edit(EditKind.INVALID, transaction_id, timed_out=True)
            for transaction_id in self.opened.expired(now_ms, limit)
        )

    def checkpoint(self, transaction_id: int, now_ms: int) -> Edits:
        """Add a write pointer to a transaction; `transaction` returns it once this is applied.

        Raises `TransactionNotInProgress`, `TransactionUnknown`, `TooLarge` (too_many_checkpoints).
        """
        opened = self._open(transaction_id, Event.CHECKPOINT)
        count_max = self.limits.transaction_checkpoints_max
        if len(opened.checkpoints) >= count_max:
            raise TooLarge("too_many_checkpoints", checkpoints_max=count_max)
        pointer = self._next_write_pointer(now_ms)
        return (Edit(EditKind.CHECKPOINT, pointer, parent=transaction_id),)

    def truncate_invalid_ids(self, write_pointers: Iterable[int]) -> tuple[int, Edits]:
        """Take write pointers off the invalid list; the first value is how many were on it."""
        listed = tuple(sorted({p for p in write_pointers if p in self.invalids}))
        return len(listed), (Edit(EditKind.TRUNCATED, truncated=listed),) if listed else ()

    def truncate_invalid_before(self, time_ms: int) -> tuple[int, Edits]:
        """Take transactions off that started before a time; the first value is how many.

        Raises `InvalidTruncateTime` if a transaction in progress started before it.
        """
        if self.opened.count and self.opened.first < time_ms * WRITE_POINTERS_PER_MS:
            raise InvalidTruncateTime(time_ms=time_ms, transaction_id=self.opened.first)
        count = len(self.invalid_before(time_ms))
        return count, (Edit(EditKind.TRUNCATED, truncate_before_ms=time_ms),) if count else ()

    def forget_owners(self, now_ms: int) -> Edits:
        """Forget owners without commits for the retention; called before a snapshot."""
        before_ms = now_ms - self.limits.transaction_owner_retention_s * MS_PER_S
        if not any(self.owners.before(before_ms, self.opened.by_owner)):
            return ()
        return (Edit(EditKind.OWNERS_FORGOTTEN, truncate_before_ms=before_ms),)

    def forget_owner(self, owner: str, now_ms: int, caller: Caller = ANYBODY) -> Edits:
        """Forget one owner: its sequences may be committed again, and any principal may use it.

        The edits say that it committed in 1970, and that all owners of that time are forgotten. So
        versions that cannot forget one owner reach the same state. Raises `OwnerNotFound`,
        `OwnerBusy`, `NotPermitted` (transaction_of_another).
        """
        busy = self.opened.by_owner.get(owner)
        self._check_owner_own(caller, owner)
        if busy is not None:
            self._check_fence(busy, IfOpen.REFUSE)
        last = self.owners.last_commits.get(owner)
        if last is None:
            raise OwnerNotFound(owner=owner)
        pointer = self._next_write_pointer(now_ms)
        committed = Edit(
            EditKind.COMMITTED,
            pointer,
            commit_pointer=pointer + 1,
            at_once=True,
            sequence=last.sequence,
            owner=owner,
        )
        return (committed, Edit(EditKind.OWNERS_FORGOTTEN, truncate_before_ms=1, owner=owner))

    def _open(self, transaction_id: int, event: Event) -> Open:
        opened = self.opened.by_pointer.get(transaction_id)
        if opened is None:
            check(transaction_id, self.status(transaction_id), event)
        elif opened.id == transaction_id:
            check(transaction_id, opened.status, event)
            return opened
        raise TransactionUnknown(transaction_id=transaction_id)

    def transaction(self, transaction_id: int) -> Transaction:
        """Return a transaction in progress with its snapshot and its present write pointer.

        Raises `TransactionNotInProgress`, `TransactionUnknown`.
        """
        return self.excluded.snapshot(self._open(transaction_id, Event.CHECKPOINT))
