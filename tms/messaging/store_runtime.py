"""The shared parts of the services on one store: tables, threads, writer, topics, and metrics.

It belongs to the event loop in which it was created. Closing it writes the queued requests and
refuses later ones; the tables stay open.
"""

from typing import TYPE_CHECKING

from prometheus_client import CollectorRegistry

from tms.core.limits import Limits
from tms.core.runtime.clock import Clock, KeyTime
from tms.core.runtime.held_lease import HeldLease
from tms.core.values.store_access import StoreAccess
from tms.messaging.cache import CacheBudget
from tms.messaging.features import Instances, StoreFeatures
from tms.messaging.loaded_topics import LoadedTopics
from tms.messaging.mark import StoreMark
from tms.messaging.metrics import MessagingMetrics
from tms.messaging.store_threads import StoreThreads
from tms.messaging.traffic import TrafficByTopic
from tms.messaging.unfinished_publications import UnfinishedPublications
from tms.messaging.writer import InlineFlushPolicy, Writer

if TYPE_CHECKING:
    from tables.store_tables import StoreTables

CACHE_BYTES_HELP = "Memory that recent messages take, in bytes."


class StoreRuntime:
    """The writer on one store, and the parts that it needs."""

    def __init__(
        self,
        tables: "StoreTables",
        limits: Limits,
        clock: Clock,
        registry: CollectorRegistry,
        *,
        lease: HeldLease | None = None,
        instances: Instances | None = None,
        mark: StoreMark | None = None,
        access: StoreAccess = StoreAccess.CREATE,
        may_block_loop: bool = False,
        cache: CacheBudget | None = None,
    ) -> None:
        """Start the threads. Call it within a running event loop.

        Under a `lease` keys follow its bounds; `instances` returns the servers of its cluster.
        `mark` is the store's, open; without one, numbers ascend only as long as the process lives.
        If `access` is read-only, nothing is written. `may_block_loop` says that nobody else uses
        the event loop, so that the loop may write by itself (`tms.messaging.writer`). A `cache`
        budget is shared by stores that close together.
        """
        self.tables = tables
        self.limits = limits
        self.clock = clock
        self.mark = mark
        self.access = access
        self.metrics = MessagingMetrics(registry)
        self.traffic = TrafficByTopic(limits.metric_series_max)
        self.metrics.include(self.traffic)
        self.lease = lease
        self.earlier_until_ms = 0 if lease is None else lease.keys_after_ms
        """Keys up to this millisecond, inclusive, are of earlier leaders; 0 if none are."""
        self.threads = StoreThreads(tables.reads_at_once)
        self.features = StoreFeatures(tables, self.threads, instances)
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
        budget = cache or CacheBudget(limits.cache_bytes_max)
        self.states = LoadedTopics(
            tables, self.threads, budget, self.traffic, limits.topics_in_memory_max
        )
        """The topics in use."""
        self.writer.join(self.states)
        self.publications = UnfinishedPublications(self.states.wake, self.states.wake_all)
        if cache is None:
            self.metrics.gauge("cache_bytes", CACHE_BYTES_HELP, lambda: budget.used_bytes)
        help_text = "Topics kept in memory."
        self.metrics.gauge("topics_in_memory", help_text, lambda: len(self.states))
        self.metrics.memory.show("topics", lambda: len(self.states))
        self.metrics.memory.show("stored_sizes", lambda: len(self.states.stored))
        self.metrics.memory.show("publications", lambda: len(self.publications))
        self._closed = False

    async def close(self) -> None:
        """Write the queued requests and end the threads. Closing twice is the same as once."""
        if self._closed:
            return
        self._closed = True
        await self.writer.close()
        await self.threads.close()
