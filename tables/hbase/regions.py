"""The regions of a table in HBase, as ranges of rows, and filters of rows for scans.

    region := start <= row < stop       rows as HBase has them: the byte of the bucket, then the key

The regions of a table follow one another without a gap, from `FIRST` to `END`; only the boundaries
are read, so a list read while a region splits or merges is complete all the same. Callers may work
on any range: the gateway finds the regions that then hold it.
"""

from dataclasses import dataclass
from typing import Any

FIRST = b""
END = b"\xff"
"""Above all rows with a bucket."""

KEYS_ONLY = b"KeyOnlyFilter(true)"
"""Returns the length of each row's value in its place: four bytes, big-endian."""


@dataclass(frozen=True, slots=True, order=True)
class Region:
    """A range of one table's rows."""

    table: str
    start: bytes
    stop: bytes


def regions_of(table: str, client: Any, name: bytes) -> list[Region]:
    """Return the regions of the table that HBase calls `name`, in order; one call."""
    starts = {bytes(region.startKey) for region in client.getTableRegions(name)}
    cuts = sorted({FIRST, *starts} - {END})
    return [Region(table, start, stop) for start, stop in zip(cuts, [*cuts[1:], END], strict=True)]


def value_starts(at_least: bytes) -> bytes:
    """Return the filter for rows whose value begins with bytes not below `at_least`."""
    quoted = at_least.replace(b"'", b"''")
    return b"ValueFilter(>=, 'binaryprefix:" + quoted + b"')"
