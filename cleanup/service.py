"""A server's cleanup: the runner, with an interface for the event loop.

Implements `tms.core.values.cleanup.Cleanup`. Threads read the tables, and wait for the runner.
"""

import asyncio

from cleanup.invalid import bound_of
from cleanup.runner import Runner
from tables.prune_bound_table import Bound, StoreBoundTable
from tables.store import MESSAGE, Store
from tms.core.limits import MS_PER_S, WRITE_POINTERS_PER_MS, Limits
from tms.core.runtime.trusted_clock import TrustedClock
from tms.core.values.cleanup import CleanupState, InvalidState, PruneBound
from tms.core.values.transaction import NO_TX_IN_PROGRESS
from tms.transactions.pruning import InvalidList
from tms.transactions.service import TransactionService


def prune_bound(bound: Bound) -> PruneBound:
    """Return a bound for operators."""
    return PruneBound(
        table=bound.table,
        start=bound.start.hex(),
        stop=bound.stop.hex(),
        write_pointer=bound.write_pointer,
        transaction_ms=bound.write_pointer // WRITE_POINTERS_PER_MS,
        recorded_ms=bound.recorded_ms,
    )


def invalid_state(listed: InvalidList, bound: int, limits: Limits) -> InvalidState:
    """Return what keeps the invalid list long; it is inverted up to `bound`."""
    pointers = list(listed.since)
    above = sum(pointer > bound for pointer in pointers)
    first = listed.first_in_progress
    is_held = bool(above) and first != NO_TX_IN_PROGRESS
    waits_until_ms = None
    if pointers and pointers[0] <= bound:
        stay_s = limits.transaction_lifetime_s_max + limits.cleanup_grace_s
        waits_until_ms = pointers[0] // WRITE_POINTERS_PER_MS + stay_s * MS_PER_S
    return InvalidState(
        count=len(pointers),
        oldest=pointers[0] if pointers else None,
        not_inverted=above,
        held_by=first if is_held else None,
        waits_until_ms=waits_until_ms,
    )


class CleanupService:
    """The cleanup of one store."""

    def __init__(
        self,
        runner: Runner,
        store: Store,
        transactions: TransactionService | None,
        limits: Limits,
        clock: TrustedClock,
    ) -> None:
        """Start the runner; `transactions` is None if they are managed elsewhere."""
        self._clock = clock
        self._runner = runner
        self._store = store
        self._transactions = transactions
        self._limits = limits
        runner.start()

    async def run_pass(self, timeout_s: float) -> bool:
        """Start a pass now; return whether it ended within `timeout_s` seconds."""
        return await asyncio.to_thread(self._runner.run_pass, timeout_s)

    async def state(self) -> CleanupState:
        """Return the state of cleanup."""
        bounds = await asyncio.to_thread(StoreBoundTable(self._store).bounds, MESSAGE)
        invalid = None
        if self._transactions is not None:
            listed = await self._transactions.invalid_list()
            bound = await asyncio.to_thread(bound_of, self._store)
            invalid = invalid_state(listed, bound, self._limits)
        runner, counts, last = self._runner, self._runner.counts, self._runner.last_pass
        return CleanupState(
            is_running=runner.is_running,
            passes=counts.passes,
            failed_passes=counts.failed_passes,
            last_started_ms=None if last is None else last.started_ms,
            last_seconds=None if last is None else last.seconds,
            last_rows=None if last is None else last.rows,
            last_failure=runner.last_failure,
            scanned_rows=sum(counts.scanned.values()),
            dropped_rows=sum(counts.dropped.values()),
            dropped_bytes=counts.dropped_bytes,
            inverted_rows=counts.inverted,
            dropped_by_reason=counts.by_reason(),
            bounds=[prune_bound(bound) for bound in bounds],
            invalid=invalid,
            clock_step_s=self._clock.state().step_s,
            last_passes=runner.last_passes,
        )

    async def close(self) -> None:
        """End the thread. The services that it uses must still be open."""
        await asyncio.to_thread(self._runner.stop)
