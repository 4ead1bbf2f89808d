"""The prune bounds of the regions: recorded as each is done, and cut anew as regions are cut.

A bound once recorded stays true of all its rows. So a region that came of a split has its parent's,
one that came of a merge the least of theirs (`tables.prune_bound_table.least`).
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
        self._known: list[Bound] = []

    def refresh(self) -> None:
        """Read what is recorded. Raises `StoreUnavailable`, `StoreCorrupt`."""
        self._known = self._table.bounds(MESSAGE)

    def of(self, region: Region) -> int:
        """Return the bound of a range of rows, as last read or recorded; 0: none."""
        return least(self._known, region.start, region.stop)

    @property
    def of_all(self) -> int:
        """The bound of the whole table."""
        return least(self._known, FIRST, END)

    def record(self, batch: Batch, region: Region, write_pointer: int) -> None:
        """Record the bound of a range of rows in `batch`. Raises `StoreUnavailable`."""
        bound = Bound(MESSAGE, region.start, region.stop, write_pointer, self._clock.now_ms())
        self._table.put(batch, bound)
        self._store.write(batch)
        self._known = [known for known in self._known if known.start != bound.start] + [bound]

    def recut(self, regions: Iterable[Region]) -> None:
        """Have one bound for each of `regions`, and no others. Raises `StoreUnavailable`."""
        cut = []
        batch = self._store.batch()
        # Descending: what is there of the batch leaves no rows without the bound that they had.
        for region in sorted(regions, reverse=True):
            if pointer := self.of(region):
                here = (b for b in self._known if b.start < region.stop and region.start < b.stop)
                recorded_ms = max(bound.recorded_ms for bound in here)
                cut.append(Bound(MESSAGE, region.start, region.stop, pointer, recorded_ms))
                self._table.put(batch, cut[-1])
        gone = {bound.start for bound in self._known} - {bound.start for bound in cut}
        self._table.delete(batch, MESSAGE, gone)
        if set(cut) != set(self._known):
            self._store.write(batch)
            self._known = cut
