"""The prune bounds of the regions: recorded as each is done, and cut again as regions are cut.

A bound once recorded stays true of all its rows. So a region gets its parent's bound after a split,
and the least of its parents' after a merge (`tables.prune_bound_table.least`).
"""

from collections.abc import Iterable

from tables.hbase.regions import END, FIRST, Region
from tables.prune_bound_table import Bound, StoreBoundTable, least
from tables.store import MESSAGE, Store
from tms.core.runtime.clock import Clock
from tms.core.values.batch import Batch


class RegionBounds:
    """The bounds of one store's Message table."""

    def __init__(self, store: Store, clock: Clock) -> None:
        self._store = store
        self._table = StoreBoundTable(store)
        self._clock = clock
        self._bounds: list[Bound] = []

    def refresh(self) -> None:
        """Read the recorded bounds. Raises `StoreUnavailable`, `StoreCorrupt`."""
        self._bounds = self._table.bounds(MESSAGE)

    def of(self, region: Region) -> int:
        """Return the bound of a range of rows, as last read or recorded; 0 if none."""
        return least(self._bounds, region.start, region.stop)

    @property
    def of_all(self) -> int:
        """The bound of the whole table."""
        return least(self._bounds, FIRST, END)

    def record(self, batch: Batch, region: Region, write_pointer: int) -> None:
        """Record the bound of a range of rows in `batch`. Raises `StoreUnavailable`."""
        bound = Bound(MESSAGE, region.start, region.stop, write_pointer, self._clock.now_ms())
        self._table.put(batch, bound)
        self._store.write(batch)
        self._bounds = [other for other in self._bounds if other.start != bound.start] + [bound]

    def recut(self, regions: Iterable[Region]) -> None:
        """Record one bound for each of `regions`, and no others. Raises `StoreUnavailable`."""
        cut = []
        batch = self._store.batch()
        # Descending: if the batch is carried out in part, all rows still have their bound.
        for region in sorted(regions, reverse=True):
            if pointer := self.of(region):
                here = (b for b in self._bounds if b.start < region.stop and region.start < b.stop)
                recorded_ms = max(bound.recorded_ms for bound in here)
                cut.append(Bound(MESSAGE, region.start, region.stop, pointer, recorded_ms))
                self._table.put(batch, cut[-1])
        gone = {bound.start for bound in self._bounds} - {bound.start for bound in cut}
        self._table.delete(batch, MESSAGE, gone)
        if set(cut) != set(self._bounds):
            self._store.write(batch)
            self._bounds = cut
