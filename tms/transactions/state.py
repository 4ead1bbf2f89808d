"""The state of all transactions, changed only by edits.

`apply` is the only way to change it, for the live state and for one that is recovered from its log,
so that both are the same. It does not repeat a command's checks: an edit that cannot follow the
present state raises `LookupError` or `ValueError`, which means that the log is damaged.

The rules are those of Tephra's TransactionManager. One rule differs: a commit does not make an
invalid transaction valid. Tephra's log needs that because its edits may be out of order; ours are
in the order in which they were made.
"""

from collections.abc import Callable

from tms.core.limits import WRITE_POINTERS_PER_MS, Limits
from tms.core.runtime.shares import Shares
from tms.core.services.transactions import TransactionStatus
from tms.core.values.shards import EVERY_ID, OwnIds
from tms.core.values.transaction import TransactionType
from tms.transactions.change_sets import ChangeSets, CommittedSet
from tms.transactions.edits import Edit, EditKind
from tms.transactions.in_progress import InProgress, Open
from tms.transactions.invalids import Invalid, Invalids
from tms.transactions.outcomes import Outcomes
from tms.transactions.owners import LastCommit, Owners
from tms.transactions.snapshot_history import Excluded, Past


class AppliedState:
    """The state. Times are milliseconds since 1970; used from one thread at a time."""

    def __init__(self, limits: Limits, now_ms: int, ids: OwnIds = EVERY_ID) -> None:
        """Begin an empty state at `now_ms`: all earlier messages are visible."""
        self.limits = limits
        self.ids = ids
        """The write pointers that new transactions may have."""
        self.last_write_pointer = now_ms * WRITE_POINTERS_PER_MS
        self.read_pointer = self.last_write_pointer
        self.kept_changes = Shares(limits.transaction_changes_kept_bytes_max)
        """The approximate memory of all kept changes, announced or committed."""
        self.opened = InProgress(
            Shares(limits.transactions_in_progress_max, limits.principal_transactions_max),
            self.kept_changes,
        )
        self.invalids = Invalids()
        self.excluded = Excluded(self.opened, self.invalids)
        self.change_sets = ChangeSets(self.kept_changes)
        self.outcomes = Outcomes(limits.transaction_outcomes_max)
        self.owners = Owners(limits.transaction_owners_max)

    def apply(self, edit: Edit) -> None:
        """Change the state by `edit`."""
        _APPLY[edit.kind](self, edit)

    def _advance(self, pointer: int) -> None:
        if pointer <= self.last_write_pointer:
            raise ValueError(pointer)
        self.last_write_pointer = pointer

    def _started(self, edit: Edit) -> None:
        if edit.type is None or edit.owner in self.opened.by_owner:
            raise ValueError(edit.write_pointer)
        self._advance(edit.write_pointer)
        opened = Open(
            edit.write_pointer,
            edit.type,
            edit.expires_ms,
            edit.timeout_s,
            edit.visibility_upper_bound,
            self.read_pointer,
            self.opened.first_short,
            edit.client,
            edit.owner,
            edit.sequence,
            edit.origin,
            principal=edit.principal,
            keys_from_ms=edit.time_ms,
        )
        self.opened.add(opened)
        if edit.owner is not None and edit.sequence is not None:
            self.owners.promise(edit.owner, edit.principal)

    def _checkpoint(self, edit: Edit) -> None:
        opened = self._named(edit.parent)
        self._advance(edit.write_pointer)
        self.opened.add_checkpoint(opened, edit.write_pointer)

    def _committing(self, edit: Edit) -> None:
        self.opened.announce(self._named(edit.write_pointer), edit.changes)

    def _named(self, transaction_id: int) -> Open:
        opened = self.opened.by_pointer[transaction_id]
        if opened.id != transaction_id:
            raise KeyError(transaction_id)
        return opened

    def _committed(self, edit: Edit) -> None:
        transaction_id = pointer = edit.write_pointer
        if edit.at_once:
            self._advance(pointer)
            changes, client, principal = edit.changes, edit.client, edit.principal
        else:
            opened = self._end(transaction_id)
            changes, client, principal = opened.changes or (), opened.client, opened.principal
            pointer = opened.checkpoints[-1] if opened.checkpoints else pointer
            self.outcomes.add(transaction_id, TransactionStatus.COMMITTED, opened.type)
        if edit.can_commit and changes:
            committed = CommittedSet(
                edit.commit_pointer, transaction_id, client, changes, principal
            )
            self.change_sets.add(committed)
        self.read_pointer = max(self.read_pointer, pointer)
        self.change_sets.drop_before(self.opened.first_short)
        if edit.owner is not None and edit.sequence is not None:
            commit = LastCommit(edit.sequence, transaction_id, edit.time_ms, edit.origin, principal)
            self.owners.record(edit.owner, commit)

    def _end(self, transaction_id: int) -> Open:
        opened = self.opened.remove(transaction_id)
        if opened.owner is not None:
            self.owners.take_back(opened.owner)
        self.excluded.has_ended(opened, self.last_write_pointer)
        self.change_sets.drop_before(self.opened.first_short)
        return opened

    def _aborted(self, edit: Edit) -> None:
        transaction_id = edit.write_pointer
        if transaction_id in self.opened.by_pointer:
            self._end(transaction_id)
        else:
            self._off_the_list(self.invalids[transaction_id].pointers)
        self.outcomes.add(transaction_id, TransactionStatus.ABORTED, TransactionType.SHORT)
        self.read_pointer = max(self.read_pointer, transaction_id)

    def _invalidated(self, edit: Edit) -> None:
        opened = self._end(edit.write_pointer)
        invalid = Invalid(
            opened.id,
            opened.type,
            self.last_write_pointer,
            opened.client,
            opened.owner,
            opened.sequence,
            tuple(opened.checkpoints),
            opened.principal,
            opened.keys_from_ms,
        )
        self.invalids.add(invalid, invalid.pointers)
        self.invalids.settle_if_many(self.opened.first)
        # Tephra moves it when a client invalidates, but not on a timeout.
        if opened.type is TransactionType.SHORT and not edit.timed_out:
            self.read_pointer = max(self.read_pointer, opened.id)

    def _truncated(self, edit: Edit) -> None:
        if edit.truncate_before_ms:
            pointers = self.invalid_before(edit.truncate_before_ms)
        else:
            pointers = edit.truncated
        self._off_the_list(pointers)

    def invalid_before(self, time_ms: int) -> tuple[int, ...]:
        """Return the pointers on the invalid list from before a time."""
        bound = time_ms * WRITE_POINTERS_PER_MS
        return tuple(pointer for pointer in self.invalids.ascending if pointer < bound)

    def _off_the_list(self, pointers: tuple[int, ...]) -> None:
        now = self.last_write_pointer
        for pointer, invalid in self.invalids.remove(pointers, now).items():
            # As if all were settled, so that a replay, which settles at other moments, has the same
            # result.
            is_settled = invalid.since < self.opened.first
            since = invalid.pointers[-1] if is_settled else invalid.since
            self.excluded.was_invalid(pointer, Past(since, now))

    def _owners_forgotten(self, edit: Edit) -> None:
        before = self.owners.before(edit.truncate_before_ms, self.opened.by_owner)
        for owner in [*before] if edit.owner is None else [edit.owner]:
            self.owners.forget(owner)


_APPLY: dict[EditKind, Callable[[AppliedState, Edit], None]] = {
    EditKind.STARTED: AppliedState._started,  # noqa: SLF001
    EditKind.COMMITTING: AppliedState._committing,  # noqa: SLF001
    EditKind.COMMITTED: AppliedState._committed,  # noqa: SLF001
    EditKind.INVALID: AppliedState._invalidated,  # noqa: SLF001
    EditKind.ABORTED: AppliedState._aborted,  # noqa: SLF001
    EditKind.TRUNCATED: AppliedState._truncated,  # noqa: SLF001
    EditKind.CHECKPOINT: AppliedState._checkpoint,  # noqa: SLF001
    EditKind.OWNERS_FORGOTTEN: AppliedState._owners_forgotten,  # noqa: SLF001
}
