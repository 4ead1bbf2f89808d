"""Cleanup of a store on HBase by its URL, next to a server in this process, or without one.

Cleanup opens the store for itself: a call of cleanup that HBase does not answer must not keep a
server from publishing. It has two connections more than workers, for the thread that collects their
results.
"""

from collections.abc import Generator, Mapping
from typing import Any

from cleanup.hbase.cleaner import RegionCleaner
from cleanup.hbase.table_calls import TableServices
from cleanup.loop_calls import ServiceCalls
from cleanup.ranges import Step
from cleanup.topic_rules import TopicRules
from tables.hbase.opening import ANY_SHARD, open_store
from tables.hbase.store import HBaseStore
from tables.prune_bound_table import Bound, StoreBoundTable
from tables.store import MESSAGE, Store
from tables.transaction_table import StoreTransactionTable
from tms.core.limits import Limits
from tms.core.runtime.clock import Clock
from tms.core.services.mark import ClockElsewhere, latest_mark
from tms.transactions.pruning import InvalidList, invalid_list
from tms.transactions.recovery import recover

_ROWS_MAX = 5_000
"""Rows deleted with one write if no server in the process has to run in between."""
_OTHER_CONNECTIONS = 2

Options = Mapping[str, Any]
"""The options of `tables.hbase.opening.open_store`."""


def _opened(url: str, workers: int, options: Options) -> HBaseStore:
    size = workers + _OTHER_CONNECTIONS
    return open_store(url, shard=ANY_SHARD, **{**options, "size": size, "own": 1})


def recorded_invalid_list(store: Store, limits: Limits, now_ms: int) -> InvalidList | None:
    """Return the invalid list in the log; None if it has none. Raises as `recover` does."""
    table = StoreTransactionTable(store)
    if not table.snapshots():
        return None
    state = recover(table, limits, now_ms).state
    return invalid_list(state, state.last_write_pointer)


class ServerCleaner(RegionCleaner):
    """Cleanup within a server. Implements `cleanup.runner.Passes`."""

    def __init__(
        self,
        url: str,
        options: Options,
        services: ServiceCalls,
        limits: Limits,
        clock: Clock,
        *,
        recording: Store,
        workers: int,
        inverts_invalid: bool,
        rules: TopicRules,
    ) -> None:
        """Open the store at `url` a second time; `recording` is the server's own.

        Raises as `open_store` does.
        """
        self._store = _opened(url, workers, options)
        super().__init__(
            self._store,
            services,
            limits,
            clock,
            workers=workers,
            recording=recording,
            inverts_invalid=inverts_invalid,
            rules=rules,
        )

    def close(self) -> None:
        """Close that store."""
        self._store.close()


class Pruning:
    """One pass over a store, which servers may have open."""

    def __init__(
        self, url: str, options: Options, limits: Limits, clock: Clock, *, workers: int
    ) -> None:
        """Open the store. Raises as `open_store` does."""
        self._store = _opened(url, workers, options)
        self._limits = limits
        mark = latest_mark(StoreTransactionTable(self._store))
        clock = self._clock = ClockElsewhere(mark, clock)
        services = TableServices(self._store, self._invalid_list)
        self._cleaner = RegionCleaner(
            self._store, services, limits, clock, workers=workers, rows_max=_ROWS_MAX
        )

    def _invalid_list(self) -> InvalidList | None:
        return recorded_invalid_list(self._store, self._limits, self._clock.now_ms())

    def steps(self) -> Generator[Step, None, None]:
        """Do the pass. Close this generator before the store: closing waits for its workers.

        Raises as `RegionCleaner.steps` does.
        """
        return self._cleaner.steps()

    @property
    def progress(self) -> tuple[int, int]:
        """The number of regions that are done, and of all."""
        return self._cleaner.progress

    @property
    def holder(self) -> str | None:
        """The other process that cleans up instead of this one; None if there is none."""
        return self._cleaner.lease.holder

    def bounds(self) -> list[Bound]:
        """Return the recorded bounds of the regions. Raises `StoreUnavailable`."""
        return StoreBoundTable(self._store).bounds(MESSAGE)

    def close(self) -> None:
        """Close the store."""
        self._store.close()
