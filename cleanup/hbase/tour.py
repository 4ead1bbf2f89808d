"""One pass over all regions: a worker for each, some of them at a time.

1. The invalid list is read, and then the topics, so they include every topic that an invalid
   transaction wrote to. Both are read again on a period, in this order.
2. What this process has published under invalid pointers is inverted without a search.
3. The regions of the Message and the Payload table are handed to workers. The services invert
   entries of other invalid transactions that workers find. When a region is done, its bound is
   recorded in a batch made before its worker began: a store refuses the batch if a failed write of
   its own was decided in the meantime (`tables.store`, 6).
4. Regions are listed again on a period, and when a worker fails, because splits, merges and moves
   make workers fail. Work that no worker has taken is cut at the regions of that time; the rest of
   a failed worker's range is done again from its last topic on.
5. At the end the bounds are cut at the present regions.
"""

import logging
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from cleanup.hbase.bounds import RegionBounds
from cleanup.hbase.crew import Crew, Ended
from cleanup.hbase.plan import remaining
from cleanup.hbase.search import InvalidRows
from cleanup.hbase.worker import Worker, WorkerContext
from cleanup.invalid import reached
from cleanup.loop_calls import ServiceCalls
from cleanup.ranges import Reason, Step
from tables.hbase.regions import Region
from tables.store import MESSAGE, PAYLOAD, Store
from tms.core.errors import StoreUnavailable, Unavailable
from tms.core.values.batch import Batch
from tms.transactions.pruning import InvalidList

_REGIONS_MS = 10_000
_INVALID_MS = 30_000
_TAKE_IN_S = 1.0
_ATTEMPTS = 3
_POINTERS_AT_ONCE = 100

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class _Task:
    """The task of a worker."""

    proof: Batch
    listed: InvalidList | None
    inverted: frozenset[int]
    """The pointers that are inverted in the region once the task is done."""


class Tour:
    """One pass. Used from one thread, and has threads of its own."""

    def __init__(
        self,
        work: WorkerContext,
        services: ServiceCalls,
        bounds: RegionBounds,
        *,
        recording: Store,
        inverted: frozenset[int],
        inverts_invalid: bool,
    ) -> None:
        """Prepare a pass; `inverts_invalid` False leaves invalid transactions alone.

        `inverted` are the pointers above the bounds that an earlier pass has inverted everywhere.
        """
        self._work = work
        self._services = services
        self._bounds = bounds
        self._recording = recording
        self._before = inverted
        self._common: frozenset[int] | None = None
        """The pointers that are inverted in all finished regions; None if no region is finished."""
        self._inverts_invalid = inverts_invalid
        self._open: InvalidList | None = None
        """The invalid list as last read."""
        self._listed: InvalidList | None = None
        """The same, if its pointers are to be inverted."""
        self._listed_ms = 0
        self._regions: list[Region] = []
        self._regions_ms = 0
        self._done: list[Region] = []
        self._tasks: dict[Worker, _Task] = {}
        self._todo: list[Region] = []
        self._failures: Counter[tuple[str, bytes]] = Counter()
        self._given_up: list[str] = []
        self._ended = 0

    @property
    def inverted(self) -> frozenset[int]:
        """The pointers above the bounds that are inverted everywhere, after the pass."""
        if self._listed is None or self._common is None:
            return frozenset()
        bound, since = self._bounds.of_all, self._listed.since
        return frozenset(
            pointer for pointer in self._common if pointer > bound and pointer in since
        )

    @property
    def progress(self) -> tuple[int, int]:
        """The number of regions that are done, and of all."""
        return self._ended, self._ended + len(self._tasks) + len(self._todo)

    def steps(self, workers: int, keep: Callable[[], bool]) -> Iterator[Step]:
        """Do the pass with this number of `workers`, as long as `keep`, called often, allows it.

        Yields each step when it is done. Raises the `Unavailable` errors, `StoreCorrupt`.
        """
        self._work.memory.begin_pass()
        yield from self._list_invalid()
        self._list_regions()
        crew = Crew(workers)
        try:
            while self._todo or self._tasks:
                while self._todo and len(self._tasks) < workers:
                    yield from self._send_out(crew)
                if (event := crew.next(_TAKE_IN_S)) is not None:
                    yield from self._take_in(*event)
                if not keep():
                    raise StoreUnavailable(reason="another process has started a cleanup")
                if self._is_due(self._regions_ms, _REGIONS_MS):
                    self._list_regions()
        finally:
            crew.close()
        self._finish()

    def _is_due(self, since_ms: int, period_ms: int) -> bool:
        return self._work.clock.steady_ms() - since_ms >= period_ms

    def _list_invalid(self) -> Iterator[Step]:
        """Read the invalid list, and invert what this process published; then read the topics."""
        self._listed_ms = self._work.clock.steady_ms()
        self._open = self._services.invalid_list()
        self._listed = self._open if self._inverts_invalid else None
        if self._listed is not None:
            bound, knows_publications_after = (
                self._bounds.of_all,
                self._listed.knows_publications_after,
            )
            new = self._listed.seen_by_all() - self._before
            published_here = sorted(p for p in new if p > max(bound, knows_publications_after))
            for first in range(0, len(published_here), _POINTERS_AT_ONCE):
                some = published_here[first : first + _POINTERS_AT_ONCE]
                inverted = self._services.invert_published(some)
                yield Step(MESSAGE, Reason.INVALID, scanned=len(some), inverted=inverted)
        self._work.topics.refresh()

    def _list_regions(self) -> None:
        """List the tables' regions, and cut the remaining work at them."""
        store = self._work.store
        self._regions = [*store.regions(MESSAGE), *store.regions(PAYLOAD)]
        self._regions_ms = self._work.clock.steady_ms()
        self._plan()

    def _plan(self) -> None:
        """Find the remaining work, with the ranges that failed last."""
        taken = [*self._done, *(worker.region for worker in self._tasks)]
        todo = remaining(self._regions, taken)
        self._todo = sorted(todo, key=lambda region: self._failures[region.table, region.stop])

    def _send_out(self, crew: Crew) -> Iterator[Step]:
        """Start a worker on the next region."""
        if self._is_due(self._listed_ms, _INVALID_MS):
            yield from self._list_invalid()
        region = self._todo.pop(0)
        proof = self._recording.batch()
        listed, search, from_ms = self._listed, set(), 0
        if listed is not None:
            bound = self._bounds.of(region)
            new = listed.seen_by_all() - self._before
            search = {p for p in new if bound < p <= listed.knows_publications_after}
            from_ms = listed.searched_from_ms(search)
        inverted = frozenset() if listed is None else self._before | listed.seen_by_all()
        worker = Worker(self._work, region, search, from_ms, self._open)
        self._tasks[worker] = _Task(proof, listed, inverted)
        crew.begin(worker)

    def _take_in(self, worker: Worker, done: Step | InvalidRows | Ended) -> Iterator[Step]:
        """Process a worker's result."""
        match done:
            case Step():
                yield done
            case InvalidRows(topic, pointer, rows):
                count = self._services.invert(topic.id, topic.generation, pointer, rows)
                yield Step(MESSAGE, Reason.INVALID, scanned=len(rows), inverted=count)
            case Ended(failure):
                self._end(worker, failure)

    def _end(self, worker: Worker, failure: Exception | None) -> None:
        task = self._tasks.pop(worker)
        rest, region = worker.rest, worker.region
        if rest.start > region.start:
            self._done.append(Region(region.table, region.start, rest.start))
        if failure is None:
            self._ended += 1
            if region.table == MESSAGE:
                self._record(region, task, is_whole=worker.is_whole)
            return
        if not isinstance(failure, Unavailable):
            raise failure
        _log.warning("stopped in the middle of a region: %s", failure)
        key = (region.table, region.stop)
        self._failures[key] += 1
        if self._failures[key] == _ATTEMPTS:
            self._given_up.append(str(failure))
            self._done.append(rest)
        self._list_regions()

    def _record(self, region: Region, task: _Task, *, is_whole: bool) -> None:
        """Record a region's bound, if it is greater than before."""
        listed = task.listed
        if listed is None or not is_whole:
            self._common = frozenset()
            return
        bound = self._bounds.of(region)
        up_to = reached(listed, task.inverted, bound)
        if any(bound < pointer <= up_to for pointer in listed.since):
            self._bounds.record(task.proof, region, up_to)
        done = task.inverted
        self._common = done if self._common is None else self._common & done

    def _finish(self) -> None:
        """Cut the bounds at the present regions; raise the error that stopped a region."""
        if self._given_up:
            raise StoreUnavailable(regions=len(self._given_up), reason=self._given_up[0])
        if self._listed is not None:
            self._bounds.recut(self._work.store.regions(MESSAGE))
