"""The Bound table: how far cleanup has got with invalid transactions, one row per range of a table.

    row key := name of the table UTF-8, ":", start of the range
    value   := bound int64, recorded int64 ms, end of the range

Big-endian. DO NOT CHANGE: on disk. Entries under invalid write pointers up to the bound have been
inverted in the whole range: start <= key < end, in the table's keys; on HBase in HBase's rows, and
a range is one region.
"""

import struct
from collections.abc import Iterable
from dataclasses import dataclass
from heapq import heappop, heappush

from tables.keys import after_prefix
from tables.store import BOUND, Store
from tms.core.errors import StoreCorrupt
from tms.core.values.batch import Batch

_VALUE = struct.Struct(">qq")


@dataclass(frozen=True, slots=True)
class Bound:
    """The bound of one range of a table."""

    table: str
    start: bytes
    stop: bytes
    write_pointer: int
    """Every invalid entry up to here, inclusive, is inverted."""
    recorded_ms: int
    """The time of the record, in milliseconds since 1970."""


class StoreBoundTable:
    """The Bound table on any Store."""

    def __init__(self, store: Store) -> None:
        self._store = store

    def put(self, batch: Batch, bound: Bound) -> None:
        """Add to `batch` the row of a bound, which replaces its range's row."""
        value = _VALUE.pack(bound.write_pointer, bound.recorded_ms) + bound.stop
        batch.put(BOUND, _start(bound.table) + bound.start, value)

    def delete(self, batch: Batch, table: str, starts: Iterable[bytes]) -> None:
        """Add to `batch` the deletion of the bounds of ranges with these starts."""
        batch.delete_rows(BOUND, [_start(table) + start for start in starts])

    def bounds(self, table: str) -> list[Bound]:
        """Return the bounds of a table by the start of their ranges. Raises `StoreCorrupt`."""
        start = _start(table)
        with self._store.scan(BOUND, start, after_prefix(start)) as rows:
            return [_decoded(table, key[len(start) :], value) for key, value in rows]


def least(bounds: Iterable[Bound], start: bytes, stop: bytes) -> int:
    """Return the pointer up to which `bounds` cover all of a range; 0 if they do not.

    A recorded bound stays true, so if several cover a place, the greatest holds there.
    """
    here = sorted((b for b in bounds if b.start < stop and start < b.stop), key=lambda b: b.start)
    cuts = {start, *(b.start for b in here), *(b.stop for b in here)}
    covering: list[tuple[int, bytes]] = []
    bounds_found, at = [], 0
    for place in sorted(cut for cut in cuts if start <= cut < stop):
        while at < len(here) and here[at].start <= place:
            heappush(covering, (-here[at].write_pointer, here[at].stop))
            at += 1
        while covering and covering[0][1] <= place:
            heappop(covering)
        bounds_found.append(-covering[0][0] if covering else 0)
    return min(bounds_found, default=0)


def _start(table: str) -> bytes:
    return f"{table}:".encode()


def _decoded(table: str, start: bytes, value: bytes) -> Bound:
    if len(value) < _VALUE.size:
        raise StoreCorrupt(table=BOUND, of=table, start=start.hex())
    write_pointer, recorded_ms = _VALUE.unpack_from(value)
    return Bound(table, start, value[_VALUE.size :], write_pointer, recorded_ms)
