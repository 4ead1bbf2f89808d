"""The transaction manager: the calls of clients and messaging, and timeouts.

Transitions go through the journal (`tms.transactions.journal`), and are durable when they return. A
timer in steady time fires timeouts, so a clock that is set back does not keep readers waiting.
Implements `tms.core.services.transactions.AsyncTransactions`. Used from the event loop's thread
alone.

The caller of abort says that everything the transaction wrote was undone. If messaging knows of
messages that were not, the transaction first becomes invalid, because otherwise they would become
visible; then they are undone. It stays invalid if rows may be written late, and if it began before
a restart, because messaging does not know its messages.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Collection, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Any, TypeVar

from tms.core.errors import (
    OutcomeUnknown,
    RollbackRefused,
    StoreUnavailable,
    TmsError,
)
from tms.core.runtime.supervision import supervised
from tms.core.services.commits import NOTHING, Carried, Carrier, CommitRequest, submit_carried
from tms.core.services.group_commit import GroupCommit
from tms.core.services.transactions import (
    Publications,
    StartRequest,
    TransactionInfo,
    TransactionStatus,
)
from tms.core.values.caller import ANYBODY, Caller
from tms.core.values.owners import OWNERS_LISTED, OwnerInfo
from tms.core.values.transaction import Transaction
from tms.transactions.commands import TransactionState
from tms.transactions.journal import (
    Decide,
    Decision,
    Moment,
    TransactionJournal,
    Transition,
)
from tms.transactions.pruning import InvalidList, invalid_list
from tms.transactions.snapshot_writer import Snapshots

_TICK_S = 0.5
"""The period of the check for timeouts: how late one may fire."""

_HALF_ROLLED_BACK = (
    "a rollback in it has not finished; repeat the rollback, or invalidate the transaction"
)

Result = TypeVar("Result")
Undo = Callable[[Collection[int]], Awaitable[object]]

_log = logging.getLogger(__name__)


class TransactionService:
    """Starts, ends and times out the transactions of one store."""

    def __init__(
        self,
        journal: TransactionJournal,
        snapshots: Snapshots,
        *,
        writer: GroupCommit,
        publications: Publications,
        carriers: Sequence[Carrier],
        undo: Undo | None = None,
    ) -> None:
        """Make transitions through `journal` in the flushes of `writer`; commits have `carriers`.

        `undo` inverts what was published under write pointers; None if rows may be written late.
        Create it within a running event loop, whose timer it uses until `close`.
        """
        self._journal = journal
        self._time = journal.time
        self._carriers = carriers
        self._snapshots = snapshots
        self._writer = writer
        self._publications = publications
        self._undo = undo
        self._timer = supervised("the timer of transactions", self._tick)

    async def _make(self, decide: Decide, caller: Caller = ANYBODY, *, size_bytes: int = 0) -> Any:
        transition = Transition(self._journal, decide, size_bytes=size_bytes)
        return await self._writer.submit(transition, caller)

    async def start(self, request: StartRequest, *, caller: Caller = ANYBODY) -> Transaction:
        """Start a transaction of the caller."""

        def decide(state: TransactionState, at: Moment) -> Decision:
            started = state.start(request, at.now_ms, caller, keys_from_ms=at.keys_ms)
            return started.edits, lambda: state.transaction(started.transaction_id)

        transaction: Transaction = await self._make(decide, caller)
        return transaction

    async def transaction(self, transaction_id: int, *, caller: Caller = ANYBODY) -> Transaction:
        """Return the snapshot of a transaction in progress."""
        state = self._journal.state
        state.check_own(transaction_id, caller)
        return state.transaction(transaction_id)

    async def info(self, transaction_id: int, *, caller: Caller = ANYBODY) -> TransactionInfo:
        """Return the status and details of a transaction, even if it ended recently."""

        def look(state: TransactionState) -> TransactionInfo:
            state.check_own(transaction_id, caller)
            return state.aged(state.info(transaction_id), self._time.now_ms())

        return self._with_topics(await self._seen(look))

    async def _seen(self, look: Callable[[TransactionState], Result]) -> Result:
        """Return the result of `look` on the durable state; later edits may not be in the store."""
        journal = self._journal
        return await journal.durably(lambda: look(journal.state))

    async def can_commit(
        self, transaction_id: int, changes: Collection[bytes], *, caller: Caller = ANYBODY
    ) -> None:
        """Announce its changes before they are made durable."""

        def decide(state: TransactionState, _: Moment) -> Decision:
            state.check_own(transaction_id, caller)
            return state.can_commit(transaction_id, changes, caller), None

        if not changes and not decide(self._journal.state, Moment(0, 0))[0]:
            return  # no changes, so nothing to write
        await self._make(decide, caller, size_bytes=sum(map(len, changes)))

    async def commit(
        self,
        transaction_id: int,
        request: CommitRequest = NOTHING,
        *,
        caller: Caller = ANYBODY,
    ) -> None:
        """Commit it as a whole, with the other writes of the request."""

        def decide(state: TransactionState, _: Moment) -> Decision:
            state.check_own(transaction_id, caller)
            edits = state.commit(transaction_id, self._journal.clock.now_ms())
            pointers = self._journal.pointers(transaction_id)
            if self._publications.are_half_rolled_back(pointers):
                raise StoreUnavailable(reason=_HALF_ROLLED_BACK)
            return edits, None

        async def submit(carried: Sequence[Carried]) -> None:
            transition = Transition(self._journal, decide, carried=carried)
            await self._writer.submit(transition, caller)

        await submit_carried(self._carriers, request, caller, submit)

    async def abort(self, transaction_id: int, *, caller: Caller = ANYBODY) -> TransactionStatus:
        """Abort it, and return its status.

        Messages that it published and did not roll back are undone here, if they are known and none
        can be written late; otherwise the transaction becomes invalid.
        """
        status = await self._abort(transaction_id, caller)
        if status is not TransactionStatus.INVALID or self._undo is None:
            return status
        pointers = self._journal.pointers(transaction_id)
        if self._is_unknown(transaction_id, pointers):
            return status
        try:
            await self._undo(pointers)
            return await self._abort(transaction_id, caller, is_undone=True)
        except RollbackRefused:  # a repeated abort has done it in the meantime
            return await self._abort(transaction_id, caller)
        except TmsError:
            return status  # it has ended; cleanup inverts the rest

    def _is_unknown(self, transaction_id: int, pointers: Collection[int]) -> bool:
        """Whether an earlier process may have published messages in it, unknown here."""
        journal = self._journal
        is_from_before = bool(pointers) and transaction_id <= journal.knows_publications_after
        return is_from_before or transaction_id in journal.recovered_ids

    async def _abort(
        self, transaction_id: int, caller: Caller, *, is_undone: bool = False
    ) -> TransactionStatus:
        """Abort it, or make it invalid if messages remain; `is_undone`: none do."""

        def decide(state: TransactionState, _: Moment) -> Decision:
            state.check_own(transaction_id, caller)
            pointers = self._journal.pointers(transaction_id)
            is_unknown = self._is_unknown(transaction_id, pointers)
            if is_unknown or (self._publications.are_left(pointers) and not is_undone):
                edits = state.invalidate(transaction_id)
            else:
                edits = state.abort(transaction_id)
            return edits, lambda: state.status(transaction_id)

        status: TransactionStatus = await self._make(decide, caller)
        return status

    async def invalidate(self, transaction_id: int, *, caller: Caller = ANYBODY) -> None:
        """End it without undoing its messages, when they could not be undone, or nobody can."""

        def decide(state: TransactionState, _: Moment) -> Decision:
            state.check_own(transaction_id, caller)
            return state.invalidate(transaction_id), None

        await self._make(decide, caller)

    async def checkpoint(self, transaction_id: int, *, caller: Caller = ANYBODY) -> Transaction:
        """Return it with a new write pointer."""

        def decide(state: TransactionState, at: Moment) -> Decision:
            state.check_own(transaction_id, caller)
            edits = state.checkpoint(transaction_id, at.now_ms)
            return edits, lambda: state.transaction(transaction_id)

        transaction: Transaction = await self._make(decide, caller)
        return transaction

    async def in_progress(self) -> list[TransactionInfo]:
        """Return the transactions in progress, oldest first."""
        return await self._aged_infos(TransactionState.infos_in_progress)

    async def invalid(self, limit: int | None = None) -> list[TransactionInfo]:
        """Return the invalid transactions, at most `limit`, oldest first."""
        return await self._aged_infos(lambda state: state.infos_invalid(limit))

    async def _aged_infos(
        self, look: Callable[[TransactionState], list[TransactionInfo]]
    ) -> list[TransactionInfo]:
        now_ms = self._time.now_ms()
        infos = await self._seen(lambda state: [state.aged(i, now_ms) for i in look(state)])
        return [self._with_topics(info) for info in infos]

    async def invalid_count(self) -> int:
        """Return the number of write pointers on the invalid list."""
        return await self._seen(lambda state: state.invalid_count)

    def _with_topics(self, info: TransactionInfo) -> TransactionInfo:
        topics = self._publications.topics(info.write_pointers)
        return replace(info, topics=topics) if topics else info

    async def truncate_invalid_ids(self, ids: Collection[int]) -> int:
        """Take write pointers off the invalid list; return how many were on it."""

        def decide(state: TransactionState, _: Moment) -> Decision:
            count, edits = state.truncate_invalid_ids(ids)
            return edits, lambda: count

        count: int = await self._make(decide)
        self._publications.forget(ids)
        return count

    async def truncate_invalid_before(self, time_ms: int) -> int:
        """Take transactions off the invalid list that started before a time; return how many."""

        def decide(state: TransactionState, _: Moment) -> Decision:
            pointers = state.invalid_before(time_ms)
            count, edits = state.truncate_invalid_before(time_ms)
            return edits, lambda: (count, pointers)

        count, pointers = await self._make(decide)
        self._publications.forget(pointers)
        truncated: int = count
        return truncated

    async def owners(
        self, limit: int = OWNERS_LISTED, *, principal: str | None = None
    ) -> list[OwnerInfo]:
        """Return the remembered owners, oldest commit first."""
        now_ms = self._journal.clock.now_ms()
        return await self._seen(lambda state: state.infos_of_owners(now_ms, limit, principal))

    async def forget_owner(self, owner: str, *, caller: Caller = ANYBODY) -> None:
        """Forget an owner."""

        def decide(state: TransactionState, at: Moment) -> Decision:
            return state.forget_owner(owner, at.now_ms, caller), None

        await self._make(decide, caller)

    def warnings(self) -> list[str]:
        """Return warnings that need attention soon; takes constant time."""
        with suppress(StoreUnavailable):
            return self._journal.state.owners.warnings()
        return []

    async def invalid_list(self) -> InvalidList:
        """Return the invalid list for cleanup."""
        return await self._seen(
            lambda state: invalid_list(state, self._journal.knows_publications_after)
        )

    async def snapshot(self) -> bytes:
        """Return the whole state, as `docs/formats.md` describes it."""
        data, _ = await self._snapshots.taken()
        return data

    async def _tick(self) -> None:
        """End transactions that have timed out, and write snapshots, forever."""
        while True:
            await asyncio.sleep(_TICK_S)
            try:
                await self._expire()
                await self._snapshots.write_if_due()
            except TmsError as error:
                _log.warning("transactions have to wait: %s", error)

    async def _expire(self) -> None:
        with suppress(StoreUnavailable, OutcomeUnknown):
            next_ms = self._journal.state.opened.next_expiry_ms()
            while next_ms is not None and next_ms < self._time.now_ms():
                await self._make(lambda state, at: (state.expire(at.now_ms), None))
                next_ms = self._journal.state.opened.next_expiry_ms()

    async def close(self) -> None:
        """Stop the timer, and write a last snapshot. Close the writer first."""
        self._timer.cancel()
        await asyncio.gather(self._timer, return_exceptions=True)
        await self._journal.close()
        await self._snapshots.write_last()
