"""The remaining work of a pass: ranges of rows that no worker has taken yet. Pure.

HBase splits, merges and moves regions as it likes. So what is done, or under way, is known by its
ranges of rows, not by the regions that these were when they were taken: whatever the regions are by
now, what is left of each is a range for one worker.
"""

from bisect import bisect_right
from collections.abc import Iterable

from tables.hbase.regions import Region


def remaining(regions: Iterable[Region], taken: Iterable[Region]) -> list[Region]:
    """Return what of each of `regions` is not in `taken`, in their order."""
    runs = _runs(taken)
    left = []
    for region in regions:
        table, at = region.table, region.start
        of_table = runs.get(table, [])
        first = bisect_right(of_table, at, key=lambda run: run.stop)
        for run in of_table[first:]:
            if run.start >= region.stop:
                break
            if at < run.start:
                left.append(Region(table, at, run.start))
            at = run.stop
        if at < region.stop:
            left.append(Region(table, at, region.stop))
    return left


def _runs(taken: Iterable[Region]) -> dict[str, list[Region]]:
    """Return the ranges of each table in order, those that touch joined."""
    runs: dict[str, list[Region]] = {}
    for region in sorted(taken):
        of_table = runs.setdefault(region.table, [])
        last = of_table[-1] if of_table else None
        if last is not None and region.start <= last.stop:
            of_table[-1] = Region(region.table, last.start, max(last.stop, region.stop))
        elif region.start < region.stop:
            of_table.append(region)
    return runs
