"""The regions that HBase keeps a table in, as ranges of its rows, and a scan that leaves rows out.

    region := start <= row < stop       rows as HBase has them: the byte of the bucket, then the key

The regions of a table follow one another without a gap, from `FIRST` to `END`; only where they are
cut is asked, so a list that is read while a region splits or merges is whole all the same. Whatever
range a caller works on, the gateway finds the regions that it is in by then.
"""

from dataclasses import dataclass
from typing import Any

FIRST = b""
END = b"\xff"
"""Above all rows with a bucket."""

KEYS_ONLY = b"KeyOnlyFilter(true)"
"""Gives for each row the length of its value in place of it, four bytes, big-endian."""


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
    """Return the filter that gives the rows alone whose value, so far, is not below `at_least`."""
    quoted = at_least.replace(b"'", b"''")
    return b"ValueFilter(>=, 'binaryprefix:" + quoted + b"')"
