"""The shared parts of the services on one store: tables, threads, writer, limits, clock, metrics.

It belongs to the event loop it was made in. Closing it writes what is queued, refuses what comes
after, and closes the tables.
"""

from prometheus_client import CollectorRegistry

from tms.core.clock import Clock, KeyTime
from tms.core.cluster import HeldLease
from tms.core.limits import Limits
from tms.core.tables import Tables
from tms.messaging.inline_flush import InlineFlushPolicy
from tms.messaging.mark import StoreMark
from tms.messaging.metrics import MessagingMetrics
from tms.messaging.store_threads import StoreThreads
from tms.messaging.traffic import TrafficByTopic
from tms.messaging.writer import Writer


class StoreRuntime:
    """The writer on one store, with what it stands on."""

    def __init__(
        self,
        tables: Tables,
        limits: Limits,
        clock: Clock,
        registry: CollectorRegistry,
        *,
        lease: HeldLease | None = None,
        mark: StoreMark | None = None,
        may_block_loop: bool = False,
    ) -> None:
        """Start the threads. Call it within a running event loop.

        Under a `lease` keys are given as that allows. `mark` is the store's, open; without one,
        numbers ascend only as long as the process lives. Where it `may_block_loop`, nobody else's
        work is done in the event loop: then that may write itself (`tms.messaging.inline_flush`).
        """
        self.tables = tables
        self.limits = limits
        self.clock = clock
        self.mark = mark
        self.metrics = MessagingMetrics(registry)
        self.traffic = TrafficByTopic(limits.metric_series_max)
        self.metrics.include(self.traffic)
        self.earlier_until_ms = 0 if lease is None else lease.keys_after_ms
        """Keys of this millisecond, and of those before, are of earlier leaders; 0: none are."""
        self.threads = StoreThreads(tables.reads_at_once)
        inline_flush = InlineFlushPolicy(
            self.metrics, allowed=may_block_loop and tables.is_embedded
        )
        self.writer = Writer(
            tables,
            self.threads,
            clock if lease is None else KeyTime(clock, lease),
            limits=limits,
            metrics=self.metrics,
            inline_flush=inline_flush,
        )
        self._closed = False

    async def close(self) -> None:
        """Write what is queued and close the tables. Closing twice is the same as once."""
        if self._closed:
            return
        self._closed = True
        await self.writer.close()
        await self.threads.write(self.tables.close)
        self.threads.close()
