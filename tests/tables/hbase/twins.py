"""A twin (`tests.cleanup.twins`) on a real HBase, cleaned up by its server or by `tms prune`."""

import asyncio
from collections.abc import Generator
from contextlib import closing

from cleanup.hbase.cleaner import RegionCleaner
from cleanup.hbase.opening import Pruning
from cleanup.ranges import Step
from cleanup.topic_rules import TopicRules
from tables.hbase.layout import Place
from tables.hbase.store import HBaseStore
from tables.store import Store
from tests.cleanup.twins import LIMITS, Twin
from tests.contracts.store_contract import empty
from tests.manual_clock import ManualClock
from tests.tables.hbase.conftest import gateway_to
from tms.core.limits import Limits

WORKERS = 2


class HBaseTwin(Twin):
    """Cleanup has its own store, as in a server; if `is_apart`, `tms prune` cleans up."""

    cleaner: RegionCleaner  # type: ignore[assignment]

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        clock: ManualClock,
        limits: Limits = LIMITS,
        *,
        place: Place,
        is_apart: bool,
    ) -> None:
        self.place = place
        self.is_apart = is_apart
        self.is_emptied = False
        super().__init__(loop, clock, limits)

    def open_store(self) -> Store:
        store = HBaseStore(self.place, gateway_to(self.place))
        if not self.is_emptied:
            empty(store)
            self.is_emptied = True
        return store

    def open(self) -> None:
        self.services = self._opened()
        clock = self.services.engine.clock  # as in a server
        self.cleaning = HBaseStore(self.place, gateway_to(self.place))
        self.cleaner = RegionCleaner(
            self.cleaning,
            self,
            self.limits,
            clock,
            workers=0 if self.is_apart else WORKERS,
            recording=self.store,
            rules=TopicRules(self.store, self, self.limits, clock),
        )
        self.passing = None

    def close(self) -> None:
        self.leave_pass()
        self.cleaning.close()
        super().close()

    def crash(self) -> None:
        self.leave_pass()
        self.cleaning.close()
        super().crash()

    def clean(self, steps: int = 1_000_000) -> int:
        self.is_on_demand = True
        with closing(self.passed()) as taken:
            some = zip(range(steps), taken, strict=False)
            return sum(step.dropped + step.inverted for _, step in some)

    def passed(self) -> Generator[Step, None, None]:
        if self.is_apart:
            url = f"hbase://{self.place.host}:{self.place.port}/{self.place.prefix}"
            pruning = Pruning(url, {}, self.limits, self.clock, workers=WORKERS)
            # Like in `tms prune`, the pass ends before the store is closed, which waits for scans.
            with closing(pruning), closing(pruning.steps()) as taken:
                yield from taken
        yield from super().passed()
