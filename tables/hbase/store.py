"""The Store on HBase: a scan sees no one state of it, everything else as `tables.store` says.

A failed write. Calls are repeated with the same keys for a bounded time. Where that does not
help, the write fails with its outcome unknown, and is finished before any other is taken
(`tables.hbase.failed_writes`). One of which nothing was sent is not done. Reads go on, where HBase
answers them. What HBase refuses for good (a row that is too large) is given up, with what is behind
it; its outcome is unknown if more rows belong to it.

A process that dies. What it leaves half-written is the first part of a batch. Whoever takes the
store over (`take_over`), which is one server at a time, waits until no call of an earlier one can
be under way, and finishes the batch that is to be there whole: it was written down as an intent
(`tables.hbase.intents`) before it was begun. A store that is not taken over writes no intents.
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

        Raises as `layout.recorded_format`, and `StoreUnavailable`.
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
        """Shared by writes, so that a compare-and-put has none beside it."""
        self._sender = Sender(gateway, self._names)
        self._failed_writes = FailedWrites()
        self._intents = Lock()
        self._token = self._intent = 0
        """Under which intents are written, and the number of the latest."""
        self._counts = False
        """Whether the latest would be finished by who takes over."""
        self._is_server = False
        self._opened_token = 0
        self._check: Callable[[], None] = self._call
        """Finds out whether HBase answers; in a leader, whether it leads yet by the fence."""
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
        """Be the store's one server: finish what the last one left, and write intents from now on.

        The `token` is that of a lease, 0 where there is none; `on_fenced` is called, in any thread,
        when a later one is found. `is_last` says, when the store is closed, whether no other server
        of a cluster is left. Blocks while a call of a server that was alone, and did not close the
        store, may still be under way: `wait` is called with so many seconds. Raises `StoreLocked`;
        `StoreUnavailable`, also where a later leader has had the store; `StoreCorrupt`.
        """
        with repeatable(), self._open(), self._intents:
            self._token, self._intent = taking_over.take_over(self, wait, token)
            self._is_server, self._is_last, self._opened_token = True, is_last, token
            if token:
                self._check = Fence(self._gateway, self._names[TRANSACTION], token, on_fenced).check
            self.recorded()

    def release(self, through: int = INT64_MAX) -> bool:
        """Take away what says that leaders up to a token have the store; return whether any had it.

        Only for when none of them runs. Raises `StoreUnavailable`.
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
        """After so many seconds no call that was sent is under way any more."""
        return self._gateway.timeout_s

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
                lambda client: value_of(client, self._names[table], self.row_of(table, key))
            )

    @contextmanager
    def filtered(
        self, table: str, start: bytes, stop: bytes, row_filter: bytes
    ) -> Iterator[Iterator[Row]]:
        """Open an iterator, ascending, over what a filter of HBase's gives of these rows."""
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
            found = Scan(buckets, reverse=reverse, limit=limit)
            try:
                yield found.open()
            finally:
                found.close()

    def regions(self, table: str) -> list[Region]:
        """Return the regions that a table is in now, in order."""
        with self._open():
            return self._gateway.read(lambda client: regions_of(table, client, self._names[table]))

    def row_of(self, table: str, key: bytes) -> bytes:
        """Return the row that a key has in HBase."""
        return self._salts[table].of(key) + key

    def batch(self, *, durable: bool = True) -> HBaseBatch:
        """Return an empty batch, if no failed write is left to finish. All batches are durable."""
        failures = self._failed_writes.failures
        self.check_writable()
        return HBaseBatch(self._salts, failures, is_durable=durable)

    def check_writable(self) -> None:
        """Raise `StoreUnavailable` while a failed write is not finished. Asks nobody."""
        if self._closed:
            raise StoreUnavailable(reason=_CLOSED)
        self._failed_writes.check()

    def is_behind(self) -> bool:
        """Return False: HBase's servers delay whom they have to by themselves."""
        return False

    def check_unanswered(self, table: str, keys: Sequence[bytes]) -> None:
        """Raise `StoreUnavailable` where an earlier call may still write one of the keys late."""
        doubts = self._sender.unanswered
        if doubts.are_left:
            left_s = doubts.known_s(table, [self.row_of(table, key) for key in keys])
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
        """Carry out runs, after those `announced`, which are of no effect by themselves.

        A write that `is_fenced` passes the fence as soon as a leader that begins would finish it.
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

    def _fail(self, failure: Exception, left: Sequence[Any], *, is_begun: bool) -> NoReturn:
        """Have what is left of a write that may be begun done later; the process may end before.

        One of which nothing was sent is given up. Others are refused until a call succeeds.
        """
        self._failed_writes.add(str(failure), [*(left if is_begun else ()), self._check])
        error = OutcomeUnknown if is_begun else StoreUnavailable
        raise error(reason=str(failure)) from None

    def _call(self) -> None:
        """Make a call that changes nothing. Raises `CallFailed`, `Refused`."""
        self._gateway.once(lambda client: value_of(client, self._names[METADATA], FORMAT_KEY))

    def _carry_out_whole(self, runs: Sequence[Run]) -> None:
        """Carry out runs behind their intent, which counts until the next one or `_retire_intent`.

        Nobody writes anything meanwhile, so it may be finished at any time until then.
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
                with suppress(OutcomeUnknown):  # it will be done, and what is to be told is `error`
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
        """Put `value` (None: delete) if the key's value is `expected` (None: absent), durably.

        Alone: HBase has no delete of that kind, and takes an empty value for none.
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
        """Let nobody write meanwhile."""
        with self._open(), self._writes.exclusive():
            self.check_writable()
            self._retire_intent()
            yield

    def _remove(self, table: str, row: bytes, expected: bytes | None) -> bool:
        """Delete a row that has that value: the cell that was read, and none that is put later.

        So a deletion that comes late takes nothing away that was put since.
        """
        cell = self._gateway.read(lambda client: cell_of(client, self._names[table], row))
        if cell is None or cell.value != expected:
            return cell is None and expected is None
        self._do(partial(self._sender.remove, table, row, cell.timestamp), table)
        return True

    def swap(self, swap: Swap) -> bool:
        """Put a value that is due; return whether it was. Nobody may write meanwhile."""
        return bool(self._do(partial(self._sender.swap, swap), swap.table))

    def _do(self, step: Step, table: str) -> object:
        """Return what a step returns that is a write by itself."""
        try:
            return step()
        except CallFailed as failure:
            self._fail(failure, [step], is_begun=failure.is_in_doubt)
        except Refused as refusal:
            raise refused_write(refusal, table, is_begun=refusal.is_in_doubt) from None

    def raise_format(self) -> None:
        """Rename properties and record the present format, where an older one is recorded."""
        with self._open():  # an earlier leader may have raised it
            self.recorded()
        if not self.is_raised:
            raise_rows(self)
            with self.changing():
                format_row.put_raised(self)

    def features(self) -> frozenset[str]:
        """Return the features that are recorded; another process may have added one."""
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
        """Return the format row as HBase has it, and what it says."""
        row = self.stored(METADATA, FORMAT_KEY) or b""
        return row, self._see(recorded_format(self._place, row))

    def _see(self, found: Recorded) -> Recorded:
        self.buckets, self.is_raised = found.buckets, found.is_raised
        return found

    def stored(self, table: str, row: bytes) -> bytes | None:
        """Return the value of a row as HBase has it, None where there is none."""
        return self._gateway.read(lambda client: value_of(client, self._names[table], row))

    def compact(self, table: str, start: bytes, stop: bytes) -> None:  # noqa: ARG002  as below
        """Do nothing: HBase compacts its regions by itself, when that suits it."""
        with self._open():
            return

    def size_bytes(self, table: str, start: bytes, stop: bytes) -> int:  # noqa: ARG002
        """Return 0: the gateway does not tell."""
        with self._open():
            return 0

    def close(self) -> None:
        """Wait for what is under way, then let the connections go."""
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
        """Let a server alone open the store at once; not while others, or calls of ours, do."""
        token = self._opened_token
        try:
            if not self._sender.unanswered.are_left and (not token or self._is_last()):
                for run in open_marks.closed(token):
                    self._sender.send(run)
        except (CallFailed, Refused) as failure:
            _log.warning("cannot mark the store as closed: %s", failure)
