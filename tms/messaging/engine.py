"""What the services on one store share: tables, threads, the writer, limits, clock and metrics.

It belongs to the event loop it was made in. Closing it writes what is queued, refuses what comes
after, and closes the tables.
"""

from prometheus_client import CollectorRegistry

from tms.core.clock import Clock
from tms.core.limits import Limits
from tms.core.tables import Tables
from tms.messaging.lanes import Lanes
from tms.messaging.lone_flushes import LoneFlushes
from tms.messaging.metrics import MessagingMetrics
from tms.messaging.traffic import TrafficByTopic
from tms.messaging.writer import Writer


class Engine:
    """The writer on one store, with what it stands on."""

    def __init__(
        self,
        tables: Tables,
        limits: Limits,
        clock: Clock,
        registry: CollectorRegistry,
        *,
        read_threads: int = 1,
        key_time: Clock | None = None,
        owns_loop: bool = False,
    ) -> None:
        """Start the threads. Call it within a running event loop.

        Keys are given by `key_time`, or by the clock. Where it `owns_loop`, nobody else's work is
        done in the event loop: then that may write itself (`tms.messaging.lone_flushes`).
        """
        self.tables = tables
        self.limits = limits
        self.clock = clock
        self.metrics = MessagingMetrics(registry)
        self.traffic = TrafficByTopic(limits.metric_series_max)
        self.metrics.include(self.traffic)
        self.lanes = Lanes(read_threads=read_threads)
        lone_flushes = LoneFlushes(self.metrics, allowed=owns_loop and tables.is_embedded)
        self.writer = Writer(
            tables,
            self.lanes,
            key_time or clock,
            limits=limits,
            metrics=self.metrics,
            lone_flushes=lone_flushes,
        )
        self._closed = False

    async def close(self) -> None:
        """Write what is queued and close the tables. Closing twice is the same as once."""
        if self._closed:
            return
        self._closed = True
        await self.writer.close()
        await self.lanes.write(self.tables.close)
        self.lanes.close()
