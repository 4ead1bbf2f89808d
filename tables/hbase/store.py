"""The Store on HBase: a scan does not see one state; everything else is as `tables.store` says.

A failed write. Calls are repeated with the same keys for a bounded time. If that does not help, the
write fails with its outcome unknown, and is finished before any other is accepted
(`tables.hbase.failed_writes`). A write of which nothing was sent is dropped. Reads continue if
HBase answers them. A step that HBase refuses for good (a row that is too large) is given up, with
the steps after it; the outcome is unknown if the write has more rows.

A process that dies. It may leave the first part of a batch. The server that takes the store over
(`take_over`), one at a time, waits until no call of an earlier one can be in progress, and finishes
the batch if it must be atomic: it was recorded as an intent (`tables.hbase.intents`) before it was
begun. A store that is not taken over writes no intents.
"""

import logging
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from threading import Lock
from typing import Any, NoReturn

from tables.hbase import format_row, intents, open_marks, taking_over
from tables.hbase.connections import CallFailed, Gateway, Refused
from tables.hbase.failed_writes import FailedWrites, Step, refused_write
from tables.hbase.fence import Fence
from tables.hbase.layout import FORMAT_KEY, Place, Recorded, Salt, recorded_format
from tables.hbase.regions import Region, regions_of
from tables.hbase.scans import BucketScan, Scan
from tables.hbase.sending import Sender, Swap, cell_of, value_of
from tables.hbase.unanswered_calls import late
from tables.hbase.writes import HBaseBatch, Run
from tables.raising import raise_rows
from tables.shared_lock import SharedLock
from tables.store import ALL_TABLES, METADATA, TABLES_OF_FEATURES, TRANSACTION, Row
from tms.core.errors import OutcomeUnknown, StoreUnavailable
from tms.core.limits import INT64_MAX
from tms.core.runtime.repeatable import repeatable
from tms.core.values.batch import Batch

_CLOSED = "the store is closed"
_FAILED_MEANWHILE = "a write has failed since the batch was made"

_log = logging.getLogger(__name__)


class HBaseStore:
    """The tables under one prefix, through one gateway."""

    atomic = False
    is_embedded, exchanges = False, None

    def __init__(self, place: Place, gateway: Gateway) -> None:
        """Open the store that `create` made. The gateway's connections close with the store.

        Raises as `layout.recorded_format` does, and `StoreUnavailable`.
        """
        self._gateway = gateway
        self.reads_at_once = max(1, gateway.size - 1)
        """One connection is for writes."""
        self._names = {table: place.name_of(table) for table in ALL_TABLES}
        self._place = place
        self.shard = self._see(recorded_format(place, format_row.recorded(place, gateway))).shard
        self._salts = {table: Salt(table, self.buckets) for table in ALL_TABLES}
        self._gate = SharedLock()
        self._writes = SharedLock()
        """Shared by writes; a compare-and-put holds it alone."""
        self._sender = Sender(gateway, self._names)
        self._failed_writes = FailedWrites()
        self._intents = Lock()
        self._token = self._intent = 0
        """The token under which intents are written, and the number of the latest."""
        self._counts = False
        """Whether a server that takes over would finish the latest intent."""
        self._is_server = False
        self._opened_token = 0
        self._check: Callable[[], None] = self._call
        """Checks that HBase answers; in a leader, that by the fence it still leads."""
        self._is_last: Callable[[], bool] = lambda: True
        self._closed = False

    def take_over(
        self,
        wait: Callable[[float], object] = time.sleep,
        *,
        token: int = 0,
        is_last: Callable[[], bool] = lambda: True,
        on_fenced: Callable[[], object] = lambda: None,
    ) -> None:
        """Become the store's only server: finish the last one's batch, then write intents.

        The `token` is that of a lease, 0 without one. `on_fenced` is called, in any thread, when a
        later token is found. `is_last` says, when the store is closed, whether this was the
        cluster's last server. If a single server did not close the store, blocks while one of its
        calls may still be in progress: `wait` is called with the number of seconds. Raises
        `StoreLocked`; `StoreUnavailable`, also if a later leader has used the store;
        `StoreCorrupt`.
        """
        with repeatable(), self._open(), self._intents:
            self._token, self._intent = taking_over.take_over(self, wait, token)
            self._is_server, self._is_last, self._opened_token = True, is_last, token
            if token:
                self._check = Fence(self._gateway, self._names[TRANSACTION], token, on_fenced).check
            self.recorded()

    def release(self, through: int = INT64_MAX) -> bool:
        """Delete the marks of leaders up to a token; return whether there were any.

        Call it only if none of them runs. Raises `StoreUnavailable`.
        """
        with repeatable(), self._open():
            return taking_over.release(self, through)

    def special_rows(
        self, start: bytes, stop: bytes, row_filter: bytes | None = None
    ) -> dict[bytes, bytes]:
        """Return rows of the Transaction table that have no bucket, as HBase has them."""
        name = self._names[TRANSACTION]
        scan = BucketScan(self._gateway, name, start, stop, reverse=False, row_filter=row_filter)
        try:
            scan.open(None)
            return {start[:1] + key: value for key, value in scan.rows()}
        finally:
            scan.close()

    @property
    def timeout_s(self) -> float:
        """The time after which no call that was sent can still be in progress."""
        return self._gateway.timeout_s

    @contextmanager
    def _open(self) -> Iterator[None]:
        """Keep the store open inside the block."""
        with self._gate.shared():
            if self._closed:
                raise StoreUnavailable(reason=_CLOSED)
            yield

    def get(self, table: str, key: bytes) -> bytes | None:
        """Return the value of `key`, None if there is none."""
        with self._open():
            return self._gateway.read(
                lambda client: value_of(client, self._names[table], self.row_of(table, key))
            )

    @contextmanager
    def filtered(
        self, table: str, start: bytes, stop: bytes, row_filter: bytes
    ) -> Iterator[Iterator[Row]]:
        """Open an ascending iterator over those of the rows that pass HBase's filter."""
        with self.scan(table, start, stop, row_filter=row_filter) as rows:
            yield rows

    @contextmanager
    def scan(
        self,
        table: str,
        start: bytes,
        stop: bytes,
        *,
        reverse: bool = False,
        limit: int | None = None,
        row_filter: bytes | None = None,
    ) -> Iterator[Iterator[Row]]:
        """Open an iterator over the rows with start <= key < stop, at most `limit` of them."""
        with self._open():
            ranges = [] if limit == 0 else self._salts[table].ranges(start, stop)
            name = self._names[table]
            buckets = [
                BucketScan(self._gateway, name, *each, reverse=reverse, row_filter=row_filter)
                for each in ranges
            ]
            opened = Scan(buckets, reverse=reverse, limit=limit)
            try:
                yield opened.open()
            finally:
                opened.close()

    def regions(self, table: str) -> list[Region]:
        """Return the regions that a table is in now, in order."""
        with self._open():
            return self._gateway.read(lambda client: regions_of(table, client, self._names[table]))

    def row_of(self, table: str, key: bytes) -> bytes:
        """Return the row that a key has in HBase."""
        return self._salts[table].of(key) + key

    def batch(self, *, durable: bool = True) -> HBaseBatch:
        """Return an empty batch, unless a failed write is unfinished. All batches are durable."""
        failures = self._failed_writes.failures
        self.check_writable()
        return HBaseBatch(self._salts, failures, is_durable=durable)

    def check_writable(self) -> None:
        """Raise `StoreUnavailable` while a failed write is not finished. Makes no call."""
        if self._closed:
            raise StoreUnavailable(reason=_CLOSED)
        self._failed_writes.check()

    def is_behind(self) -> bool:
        """Return False: HBase's servers delay writes themselves."""
        return False

    def check_unanswered(self, table: str, keys: Sequence[bytes]) -> None:
        """Raise `StoreUnavailable` if an earlier call may still write one of the keys."""
        doubts = self._sender.unanswered
        if doubts.are_left:
            left_s = doubts.late_s(table, [self.row_of(table, key) for key in keys])
            if left_s > 0:
                raise StoreUnavailable(reason=late(left_s))

    def write(self, batch: Batch) -> None:
        """Carry out the puts and deletes of a batch of this store, in their order."""
        assert isinstance(batch, HBaseBatch)
        with self._open(), self._writes.shared():
            self.check_writable()
            if batch.failures != self._failed_writes.failures:
                raise StoreUnavailable(reason=_FAILED_MEANWHILE)
            if self._is_server and batch.needs_intent:
                with self._intents:
                    self._carry_out_whole(batch.runs)
            else:
                self._retire_intent()
                self.carry_out(batch.runs, is_fenced=self._opened_token > 0)

    def carry_out(
        self, runs: Sequence[Run], announced: Sequence[Run] = (), *, is_fenced: bool = False
    ) -> None:
        """Carry out runs, after the `announced` ones, which have no effect by themselves.

        A write that `is_fenced` checks the fence once a new leader would finish it.
        """
        steps: list[Step] = [partial(self._sender.send, run) for run in (*announced, *runs)]
        if is_fenced:
            steps.insert(len(announced) or len(steps), self._check)
        first = len(steps) - len(runs) if announced else 0
        for number, step in enumerate(steps):
            try:
                step()
            except CallFailed as failure:
                self._fail(failure, steps[number:], is_begun=number > 0 or failure.is_in_doubt)
            except Refused as refusal:
                is_begun = number > first or (number == first and refusal.is_in_doubt)
                tables = [*[TRANSACTION] * first, *(run.table for run in runs), TRANSACTION]
                raise refused_write(refusal, tables[number], is_begun=is_begun) from None

    def _fail(self, failure: Exception, remaining: Sequence[Any], *, is_begun: bool) -> NoReturn:
        """Schedule the rest of a write that may have started; the process may end before that.

        A write of which nothing was sent is given up. Others are refused until a call succeeds.
        """
        self._failed_writes.add(str(failure), [*(remaining if is_begun else ()), self._check])
        error = OutcomeUnknown if is_begun else StoreUnavailable
        raise error(reason=str(failure)) from None

    def _call(self) -> None:
        """Make a call that changes nothing. Raises `CallFailed`, `Refused`."""
        self._gateway.once(lambda client: value_of(client, self._names[METADATA], FORMAT_KEY))

    def _carry_out_whole(self, runs: Sequence[Run]) -> None:
        """Carry out runs after their intent, which counts until the next one or `_retire_intent`.

        Nobody writes anything until then, so it may be finished at any time.
        """
        for number in range(self._intent + 1, self._intent + intents.SLOTS):
            announced = intents.intent(number, runs, self._token)
            if all(self._sender.unanswered.left_s(run.table, run.rows) == 0 for run in announced):
                break
        self._intent, self._counts = number, True
        try:
            self.carry_out(runs, announced, is_fenced=self._opened_token > 0)
        except (StoreUnavailable, OutcomeUnknown) as error:
            if "refused" in error.detail:
                with suppress(OutcomeUnknown, StoreUnavailable):  # the next write retires it
                    self.carry_out([intents.done(number, self._token)])
            raise

    def _retire_intent(self) -> None:
        """Mark the latest intent as done before anything else is written."""
        if not self._counts:
            return
        with repeatable(), self._intents:
            if self._counts:
                self.carry_out([intents.done(self._intent, self._token)])
                self._counts = False

    def compare_and_put(
        self, table: str, key: bytes, expected: bytes | None, value: bytes | None
    ) -> bool:
        """Put `value`, or delete if None, if the key has `expected`, or is absent if None; durably.

        It excludes other writes, because HBase has no such delete, and takes an empty value for
        none.
        """
        row = self.row_of(table, key)
        with self.changing():
            if value is None:
                return self._remove(table, row, expected)
            if not expected and self.stored(table, row) != expected:
                return False
            return self.swap(Swap(table, row, expected, value))

    @contextmanager
    def changing(self) -> Iterator[None]:
        """Exclude all writes inside the block."""
        with self._open(), self._writes.exclusive():
            self.check_writable()
            self._retire_intent()
            yield

    def _remove(self, table: str, row: bytes, expected: bytes | None) -> bool:
        """Delete a row with that value: the cell that was read, not one put later.

        So a late deletion removes nothing that was put since.
        """
        cell = self._gateway.read(lambda client: cell_of(client, self._names[table], row))
        if cell is None or cell.value != expected:
            return cell is None and expected is None
        self._do(partial(self._sender.remove, table, row, cell.timestamp), table)
        return True

    def swap(self, swap: Swap) -> bool:
        """Put a value if the row is as expected; return whether it was. Nobody else may write."""
        return bool(self._do(partial(self._sender.swap, swap), swap.table))

    def _do(self, step: Step, table: str) -> object:
        """Carry out a step that is a write by itself; return its result."""
        try:
            return step()
        except CallFailed as failure:
            self._fail(failure, [step], is_begun=failure.is_in_doubt)
        except Refused as refusal:
            raise refused_write(refusal, table, is_begun=refusal.is_in_doubt) from None

    def raise_format(self) -> None:
        """Rename properties and record the present format, if an older one is recorded."""
        with self._open():  # an earlier leader may have raised it
            self.recorded()
        if not self.is_raised:
            raise_rows(self)
            with self.changing():
                format_row.put_raised(self)

    def features(self) -> frozenset[str]:
        """Return the recorded features; another process may have added one."""
        with self._open():
            return self.recorded()[1].features

    def add_feature(self, feature: str) -> None:
        """Make the table of a feature in one region, and record the feature after that."""
        self.raise_format()
        if table := TABLES_OF_FEATURES.get(feature):
            format_row.make_table(self._gateway, self._names[table], self._salts[table])
        with self.changing():
            format_row.put_feature(self, feature)

    def recorded(self) -> tuple[bytes, Recorded]:
        """Return the format row, as bytes and decoded."""
        row = self.stored(METADATA, FORMAT_KEY) or b""
        return row, self._see(recorded_format(self._place, row))

    def _see(self, opened: Recorded) -> Recorded:
        self.buckets, self.is_raised = opened.buckets, opened.is_raised
        return opened

    def stored(self, table: str, row: bytes) -> bytes | None:
        """Return the value of one of HBase's rows, None if there is none."""
        return self._gateway.read(lambda client: value_of(client, self._names[table], row))

    def compact(self, table: str, start: bytes, stop: bytes) -> None:  # noqa: ARG002  see below
        """Do nothing: HBase compacts its regions by itself."""
        with self._open():
            return

    def size_bytes(self, table: str, start: bytes, stop: bytes) -> int:  # noqa: ARG002
        """Return 0, because the gateway does not say."""
        with self._open():
            return 0

    def close(self) -> None:
        """Wait for calls in progress, then release the connections."""
        self._failed_writes.stop()
        with self._gate.exclusive():
            if self._closed:
                return
            self._closed = True
            if not self._failed_writes.is_finished:
                _log.error("closed with a failed write that HBase has not accepted")
            elif self._is_server:
                self._mark_as_closed()
        self._gateway.close()

    def _mark_as_closed(self) -> None:
        """Let a single server open the store at once, unless other servers or our calls remain."""
        token = self._opened_token
        try:
            if not self._sender.unanswered.are_left and (not token or self._is_last()):
                for run in open_marks.closed(token):
                    self._sender.send(run)
        except (CallFailed, Refused) as failure:
            _log.warning("cannot mark the store as closed: %s", failure)
