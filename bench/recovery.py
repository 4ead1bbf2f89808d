"""Recovering the state of transactions from its log, compared with a bare scan of the rows."""

from collections.abc import Callable
from pathlib import Path
from time import perf_counter

from bench.rounds import Effort
from bench.table import Table, rate
from tables.leveldb import LevelDBStore
from tables.store_tables import StoreTables
from tms.core.limits import Limits
from tms.core.services.transactions import StartRequest
from tms.transactions.commands import TransactionState
from tms.transactions.edits import Edit, encode_row
from tms.transactions.recovery import recover
from tms.transactions.snapshot_codec import encode_snapshot

_NOW_MS = 1_800_000_000_000
_EDITS_A_ROW = 10
_EDITS_A_TRANSACTION = 2
_ROWS_A_BATCH = 1_000


def run(effort: Effort, folder: Path, peer: str | None, run_name: str) -> None:  # noqa: ARG001
    """Measure a recovery and print its figures."""
    table = Table(
        "Recovery of transactions, from LevelDB", ("edits", "seconds", "edits/s", "scan alone s")
    )
    tables = StoreTables(LevelDBStore(folder / "recovery"))
    try:
        _fill(tables, effort.log_edits)
        scan_s = _timed(lambda: sum(len(row) for _, row in tables.transactions.rows(0)))
        seconds = _timed(lambda: recover(tables.transactions, Limits(), _NOW_MS))
    finally:
        tables.close()
    edits = effort.log_edits
    table.row(f"{edits:,}", f"{seconds:.1f}", rate(edits / seconds), f"{scan_s:.2f}")


def _timed(work: Callable[[], object]) -> float:
    started = perf_counter()
    work()
    return perf_counter() - started


def _fill(tables: StoreTables, count: int) -> None:
    """Write a log of `count` edits, of short transactions one after another."""
    state = TransactionState(Limits(), _NOW_MS)
    tables.transactions.put_snapshot(0, encode_snapshot(state, _NOW_MS))
    row, edits = 0, list[Edit]()
    batch = tables.batch()
    for number in range(count // _EDITS_A_TRANSACTION):
        started = state.start(StartRequest(client="bench"), _NOW_MS + number)
        _apply(state, started.edits, edits)
        _apply(state, state.commit(started.transaction_id, _NOW_MS), edits)
        if len(edits) >= _EDITS_A_ROW:
            tables.transactions.append(batch, row, encode_row(edits))
            row, edits = row + 1, []
            if row % _ROWS_A_BATCH == 0:
                tables.write(batch)
                batch = tables.batch()
    tables.write(batch)


def _apply(state: TransactionState, made: tuple[Edit, ...], edits: list[Edit]) -> None:
    for edit in made:
        state.apply(edit)
    edits += made
