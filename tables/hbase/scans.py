"""Scans: pages of rows from each bucket, merged in the order of their keys.

A page is as many rows as bring about `_PAGE_BYTES`, going by the page before, the first of few
rows; so a scan holds little, however long. A scanner that died, with its gateway or by waiting too
long, is opened again behind the last row. So a scan is not of one state: a row is as it was at some
moment between the opening of the scan and its being given. Where rows are only ever added behind
the last one of their topic, in order, an ascending scan never misses a row before one that it has.
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
    """The rows of one range of HBase's rows, without the byte of the bucket."""

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
        """Prepare a scan of start <= row < stop, descending where `reverse`.

        What `row_filter`, in HBase's language of filters, leaves out is not given.
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
        """Read the first page; `limit` is the most rows that are wanted."""
        self._limit = limit
        self._first = self._page()

    def rows(self) -> Iterator[Row]:
        """Give the rows."""
        page = self._first or []
        while page:
            yield from page
            page = self._page()

    def _page(self) -> list[Row]:
        if self._is_done:
            return []
        wanted = self._page_rows
        if self._limit is not None:
            wanted = min(wanted, self._limit + self._reverse)
        found = self._gateway.read(lambda client: self._ask(client, wanted))
        self._is_done = len(found) < wanted
        rows = self._in_range(found)
        if rows:
            last = rows[-1][0]
            if self._reverse:
                self._stop = last
            else:
                self._start = last + b"\x00"
            size = sum([len(key) + len(value) for key, value in rows])
            fitting = _PAGE_BYTES * len(rows) // max(size, 1)
            self._page_rows = max(1, min(wanted * _PAGE_GROWTH, fitting, _PAGE_ROWS_MAX))
        return [(key[1:], value) for key, value in rows]

    def _ask(self, client: Any, wanted: int) -> list[Any]:
        """Return the next rows; whatever goes wrong, the next attempt begins with a new scanner."""
        scanner, self._scanner = self._scanner, None
        try:
            if scanner is None:
                scanner = client.scannerOpenWithScan(self._table, self._scan(), {})
            found: list[Any] = client.scannerGetList(scanner, wanted)
        except Exception as error:
            if SCANNER_GONE in str(getattr(error, "message", "")):
                raise CallFailed(SCANNER_GONE) from None
            raise
        self._scanner = scanner
        return found

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

    def _in_range(self, found: list[Any]) -> list[Row]:
        start, stop = self._start, self._stop
        try:
            rows = [(row.row, row.columns[COLUMN].value) for row in found]
        except KeyError:
            raise StoreCorrupt(table=self._table.decode(), reason="a row has no value") from None
        if self._reverse:
            self._is_done = self._is_done or (bool(rows) and rows[-1][0] < start)
            return [row for row in rows if start <= row[0] < stop]
        return rows

    def close(self) -> None:
        """Let the gateway forget the scanner."""
        scanner, self._scanner = self._scanner, None
        if scanner is None:
            return
        try:
            self._gateway.once(lambda client: client.scannerClose(scanner))
        except (CallFailed, Refused):
            return  # it is gone already, or the gateway forgets it after a while


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
