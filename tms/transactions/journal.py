"""The state of transactions and its log: how a transition becomes durable.

The order of the steps has these reasons:
1. A transition is decided within a flush of the writer (`tms.core.services.group_commit`), from the
   state after all earlier transitions, including those of the same flush. A refused transition
   changes nothing.
2. It takes effect in the state at once, and its edits go into one row of the log, which is part of
   the flush's batch. So messages, positions and edits share one fsync and one outcome.
3. Only when the batch is durable does the caller get its answer, and do readers see the transition:
   `latest` and `snapshot_of` use the last durable state.
4. If the flush fails, the state is ahead of the store, which may or may not have the batch. No more
   transitions are decided by this state, and it is recovered from the store as soon as that accepts
   writes again. Until then readers get the state that was durable before the flush; reads in
   transactions that the flush began, or ended by a timeout, are refused.

Messaging checks here what may be written and read. Used from the event loop's thread alone.
"""

import asyncio
import logging
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

from tms.core.errors import (
    Stopping,
    StoreUnavailable,
    TmsError,
    TransactionUnknown,
)
from tms.core.limits import MS_PER_S
from tms.core.runtime.clock import Clock, SessionTime
from tms.core.runtime.supervision import supervised
from tms.core.services.commits import Carried, JointWrite
from tms.core.services.group_commit import BlockingCalls, Participant
from tms.core.services.transactions import Publications, TransactionStatus
from tms.core.values.batch import Batch
from tms.core.values.caller import ANYBODY, Caller
from tms.core.values.transaction import Transaction
from tms.transactions.commands import TransactionState
from tms.transactions.edits import Edit, EditKind, encode_row
from tms.transactions.recovery import RecoveredState
from tms.transactions.transitions import not_in_progress

if TYPE_CHECKING:
    from tables.store_tables import StoreTables

_RECOVER_EVERY_S = 0.2
_ENDS = (EditKind.COMMITTED, EditKind.ABORTED, EditKind.INVALID)
_IN_DOUBT = (EditKind.STARTED, *_ENDS)
_FAILED = "an earlier write failed; try again"
_EDIT_BYTES = 200
"""The approximate weight of a queued transition, without its changes."""

Recover = Callable[[int], RecoveredState]
"""Recovers the state as of a time in ms. Blocks."""
Decision = tuple[Sequence[Edit], Callable[[], Any] | None]
"""Edits, and the call that returns the answer once they have taken effect, if there is one."""


class Moment(NamedTuple):
    """The times of a flush, in ms since 1970."""

    now_ms: int
    """The time by which transactions begin and end."""
    keys_ms: int
    """The time by which messages get keys."""


Decide = Callable[[TransactionState, Moment], Decision]
"""Decides a transition from the state and the times. Raises a `TmsError` to refuse it."""

Result = TypeVar("Result")

_log = logging.getLogger(__name__)


class TransactionJournal(Participant):
    """The state, as a participant in the writer's flushes.

    A stale state is recovered outside the flushes, which refuse transitions until then.
    """

    def __init__(
        self,
        recover: Recover,
        recovered: RecoveredState,
        *,
        clock: Clock,
        threads: BlockingCalls,
        tables: "StoreTables",
        publications: Publications,
    ) -> None:
        """Continue from `recovered`; `recover` recovers again after a failed flush."""
        self._recover = recover
        self.clock = clock
        """The clock by which owners are remembered, over restarts."""
        self.time = SessionTime(clock)
        """The time by which transactions begin and end."""
        self._threads = threads
        self._tables = tables
        self._publications = publications
        self._recovering: asyncio.Task[None] | None = None
        self._looks: list[tuple[Callable[[], Any], asyncio.Future[Any]]] = []
        self.counts: Counter[EditKind] = Counter()
        """Edits since the process began, by kind."""
        self.rows_written = 0
        self.knows_publications_after = recovered.state.last_write_pointer
        """This process knows the publications under greater pointers."""
        self._adopt(recovered)

    def _adopt(self, recovered: RecoveredState) -> None:
        self._state = recovered.state
        self.next_row = recovered.next_sequence
        self._edits: list[Edit] = []
        """The edits of the current flush."""
        self._is_ahead = False
        """Whether the state has edits that are not durable yet."""
        self._is_stale = False
        """Whether the state may differ from the store."""
        self._latest: Transaction | None = None
        self._ending: dict[int, Transaction] = {}
        """The snapshots of transactions that this flush ends, for readers until it is durable."""
        self._in_doubt: frozenset[int] = frozenset()
        """Other transactions that a failed flush began or ended."""
        self._ended: list[tuple[tuple[int, ...], EditKind]] = []
        """The write pointers of the transactions that this flush ends, and how they end."""
        self.recovered_ids = frozenset(opened.id for opened in recovered.state.opened)
        """This process does not know the publications of these."""

    @property
    def state(self) -> TransactionState:
        """The state, including the current flush. Raises `StoreUnavailable` while it is stale."""
        if self._is_stale:
            raise StoreUnavailable(reason=_FAILED)
        return self._state

    async def durably(self, look: Callable[[], Result]) -> Result:
        """Return the result of `look` at a moment when all of the state is durable.

        Raises as `look` does, and `StoreUnavailable` if a flush fails in the meantime.
        """
        if self._is_stale or not self._is_ahead:
            return look()  # raises if the state is stale
        seen: asyncio.Future[Result] = asyncio.get_running_loop().create_future()
        self._looks.append((look, seen))
        return await seen

    def latest(self) -> Transaction:
        """Return the snapshot of a reader without a transaction: all that is durably committed."""
        if self._latest is None:  # not while the state is ahead: see `carry_out`
            self._latest = self._state.latest_snapshot()
        return self._latest

    def snapshot_of(self, transaction_id: int) -> Transaction:
        """Return the snapshot of a transaction that is durably in progress.

        Raises `TransactionNotInProgress`, `TransactionUnknown`, and `StoreUnavailable` if a failed
        flush leaves in doubt whether it is.
        """
        ending = self._ending.get(transaction_id)
        if ending is not None:
            return ending
        if transaction_id in self._in_doubt:
            raise StoreUnavailable(reason=_FAILED)
        return self._state.transaction(transaction_id)

    def check_here(self, transaction_id: int) -> None:
        """Raise `TransactionUnknown` for the id of a transaction of another shard."""
        if not self._state.ids.has(transaction_id):
            raise TransactionUnknown(transaction_id=transaction_id)

    def check(self, write_pointer: int) -> int:
        """Return the least time, in ms since 1970, of messages to write under a pointer.

        Raises `TransactionNotInProgress` or `TransactionUnknown` unless the pointer may be written
        under. Within a flush, its earlier transitions count.
        """
        state = self.state
        opened = state.opened.by_pointer.get(write_pointer)
        if opened is None:
            raise _ended(state, write_pointer)
        return opened.keys_from_ms

    def check_rollback(self, write_pointer: int) -> None:
        """Raise `TransactionNotInProgress`, `TransactionUnknown` if it is or may be committed.

        Its messages may be visible then, and must stay. Within a flush as `check`.
        """
        status = self.state.status(write_pointer)
        if status is None or status is TransactionStatus.COMMITTED:
            raise _ended(self.state, write_pointer)

    def check_own(self, write_pointer: int, caller: Caller) -> None:
        """Raise `NotPermitted` (transaction_of_another) if it is another principal's.

        A transaction never changes its principal, so one check is enough. Does not raise for a
        transaction that is unknown, or has committed or aborted.
        """
        self.state.check_own(write_pointer, caller)

    def id_of(self, write_pointer: int) -> int:
        """Return the id of the open transaction with a pointer; without one, the pointer."""
        with suppress(StoreUnavailable):  # readers still use the state that was durable before
            return self.state.id_of(write_pointer)
        return write_pointer

    def age_s(self, write_pointer: int) -> float | None:
        """Return how long a transaction has been in progress, None if it is not."""
        with suppress(StoreUnavailable):
            opened = self.state.opened.by_pointer.get(write_pointer)
            return None if opened is None else opened.age_ms(self.time.now_ms()) / MS_PER_S
        return None

    def commit_at_once(
        self, owner: str | None, sequence: int | None, caller: Caller = ANYBODY
    ) -> tuple[int, Callable[[], None]]:
        """Decide within a flush to start and commit a transaction.

        Return its write pointer, and the call that commits it, once the rest of its batch is
        complete. Raises `TransactionDuplicate`, `OwnerBusy`, `NotPermitted`
        (transaction_of_another) if the owner is another principal's.
        """
        started = self.state.start_and_commit(
            self.time.now_ms(), self.clock.now_ms(), owner=owner, sequence=sequence, caller=caller
        )
        return started.transaction_id, partial(self.carry_out, started.edits)

    def pointers(self, transaction_id: int) -> tuple[int, ...]:
        """Return the write pointers of an open or invalid transaction; none for others."""
        state = self.state
        opened = state.opened.by_pointer.get(transaction_id)
        transaction = opened or state.invalids.get(transaction_id)
        return () if transaction is None else transaction.pointers

    def searched_from_ms(self, pointers: Iterable[int]) -> int:
        """Return the time from which entries may exist under pointers in progress, in ms.

        Works while the state is stale, because a pointer's time does not change.
        """
        opened = self._state.opened.by_pointer
        transactions = (opened.get(pointer) for pointer in pointers)
        return min((0 if one is None else one.keys_from_ms for one in transactions), default=0)

    def carry_out(self, edits: Sequence[Edit]) -> None:
        """Apply edits within a flush."""
        if not edits:
            return
        if not self._is_ahead:
            self.latest()
            self._is_ahead = True
        for edit in edits:
            if edit.kind in _ENDS:
                self._record_end(edit)
            self._state.apply(edit)
        self._edits += edits

    def _record_end(self, edit: Edit) -> None:
        """Record the end of a transaction, and the snapshot that readers still use."""
        self._ended.append((self.pointers(edit.write_pointer), edit.kind))
        opened = self._state.opened.by_pointer.get(edit.write_pointer)
        # Thousands may time out at once, and building a snapshot may take a while.
        if opened is not None and not edit.timed_out:
            self._ending[opened.id] = self._state.excluded.snapshot(opened)

    def add_rows(self, batch: Batch) -> None:
        """Add the edits of the flush as one row."""
        if self._edits:
            self._tables.transactions.append(batch, self.next_row, encode_row(self._edits))

    def after_flush(self) -> None:
        """Make the flush visible, and wake the readers that a transaction had stopped."""
        if not self._is_ahead or self._is_stale:
            return
        self.next_row += 1
        self.rows_written += 1
        self.counts.update([edit.kind for edit in self._edits])
        self._edits = []
        self._is_ahead = False
        self._latest = None
        self._ending.clear()
        ended, self._ended = self._ended, []
        for pointers, how in ended:
            self._publications.wake(pointers)
            if not self.recovered_ids.isdisjoint(pointers):
                self._publications.wake_all()
            if how is not EditKind.INVALID:
                self._publications.forget(pointers)
        looks, self._looks = self._looks, []
        for look, seen in looks:
            _look(look, seen)

    def flush_failed(self) -> None:
        """Mark the state as stale if it has edits that may not have been written."""
        if self._is_ahead and not self._is_stale:
            self._is_stale = True
            self._in_doubt = frozenset(
                edit.write_pointer
                for edit in self._edits
                if edit.kind in _IN_DOUBT and edit.write_pointer not in self._ending
            )
            self._edits = []
            looks, self._looks = self._looks, []
            for look, seen in looks:
                _look(look, seen)
            self._recovering = supervised(
                "recovering the state of transactions", self._recover_again
            )

    async def _recover_again(self) -> None:
        """Recover the state as soon as the store accepts writes again."""
        while True:
            await asyncio.sleep(_RECOVER_EVERY_S)
            try:
                self._tables.check_writable()
                recovered = await self._threads.read(self._recover, self.time.now_ms())
            except StoreUnavailable:
                continue
            except Stopping:
                return
            self._adopt(recovered)
            # Readers still wait for transactions that ended in the failed flush.
            self._publications.forget_all_but(lambda pointer: bool(self.pointers(pointer)))
            self._publications.wake_all()
            _log.warning("the state of transactions was recovered after a failed write")
            return

    async def close(self) -> None:
        """Stop recovering."""
        if self._recovering is not None:
            self._recovering.cancel()
            await asyncio.gather(self._recovering, return_exceptions=True)


def _look(look: Callable[[], Any], seen: asyncio.Future[Any]) -> None:
    if seen.done():
        return
    try:
        seen.set_result(look())
    except TmsError as error:
        seen.set_exception(error.with_traceback(None))  # its traceback refers back to it: a cycle


def _ended(state: TransactionState, write_pointer: int) -> TmsError:
    status = state.status(write_pointer)
    if status is None:
        return TransactionUnknown(transaction_id=write_pointer)
    return not_in_progress(write_pointer, status)


class Transition(JointWrite):
    """A transition as a request to the writer, with the writes that it carries."""

    def __init__(
        self,
        journal: TransactionJournal,
        decide: Decide,
        *,
        carried: Sequence[Carried] = (),
        size_bytes: int = 0,
    ) -> None:
        """Let `decide` decide, and write what is `carried` with its edits."""
        super().__init__(carried, _EDIT_BYTES + size_bytes)
        self._journal = journal
        self._decide = decide
        self._result: Any = None

    def add_rows(self, batch: Batch, now_ms: int) -> None:
        """Decide the transition and apply it to the state, or record its refusal."""
        journal = self._journal
        edits, answer = self._decide(journal.state, Moment(journal.time.now_ms(), now_ms))
        if self._parts:
            self.check(journal.pointers(edits[0].write_pointer))
            # Before the edits, because parts may only be written under pointers in progress.
            self.add_parts(batch, now_ms)
        journal.carry_out(edits)
        self._result = None if answer is None else answer()

    def result(self) -> Any:
        """Return the answer of the decision."""
        return self._result
