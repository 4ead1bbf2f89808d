"""What the services on one store share: tables, threads, the writer, limits, clock and metrics.

It belongs to the event loop it was made in. Closing it writes what is queued, refuses what comes
after, and closes the tables.
"""

from prometheus_client import CollectorRegistry

from tms.core.clock import Clock
from tms.core.limits import Limits
from tms.core.tables import Tables
from tms.messaging.lanes import Lanes
from tms.messaging.metrics import MessagingMetrics
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
    ) -> None:
        """Start the threads. Call it within a running event loop.

        Keys are given by `key_time`, or by the clock.
        """
        self.tables = tables
        self.limits = limits
        self.clock = clock
        self.metrics = MessagingMetrics(registry)
        self.lanes = Lanes(read_threads=read_threads)
        self.writer = Writer(
            tables, self.lanes, key_time or clock, limits=limits, metrics=self.metrics
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
