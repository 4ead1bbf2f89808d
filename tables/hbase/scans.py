"""Scans: pages of rows from each bucket, merged in the order of their keys.

A page has about `_PAGE_BYTES`, estimated from the page before; the first page has few rows. So a
scan holds little memory, however long it is. A scanner that died, with its gateway or by a timeout,
is opened again after the last row. So a scan does not see one state: a row is as it was at some
moment between the opening of the scan and its delivery. If rows are only added after the last one
of their topic, in order, an ascending scan never misses a row before one that it returns.
"""

import heapq
from collections.abc import Iterator
from itertools import islice
from operator import itemgetter
from typing import Any

from Hbase_thrift import TScan

from tables.hbase.connections import SCANNER_GONE, CallFailed, Gateway, Refused
from tables.hbase.layout import COLUMN
from tables.store import Row
from tms.core.errors import StoreCorrupt

_FIRST_PAGE_ROWS = 64
_PAGE_GROWTH = 16
_PAGE_ROWS_MAX = 2000
_PAGE_BYTES = 1024 * 1024


class BucketScan:
    """A scan of one range of HBase's rows, without the byte of the bucket."""

    def __init__(
        self,
        gateway: Gateway,
        table: bytes,
        start: bytes,
        stop: bytes,
        *,
        reverse: bool,
        row_filter: bytes | None = None,
    ) -> None:
        """Prepare a scan of start <= row < stop, descending if `reverse`.

        `row_filter`, in HBase's filter language, leaves out rows.
        """
        self._gateway = gateway
        self._table = table
        self._start = start
        self._stop = stop
        self._reverse = reverse
        self._filter = row_filter
        self._page_rows = _FIRST_PAGE_ROWS
        self._scanner: int | None = None
        self._first: list[Row] | None = None
        self._is_done = False

    def open(self, limit: int | None) -> None:
        """Read the first page; `limit` is the most rows that the caller needs."""
        self._limit = limit
        self._first = self._page()

    def rows(self) -> Iterator[Row]:
        """Yield the rows."""
        page = self._first or []
        while page:
            yield from page
            page = self._page()

    def _page(self) -> list[Row]:
        if self._is_done:
            return []
        count = self._page_rows
        if self._limit is not None:
            count = min(count, self._limit + self._reverse)
        cells = self._gateway.read(lambda client: self._ask(client, count))
        self._is_done = len(cells) < count
        rows = self._in_range(cells)
        if rows:
            last = rows[-1][0]
            if self._reverse:
                self._stop = last
            else:
                self._start = last + b"\x00"
            size = sum([len(key) + len(value) for key, value in rows])
            fitting = _PAGE_BYTES * len(rows) // max(size, 1)
            self._page_rows = max(1, min(count * _PAGE_GROWTH, fitting, _PAGE_ROWS_MAX))
        return [(key[1:], value) for key, value in rows]

    def _ask(self, client: Any, count: int) -> list[Any]:
        """Return the next rows; after any failure the next attempt opens a new scanner."""
        scanner, self._scanner = self._scanner, None
        try:
            if scanner is None:
                scanner = client.scannerOpenWithScan(self._table, self._scan(), {})
            cells: list[Any] = client.scannerGetList(scanner, count)
        except Exception as error:
            if SCANNER_GONE in str(getattr(error, "message", "")):
                raise CallFailed(SCANNER_GONE) from None
            raise
        self._scanner = scanner
        return cells

    def _scan(self) -> TScan:
        # How many rows the gateway takes from HBase at a time; it does not take more than 2 MiB.
        limit = _PAGE_ROWS_MAX if self._limit is None else self._limit + self._reverse
        caching = min(limit, _PAGE_ROWS_MAX)
        if not self._reverse:
            return TScan(
                startRow=self._start,
                stopRow=self._stop,
                caching=caching,
                filterString=self._filter,
            )
        # Descending, the first bound is inclusive and the second is not.
        return TScan(
            startRow=self._stop, stopRow=_below(self._start), caching=caching, reversed=True
        )

    def _in_range(self, cells: list[Any]) -> list[Row]:
        start, stop = self._start, self._stop
        try:
            rows = [(row.row, row.columns[COLUMN].value) for row in cells]
        except KeyError:
            raise StoreCorrupt(table=self._table.decode(), reason="a row has no value") from None
        if self._reverse:
            self._is_done = self._is_done or (bool(rows) and rows[-1][0] < start)
            return [row for row in rows if start <= row[0] < stop]
        return rows

    def close(self) -> None:
        """Close the scanner in the gateway."""
        scanner, self._scanner = self._scanner, None
        if scanner is None:
            return
        try:
            self._gateway.once(lambda client: client.scannerClose(scanner))
        except (CallFailed, Refused):
            return  # it is closed already, or the gateway closes it after a while


def _below(row: bytes) -> bytes:
    """Return a row below `row`, which is not empty, with few or no rows between them."""
    if row[-1] == 0:
        return row[:-1]
    return row[:-1] + bytes((row[-1] - 1,)) + b"\xff" * 16


class Scan:
    """The rows of some buckets in the order of their keys."""

    def __init__(self, buckets: list[BucketScan], *, reverse: bool, limit: int | None) -> None:
        self._buckets = buckets
        self._reverse = reverse
        self._limit = limit

    def open(self) -> Iterator[Row]:
        """Read the first page of each bucket; return the iterator. Raises `StoreUnavailable`."""
        for bucket in self._buckets:
            bucket.open(self._limit)
        iterators = [bucket.rows() for bucket in self._buckets]
        if len(iterators) == 1:
            rows = iterators[0]
        else:
            rows = heapq.merge(*iterators, key=itemgetter(0), reverse=self._reverse)
        return rows if self._limit is None else islice(rows, self._limit)

    def close(self) -> None:
        """Close all scanners."""
        for bucket in self._buckets:
            bucket.close()
