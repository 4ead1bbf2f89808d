"""The remaining work of a pass: ranges of rows that no worker has taken yet. Pure.

HBase splits, merges and moves regions at any time. So finished and current work is recorded as
ranges of rows, not as the regions of that time: whatever the regions are by now, the rest of each
is a range for one worker.
"""

from bisect import bisect_right
from collections.abc import Iterable

from tables.hbase.regions import Region


def remaining(regions: Iterable[Region], taken: Iterable[Region]) -> list[Region]:
    """Return the part of each region that is not in `taken`, in order."""
    runs = _runs(taken)
    regions_left = []
    for region in regions:
        table, at = region.table, region.start
        of_table = runs.get(table, [])
        first = bisect_right(of_table, at, key=lambda run: run.stop)
        for run in of_table[first:]:
            if run.start >= region.stop:
                break
            if at < run.start:
                regions_left.append(Region(table, at, run.start))
            at = run.stop
        if at < region.stop:
            regions_left.append(Region(table, at, region.stop))
    return regions_left


def _runs(taken: Iterable[Region]) -> dict[str, list[Region]]:
    """Return the ranges of each table in order; adjacent ones are joined."""
    runs: dict[str, list[Region]] = {}
    for region in sorted(taken):
        of_table = runs.setdefault(region.table, [])
        last = of_table[-1] if of_table else None
        if last is not None and region.start <= last.stop:
            of_table[-1] = Region(region.table, last.start, max(last.stop, region.stop))
        elif region.start < region.stop:
            of_table.append(region)
    return runs
