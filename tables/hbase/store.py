"""The Store on HBase: not atomic, everything else as `tables.store` says.

A failed write. Calls are repeated with the same keys for a bounded time. Where that does not
help, the write fails with its outcome unknown: a first part of the batch may be there, and the rest
may yet come. So what is left of it is kept, and from then on writes are refused while a thread
repeats it, until HBase has taken it. That settles it as done, before any later write. Reads go on,
where HBase answers them. What HBase refuses for good (a row that is too large) is given up: nothing
of that run and those behind it is written.

What a process that dies leaves half-written, nobody completes: it stays the first part of a batch.
"""

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from threading import Event, Lock, Thread
from typing import Any

from Hbase_thrift import Mutation

from tables.gate import Gate
from tables.hbase.connections import Failed, Gateway, Refused
from tables.hbase.layout import COLUMN, FORMAT_KEY, Place, Salt, recorded_buckets
from tables.hbase.regions import Region, regions_of
from tables.hbase.scans import BucketScan, Scan
from tables.hbase.writes import Deleted, HBaseBatch, Run, calls_of
from tables.store import METADATA, TABLES, Row
from tms.core.errors import StoreUnavailable
from tms.core.tables import Batch

_SETTLE_EVERY_S = 0.5
_CLOSED = "the store is closed"
_FAILED_MEANWHILE = "a write has failed since the batch was made"

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Swap:
    """A compare-and-put of a value that is not None."""

    table: str
    row: bytes
    expected: bytes | None
    value: bytes


class HBaseStore:
    """The tables under one prefix, through one gateway."""

    atomic = False

    def __init__(self, place: Place, gateway: Gateway) -> None:
        """Open the store that `create` made. The gateway's connections close with the store.

        Raises `StoreFormatUnknown` where there is none, or it has another number of buckets than
        the URL says, and `StoreUnavailable`.
        """
        self._gateway = gateway
        self._names = {table: place.name_of(table) for table in TABLES}
        self.buckets = recorded_buckets(place, recorded(place, gateway))
        self._salts = {table: Salt(table, self.buckets) for table in TABLES}
        self._gate = Gate()
        self._swapping = Lock()
        self._deleted = Deleted()
        self._failing = Lock()
        self._failures = 0
        self._failure: str | None = None
        self._unsettled: list[Run | Swap] = []
        self._stop_settling = Event()
        self._closed = False

    @contextmanager
    def _open(self) -> Iterator[None]:
        """Keep the store open meanwhile."""
        with self._gate.shared():
            if self._closed:
                raise StoreUnavailable(reason=_CLOSED)
            yield

    def get(self, table: str, key: bytes) -> bytes | None:
        """Return the value of `key`, None if there is none."""
        with self._open():
            return self._gateway.read(
                lambda client: _get(client, self._names[table], self.row_of(table, key))
            )

    @contextmanager
    def scan(
        self,
        table: str,
        start: bytes,
        stop: bytes,
        *,
        reverse: bool = False,
        limit: int | None = None,
    ) -> Iterator[Iterator[Row]]:
        """Open an iterator over the rows with start <= key < stop, at most `limit` of them."""
        with self._scanned(table, start, stop, reverse=reverse, limit=limit) as rows:
            yield rows

    @contextmanager
    def filtered(
        self, table: str, start: bytes, stop: bytes, row_filter: bytes
    ) -> Iterator[Iterator[Row]]:
        """Open an iterator, ascending, over what a filter of HBase's gives of these rows."""
        with self._scanned(table, start, stop, row_filter=row_filter) as rows:
            yield rows

    @contextmanager
    def _scanned(
        self,
        table: str,
        start: bytes,
        stop: bytes,
        *,
        reverse: bool = False,
        limit: int | None = None,
        row_filter: bytes | None = None,
    ) -> Iterator[Iterator[Row]]:
        with self._open():
            ranges = [] if limit == 0 else self._salts[table].ranges(start, stop)
            name = self._names[table]
            buckets = [
                BucketScan(self._gateway, name, *each, reverse=reverse, row_filter=row_filter)
                for each in ranges
            ]
            found = Scan(buckets, reverse=reverse, limit=limit)
            try:
                yield found.open()
            finally:
                found.close()

    def regions(self, table: str) -> list[Region]:
        """Return the regions that a table is in now, in order."""
        with self._open():
            name = self._names[table]
            return self._gateway.read(lambda client: regions_of(table, client, name))

    def row_of(self, table: str, key: bytes) -> bytes:
        """Return the row that a key has in HBase."""
        return self._salts[table].of(key) + key

    def batch(self, *, durable: bool = True) -> HBaseBatch:  # noqa: ARG002  all are
        """Return an empty batch, if earlier writes are settled. All batches are durable."""
        failures = self._failures
        self.check_writable()
        return HBaseBatch(self._salts, failures)

    def check_writable(self) -> None:
        """Raise `StoreUnavailable` while a failed write is not settled. Asks nobody."""
        if self._closed or self._failure is not None:
            raise StoreUnavailable(reason=self._failure or _CLOSED)

    def write(self, batch: Batch) -> None:
        """Carry out the puts and deletes of a batch of this store, in their order."""
        assert isinstance(batch, HBaseBatch)
        with self._open():
            self.check_writable()
            if batch.failures != self._failures:
                raise StoreUnavailable(reason=_FAILED_MEANWHILE)
            self._carry_out(batch.runs)

    def _carry_out(self, runs: list[Run]) -> None:
        for number, run in enumerate(runs):
            try:
                self._send(run)
            except Failed as failure:
                self._fail(str(failure), runs[number:])
                raise StoreUnavailable(reason=str(failure)) from None
            except Refused as refusal:
                raise StoreUnavailable(refused=str(refusal), table=run.table) from None

    def _send(self, run: Run) -> None:
        """Carry out a run; again from its start where it was carried out in part."""
        name = self._names[run.table]
        if not run.is_delete:
            self._deleted.wait(run.table, run.rows)
        for mutations in calls_of(run):
            self._gateway.repeated(partial(_mutate, name, mutations))
        if run.is_delete:
            self._deleted.add(run.table, run.rows)

    def compare_and_put(
        self, table: str, key: bytes, expected: bytes | None, value: bytes | None
    ) -> bool:
        """Put `value` (None: delete) if the key's value is `expected` (None: absent), durably.

        One at a time. HBase has no delete of that kind, so a delete is atomic only against others
        through this store, and writes of the key beside it are not seen.
        """
        row = self.row_of(table, key)
        with self._open(), self._swapping:
            self.check_writable()
            if value is None or not expected:
                # HBase takes an empty value for none, so those are told apart here.
                if self._stored(table, row) != expected:
                    return False
                if value is None:
                    self._carry_out([Run(table, True, {row: b""})])
                    return True
            swap = Swap(table, row, expected, value)
            try:
                return self._swap(swap)
            except Failed as failure:
                self._fail(str(failure), [swap])
                raise StoreUnavailable(reason=str(failure)) from None
            except Refused as refusal:
                raise StoreUnavailable(refused=str(refusal), table=table) from None

    def _stored(self, table: str, row: bytes) -> bytes | None:
        return self._gateway.read(lambda client: _get(client, self._names[table], row))

    def _swap(self, swap: Swap) -> bool:
        """Put the value if it is due, and find out whether it was put where the answer was lost.

        Whoever finds their value there has put it, for nobody else puts beside them; whoever finds
        what they expected can do it again. Raises `Failed`, `Refused`.
        """
        name = self._names[swap.table]
        mutation = Mutation(False, COLUMN, swap.value, True)
        self._deleted.wait(swap.table, (swap.row,))

        def attempt(client: Any) -> bool:
            done: bool = client.checkAndPut(name, swap.row, COLUMN, swap.expected, mutation, {})
            return done

        def settle(client: Any) -> bool:
            return _get(client, name, swap.row) == swap.value or attempt(client)

        try:
            return self._gateway.once(attempt)
        except Failed:
            return self._gateway.repeated(settle)

    def compact(self, table: str, start: bytes, stop: bytes) -> None:  # noqa: ARG002  as below
        """Do nothing: HBase compacts its regions by itself, when that suits it."""
        with self._open():
            return

    def size_bytes(self, table: str, start: bytes, stop: bytes) -> int:  # noqa: ARG002
        """Return 0: the gateway does not tell."""
        with self._open():
            return 0

    def _fail(self, reason: str, left: list[Run] | list[Swap]) -> None:
        """Refuse writes until what is `left` of a failed one is carried out."""
        with self._failing:
            self._unsettled += left
            self._failures += 1
            is_first = self._failure is None
            self._failure = reason
        if is_first:
            _log.error("a write failed, writes are refused until HBase has taken it: %s", reason)
            Thread(target=self._settle, name="hbase-settle", daemon=True).start()

    def _settle(self) -> None:
        """Repeat what is left of failed writes until it is done; runs in a thread of its own."""
        while not self._stop_settling.wait(_SETTLE_EVERY_S):
            with self._failing:
                if not self._unsettled:
                    self._failure = None
                    _log.warning("HBase has taken what had failed; writes go on")
                    return
                first = self._unsettled[0]
            try:
                if isinstance(first, Swap):
                    self._swap(first)
                else:
                    self._send(first)
            except Failed as failure:
                self._failure = str(failure)
                continue
            except Refused as refusal:
                _log.error("HBase refuses for good what had failed: %s", refusal)
            del self._unsettled[0]

    def close(self) -> None:
        """Wait for what is under way, then let the connections go."""
        self._stop_settling.set()
        with self._gate.exclusive():
            if self._closed:
                return
            self._closed = True
            if self._unsettled:
                _log.error("closed with a failed write that HBase has not taken")
        self._gateway.close_idle()


def _mutate(name: bytes, mutations: list[Any], client: Any) -> None:
    client.mutateRows(name, mutations, {})


def _get(client: Any, name: bytes, row: bytes) -> bytes | None:
    cells = client.get(name, row, COLUMN, {})
    return cells[0].value if cells else None


def recorded(place: Place, gateway: Gateway) -> bytes | None:
    """Return what is recorded of the store at `place`, None where there is none."""
    name = place.name_of(METADATA)

    def read(client: Any) -> bytes | None:
        return _get(client, name, FORMAT_KEY) if name in client.getTableNames() else None

    return gateway.read(read)
