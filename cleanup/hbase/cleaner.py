"""Passes over all regions of a store on HBase, as one process makes them.

The process that has the lease makes them (`cleanup.hbase.lease`); `cleanup.hbase.tour` is one pass.
After a pass, pointers up to the least bound of all regions that are old enough are taken off the
invalid list. Before that, this process inverts what it published in its own cache, because another
process may have inverted it in the table. A process without the lease does only these two steps.

The Metadata table has no worker: the row of a deleted topic stays, as in CDAP. HBase assigns the
cells' times, and compacts by itself.
"""

import logging
from collections.abc import Generator, Iterator
from contextlib import suppress

from cleanup.hbase.bounds import RegionBounds
from cleanup.hbase.lease import CleanupLease
from cleanup.hbase.parts import CachedTopics
from cleanup.hbase.tour import Tour
from cleanup.hbase.worker import Memory, WorkerContext
from cleanup.invalid import may_go
from cleanup.loop_calls import ServiceCalls
from cleanup.ranges import Step
from cleanup.topic_rules import TopicRules
from tables.hbase.store import HBaseStore
from tables.store import Store
from tms.core.errors import StoreCorrupt, StoreUnavailable
from tms.core.limits import Limits
from tms.core.runtime.clock import Clock
from tms.core.runtime.repeatable import repeatable

_log = logging.getLogger(__name__)


class RegionCleaner:
    """Cleans the tables of one store on HBase. Used from one thread, and has threads of its own."""

    def __init__(
        self,
        store: HBaseStore,
        services: ServiceCalls,
        limits: Limits,
        clock: Clock,
        *,
        workers: int,
        recording: Store | None = None,
        rows_max: int | None = None,
        inverts_invalid: bool = True,
        rules: TopicRules | None = None,
    ) -> None:
        """Clean `store` with this number of `workers`; 0 leaves that to another process.

        `recording` is the store that the services write to, if it is not `store`. One write deletes
        `rows_max` rows. `rules` are further rules of topics.
        """
        rows = limits.cleanup_slice_rows if rows_max is None else rows_max
        self.lease = CleanupLease(store, clock)
        self._work = WorkerContext(store, CachedTopics(store, clock), Memory(), limits, clock, rows)
        self._services = services
        self._workers = workers
        self._inverts_invalid = inverts_invalid
        self._rules = rules
        self._recording = recording or store
        self._bounds = RegionBounds(self._recording, clock)
        self._inverted: frozenset[int] = frozenset()
        """Pointers above the bounds that are inverted in all regions."""
        self._tour: Tour | None = None

    @property
    def progress(self) -> tuple[int, int]:
        """The number of regions that the pass has done, and of all."""
        return (0, 0) if self._tour is None else self._tour.progress

    def steps(self, *, is_on_demand: bool = False) -> Generator[Step, None, None]:
        """Do one pass, yielding each step when it is done; `is_on_demand`: somebody waits for it.

        Raises the `Unavailable` errors, at the end if some regions failed; the next pass continues.
        """
        with repeatable():
            self._bounds.refresh()
            if self._workers and self.lease.take():
                try:
                    yield from self._toured()
                finally:
                    with suppress(StoreUnavailable), repeatable():
                        self.lease.release()
            if self._inverts_invalid:
                self._truncate()
            if self._rules is not None:
                yield from self._obey(self._rules, is_on_demand=is_on_demand)

    def _obey(self, rules: TopicRules, *, is_on_demand: bool) -> Iterator[Step]:
        """Apply the rules of all topics, even without the lease: no other process does so."""
        rules.begin_pass(is_on_demand=is_on_demand)
        for topic in self._work.topics.existing():
            try:
                yield from rules.steps(topic)
            except StoreCorrupt:
                _log.exception("cannot clean up the topic %s", topic.id)

    def _toured(self) -> Iterator[Step]:
        self._tour = Tour(
            self._work,
            self._services,
            self._bounds,
            recording=self._recording,
            inverted=self._inverted,
            inverts_invalid=self._inverts_invalid,
        )
        yield from self._tour.steps(self._workers, self.lease.keep)
        self._inverted = self._tour.inverted

    def _truncate(self) -> None:
        """Take pointers off the invalid list that are inverted and old enough."""
        listed = self._services.invalid_list()
        if listed is None:
            return
        limits, clock = self._work.limits, self._work.clock
        pointers = may_go(listed, self._bounds.of_all, limits, clock.deletion_ms())
        if pointers:
            self._services.invert_published(pointers)
            self._services.truncate(pointers)
