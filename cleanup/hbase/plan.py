"""What is left to do of a pass: ranges of rows that nobody has taken yet. Pure.

HBase splits, merges and moves regions as it likes. So what is done, or under way, is known by its
ranges of rows, not by the regions that these were when they were taken: whatever the regions are by
now, what is left of each is a range for one worker.
"""

from collections.abc import Iterable

from tables.hbase.regions import Region


def remaining(regions: Iterable[Region], taken: Iterable[Region]) -> list[Region]:
    """Return what of each of `regions` is not in `taken`, in their order."""
    others = sorted(taken)
    left = []
    for region in regions:
        at = region.start
        for other in others:
            if other.table != region.table or other.stop <= at or other.start >= region.stop:
                continue
            if at < other.start:
                left.append(Region(region.table, at, other.start))
            at = max(at, other.stop)
        if at < region.stop:
            left.append(Region(region.table, at, region.stop))
    return left
