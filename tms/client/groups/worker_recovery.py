"""Recovers, while a worker runs, rows that a crash left prepared in the databases it writes to.

If a program dies between its PREPARE and the end of its transaction, its rows stay locked until
they are committed or rolled back. The message is delivered again before that, and the work on it
waits for those rows. So a worker looks for such rows when it starts, when a message takes long, and
after one has failed; and it looks again until the transaction of the dead program has ended. It
uses separate connections, so it disturbs no work. A worker whose participants need no recovery does
nothing here.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterable, Sequence
from typing import Any

import anyio.to_thread
from anyio import move_on_after

from tms.client.groups.database_recovery import Recover, Recovered
from tms.core.services.transactions import AsyncTransactions, TransactionInfo

LONG_S = 5.0
"""Work that takes longer than this may be waiting for prepared rows."""
AGAIN_S = 1.0
"""The pause before the next look, while transactions are in progress."""
OUTCOME_S_MAX = 60.0

_log = logging.getLogger("tms.client")


def recoveries_of(participants: Iterable[Any]) -> list[Recover]:
    """Return the recoveries of the participants that have one."""
    recoveries = [getattr(participant, "recovery", None) for participant in participants]
    return [recovery() for recovery in recoveries if recovery is not None]


class WorkerRecovery:
    """The recovery of one worker."""

    def __init__(
        self,
        transactions: AsyncTransactions,
        recoveries: Callable[[], Awaitable[Sequence[Recover]]],
    ) -> None:
        """Do nothing yet. `recoveries` makes participants and returns their recoveries."""
        self._transactions = transactions
        self._make = recoveries
        self._recoveries: Sequence[Recover] | None = None
        self._wanted: asyncio.Event | None = None
        self._seen: set[int] = set()
        """The transactions in progress at the last look."""
        self._logged: set[int] = set()
        """The transactions that are logged already and still prepared."""

    def want(self) -> None:
        """Request a look: some work has failed, or its rows could not be committed."""
        if self._wanted is not None:
            self._wanted.set()

    async def run(self, working: Callable[[], set[Any]]) -> None:
        """Look when the worker starts, and when a look is due, until it is cancelled."""
        self._wanted = asyncio.Event()
        is_due = True
        before: set[Any] = set()
        while self._recoveries != []:
            if is_due:
                is_due = await self._look()
                await asyncio.sleep(AGAIN_S)
            if is_due:
                continue
            with move_on_after(LONG_S):
                await self._wanted.wait()
            is_due = self._wanted.is_set() or not before.isdisjoint(working())
            self._wanted.clear()
            before = working()

    async def _look(self) -> bool:
        """Recover; return whether to look again soon."""
        loop = asyncio.get_running_loop()
        outcomes = _Outcomes(self._transactions, loop)
        in_progress: set[int] = set()
        undecided: set[int] = set()
        try:
            if self._recoveries is None:
                self._recoveries = [*await self._make()]
            for recover in self._recoveries:
                done = await anyio.to_thread.run_sync(recover, outcomes, abandon_on_cancel=True)
                undecided |= self._log_recovered(done)
                in_progress.update(done.in_progress)
        except (asyncio.CancelledError, GeneratorExit):
            raise
        except BaseException as error:  # from the program's `participants`; it would stop the loop
            _log.warning("Cannot recover rows that a crash may have left prepared: %s", error)
            return False
        waiting = in_progress & self._seen
        for transaction_id in sorted(waiting - self._logged):
            _log.warning(
                "Rows are prepared for transaction %d, which has not ended: its program may have "
                "died. Work on the same rows waits until it times out; then they are rolled back",
                transaction_id,
            )
        self._logged = waiting | undecided
        is_new = bool(in_progress) and not self._seen
        self._seen = in_progress if waiting or is_new else set()
        return bool(self._seen)

    def _log_recovered(self, done: Recovered) -> set[int]:
        """Log what was recovered; return the transactions that a person must decide."""
        if done.committed or done.rolled_back:
            _log.warning(
                "Recovered prepared rows: %d committed, %d rolled back",
                len(done.committed),
                len(done.rolled_back),
            )
        undecided = {*done.unknown, *done.conflicting, *done.not_permitted}
        if undecided - self._logged:
            _log.error("Rows remain prepared until an operator decides: %s", done)
        return undecided


class _Outcomes:
    """Reads the states of transactions from a thread (`KnownOutcomes`)."""

    def __init__(self, transactions: AsyncTransactions, loop: asyncio.AbstractEventLoop) -> None:
        self._transactions = transactions
        self._loop = loop

    def info(self, transaction_id: int) -> TransactionInfo:
        info = self._transactions.info(transaction_id)
        return asyncio.run_coroutine_threadsafe(info, self._loop).result(OUTCOME_S_MAX)
