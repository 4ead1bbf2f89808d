"""Writes snapshots of the state on a period, so that a recovery replays little of the log.

A snapshot is taken when all of the state is durable, and says from which row of the log to replay.
The latest snapshots are kept, with the log from the oldest of them on; older rows are deleted in
slices, which delay nothing else. Used from the event loop's thread alone.
"""

import asyncio
import logging
from collections.abc import Callable
from typing import TYPE_CHECKING

from tms.core.errors import StoreUnavailable
from tms.core.limits import Limits
from tms.core.runtime.repeatable import repeatable
from tms.core.services.group_commit import BlockingCalls, GroupCommit
from tms.transactions.commands import TransactionState
from tms.transactions.journal import Decision, Moment, TransactionJournal, Transition
from tms.transactions.snapshot_codec import begin_snapshot

if TYPE_CHECKING:
    from tables.store_tables import StoreTables

_DROP_ROWS = 10_000
"""Rows of the log deleted in one write."""

_log = logging.getLogger(__name__)


class Snapshots:
    """Writes the snapshots of one journal."""

    def __init__(
        self,
        journal: TransactionJournal,
        *,
        writer: GroupCommit,
        threads: BlockingCalls,
        tables: "StoreTables",
        limits: Limits,
    ) -> None:
        """Write the state of `journal` to `tables`, as often as `limits` say."""
        self._journal = journal
        self._writer = writer
        self._threads = threads
        self._tables = tables
        self._limits = limits
        self._time = journal.time
        self._edits = journal.counts.total()
        self._row = journal.next_row
        self._written_ms = self._time.now_ms()

    async def taken(self) -> tuple[bytes, int]:
        """Return a snapshot of the durable state, and the number of the first row after it."""
        journal = self._journal

        def take() -> tuple[Callable[[], bytes], int]:
            return begin_snapshot(journal.state, self._time.now_ms()), journal.next_row

        finish, row = await journal.durably(take)
        # Outside the event loop, because with many owners it takes seconds.
        return await asyncio.to_thread(finish), row

    async def write_if_due(self) -> None:
        """Write a snapshot if enough has happened since the last."""
        journal, limits = self._journal, self._limits
        edits = journal.counts.total() - self._edits
        is_time = self._time.now_ms() - self._written_ms >= limits.transaction_snapshot_s * 1000
        if edits >= limits.transaction_snapshot_edits or (edits and is_time):
            await self._writer.submit(Transition(journal, self._forget_owners))
            await self._write()

    def _forget_owners(self, state: TransactionState, at: Moment) -> Decision:
        # The clock may have been wrong when `at.now_ms` began to count.
        return state.forget_owners(min(at.now_ms, self._journal.clock.deletion_ms())), None

    async def write_last(self) -> None:
        """Write a last snapshot if anything has happened since the previous one."""
        if self._journal.next_row != self._row:
            await self._write()

    async def _write(self) -> None:
        table = self._tables.transactions
        try:
            with repeatable():
                edits = self._journal.counts.total()
                data, row = await self.taken()
                self._edits, self._row, self._written_ms = edits, row, self._time.now_ms()
                await self._threads.write(table.put_snapshot, row, data)
                kept = await self._threads.read(table.snapshots)
                oldest = kept[-self._limits.transaction_snapshots_kept :][0]
                while (
                    await self._threads.write(table.drop_before, oldest, _DROP_ROWS) == _DROP_ROWS
                ):
                    pass
        except StoreUnavailable as error:
            _log.warning("cannot write a snapshot of transactions: %s", error)
        else:
            _log.debug("wrote a snapshot of transactions, %d bytes, at row %d", len(data), row)
