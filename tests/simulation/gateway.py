"""A gateway of HBase in memory, whose calls may get no answer, and may arrive at any later time.

A leader handles failures with its real code: its store, its repeated calls, its intents. Only the
part after the gateway's client is simulated: tables of rows, each with a value and a time.
"""

from collections.abc import Callable
from enum import Enum
from types import SimpleNamespace
from typing import Any, NamedTuple, TypeVar

import happybase  # noqa: F401  what follows needs it imported first
import pytest
from Hbase_thrift import AlreadyExists
from sortedcontainers import SortedDict

from tables.hbase import connections, open_marks, writes
from tables.hbase.connections import Gateway
from tables.hbase.failed_writes import FailedWrites
from tables.hbase.layout import COLUMN, FORMAT_KEY, Place, format_row
from tables.store import METADATA, TABLES
from tests.manual_clock import ManualClock
from tests.store_calls import call_in_loop
from tests.virtual_loop import VirtualLoop
from tms.messaging.store_threads import OnDone, StoreThread

T = TypeVar("T")
BUCKETS = 2
PLACE = Place("simulated", 0, "s", BUCKETS)
_NEVER_S = 1e9
_RETRY_S = 0.02
"""Long enough for a second attempt, in virtual time."""


class Cell(NamedTuple):
    value: bytes
    timestamp: int


class Mode(Enum):
    """The fate of the next call that changes something."""

    ANSWERED = "answered"
    HELD = "held"
    """The call is in flight without an answer, and no call after it is sent any more."""
    REPEATED = "repeated"
    """The first attempt stays in flight, and the next attempt is answered."""
    STANDS_STILL = "stands still"
    """The machine and its clock pause before the call, which may also be a read."""


class Call(NamedTuple):
    """One that changes something."""

    name: str
    arguments: tuple[Any, ...]


class Rows:
    """The rows of HBase, for all gateways."""

    def __init__(self) -> None:
        self.tables: dict[bytes, SortedDict] = {
            PLACE.name_of(table): SortedDict() for table in TABLES
        }
        self._time = 0
        self._put(PLACE.name_of(METADATA), FORMAT_KEY, format_row(BUCKETS))

    def _put(self, table: bytes, row: bytes, value: bytes) -> None:
        self._time += 1
        self.tables[table][row] = Cell(value, self._time)

    def of(self, table: bytes) -> SortedDict:
        """Return a table for reading."""
        return self.tables[table]

    def carry_out(self, call: Call, rows: int | None = None) -> Any:
        """Carry out a call, or the first `rows` of its rows."""
        return getattr(self, f"_{call.name}")(*call.arguments, rows)

    def _mutateRows(self, table: bytes, batches: list[Any], _: Any, rows: int | None) -> None:  # noqa: N802
        for batch in batches[:rows]:
            [mutation] = batch.mutations
            assert mutation.column == COLUMN
            if mutation.isDelete:
                self.tables[table].pop(batch.row, None)
            else:
                self._put(table, batch.row, mutation.value)

    def _checkAndPut(  # noqa: N802, PLR0917  as Thrift has it
        self,
        table: bytes,
        row: bytes,
        column: bytes,
        expected: bytes | None,
        mutation: Any,
        _: Any,
        rows: int | None,
    ) -> bool:
        assert column == COLUMN
        cell = self.tables[table].get(row)
        if (None if cell is None else cell.value) != (expected or None):
            return False
        self._put(table, row, mutation.value)
        return True

    def _createTable(self, table: bytes, columns: list[Any], rows: int | None) -> None:  # noqa: N802
        assert [column.name for column in columns] == [COLUMN[:2]]
        if table in self.tables:
            raise AlreadyExists
        self.tables[table] = SortedDict()

    def _mutateRowTs(  # noqa: N802  as Thrift has it
        self,
        table: bytes,
        row: bytes,
        mutations: list[Any],
        timestamp: int,
        _: Any,
        rows: int | None,
    ) -> None:
        [mutation] = mutations
        assert mutation.isDelete
        cell = self.tables[table].get(row)
        if cell is not None and cell.timestamp <= timestamp:
            del self.tables[table][row]


def simulate(
    patch: pytest.MonkeyPatch,
    loop: VirtualLoop,
    call: Callable[[StoreThread, Callable[[], Any], OnDone], None] = call_in_loop,
) -> None:
    """Make what stores do outside the loop depend on a model's steps alone.

    `call` makes the calls of their threads.
    """

    def made(calls: StoreThread, each: Callable[[], Any], on_done: OnDone) -> None:
        call(calls, each, on_done)

    patch.setattr(StoreThread, "call", made)
    for module in (connections, writes):
        patch.setattr(module, "time", SimpleNamespace(monotonic=loop.time, sleep=loop.sleep))
    patch.setattr(open_marks, "SystemClock", lambda: ManualClock(1))
    # A leader whose write has failed sends nothing more, so nothing can be finished.
    patch.setattr(FailedWrites, "_finish", lambda _: None)


class SimulatedGateway(Gateway):
    """One leader's way to the rows."""

    def __init__(self, rows: Rows, guard: Callable[[], None]) -> None:
        super().__init__(PLACE.host, PLACE.port, timeout_s=_NEVER_S, retry_s=_RETRY_S, guard=guard)
        self._rows = rows
        self._client = _Client(self, rows)
        self.mode = Mode.ANSWERED
        self.skip = 0
        """The number of calls that are answered before that."""
        self.is_cut = False
        """Whether nothing is sent any more: an earlier call has no answer."""
        self.scans = 0
        """The number of calls begun."""
        self.late: list[Call] = []
        """The calls in progress."""
        self.pause: Callable[[], object] = lambda: None
        """Returns when the machine continues."""

    def once(self, call: Callable[[Any], T]) -> T:
        if self.mode is Mode.STANDS_STILL:
            self._stand_still_if_due()
        return super().once(call)

    def _stand_still_if_due(self) -> None:
        if self.skip:
            self.skip -= 1
            return
        self.mode = Mode.ANSWERED
        self.pause()

    def _connect(self) -> Any:
        return SimpleNamespace(client=self._client, open=lambda: None, close=lambda: None)

    def change(self, call: Call) -> Any:
        """Carry out a call as the mode says."""
        if self.is_cut:
            raise TimeoutError("not answered")
        if self.mode not in (Mode.HELD, Mode.REPEATED):
            return self._rows.carry_out(call)
        if self.skip:
            self.skip -= 1
        else:
            self.late.append(call)
            self.is_cut = self.mode is Mode.HELD
            self.mode = Mode.ANSWERED
            raise TimeoutError("no answer")
        return self._rows.carry_out(call)


class _Client:
    """The methods of Thrift's client that a store calls."""

    def __init__(self, gateway: SimulatedGateway, rows: Rows) -> None:
        self._gateway = gateway
        self._rows = rows
        self._scans: dict[int, list[Any]] = {}

    def getTableNames(self) -> list[bytes]:  # noqa: N802
        return list(self._rows.tables)

    def getTableRegions(self, _: bytes) -> list[Any]:  # noqa: N802
        return [SimpleNamespace(startKey=b"")]

    def get(self, table: bytes, row: bytes, column: bytes, _: Any) -> list[Cell]:
        assert column == COLUMN
        cell = self._rows.of(table).get(row)
        return [] if cell is None else [cell]

    def mutateRows(self, *arguments: Any) -> None:  # noqa: N802
        self._gateway.change(Call("mutateRows", arguments))

    def createTable(self, *arguments: Any) -> None:  # noqa: N802
        self._gateway.change(Call("createTable", arguments))

    def mutateRowTs(self, *arguments: Any) -> None:  # noqa: N802
        self._gateway.change(Call("mutateRowTs", arguments))

    def checkAndPut(self, *arguments: Any) -> bool:  # noqa: N802
        done: bool = self._gateway.change(Call("checkAndPut", arguments))
        return done

    def scannerOpenWithScan(self, table: bytes, scan: Any, _: Any) -> int:  # noqa: N802
        self._gateway.scans += 1
        rows = self._rows.of(table)
        if scan.reversed:
            keys = list(rows.irange(scan.stopRow, scan.startRow, (False, True), reverse=True))
        else:
            keys = list(rows.irange(scan.startRow, scan.stopRow, (True, False)))
        number = len(self._scans)
        self._scans[number] = [
            SimpleNamespace(row=key, columns={COLUMN: rows[key]}) for key in keys
        ]
        return number

    def scannerGetList(self, scanner: int, count: int) -> list[Any]:  # noqa: N802
        left = self._scans[scanner]
        self._scans[scanner] = left[count:]
        return left[:count]

    def scannerClose(self, scanner: int) -> None:  # noqa: N802
        self._scans[scanner] = []
