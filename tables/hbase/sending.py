"""Carries out runs and compare-and-puts, repeating each until it has been done.

Calls are repeated with the same rows and values. `UnansweredCalls` records the late effects of
calls without an answer, and `Deleted` the recent deletions: both say when a row can be put.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

from Hbase_thrift import Mutation

from tables.hbase.connections import CallFailed, Gateway, Refused
from tables.hbase.layout import COLUMN
from tables.hbase.unanswered_calls import UnansweredCalls
from tables.hbase.writes import Deleted, Run, mutations_of, parts_of


@dataclass(frozen=True, slots=True)
class Swap:
    """A compare-and-put of a value; no deletion."""

    table: str
    row: bytes
    expected: bytes | None
    value: bytes


class Sender:
    """Writes through one gateway, from many threads. All calls raise `CallFailed` and `Refused`."""

    def __init__(self, gateway: Gateway, names: Mapping[str, bytes]) -> None:
        """Send to HBase's tables; `names` are HBase's names by table."""
        self.unanswered = UnansweredCalls(gateway.timeout_s)
        self._gateway = gateway
        self._names = names
        self._deleted = Deleted()

    def send(self, run: Run) -> None:
        """Carry out a run; from its start again if it was carried out in part."""
        name = self._names[run.table]
        self.unanswered.check(run.table, run.rows, is_delete=run.is_delete)
        if not run.is_delete:
            self._deleted.wait(run.table, run.rows)
        for number, part in enumerate(parts_of(run)):
            doubt = partial(self.unanswered.add, run.table, part, is_delete=run.is_delete)
            mutations = mutations_of(run, part)
            try:
                self._gateway.repeated(partial(_mutate, name, mutations), doubt)
            except CallFailed as failure:
                failure.is_in_doubt |= number > 0
                raise
            except Refused as refusal:
                # HBase writes the rows of a call region by region.
                refusal.is_in_doubt |= number > 0 or len(part) > 1
                raise
        if run.is_delete:
            self._deleted.add(run.table, run.rows)

    def remove(self, table: str, row: bytes, timestamp: int) -> None:
        """Delete a row's cell with a timestamp of HBase's, not a cell put later."""
        name = self._names[table]
        self.unanswered.check(table, {row: b""}, is_delete=True)
        delete = [Mutation(True, COLUMN, None, True)]
        self._gateway.repeated(lambda client: client.mutateRowTs(name, row, delete, timestamp, {}))

    def swap(self, swap: Swap) -> bool:
        """Put the value if the row is as expected; after a lost answer, check whether it was.

        If the row has the new value, this call has put it, because nobody else writes at that time;
        if it still has the expected one, the call is repeated.
        """
        name = self._names[swap.table]
        mutation = Mutation(False, COLUMN, swap.value, True)
        self.unanswered.check(swap.table, {swap.row: swap.value})
        self._deleted.wait(swap.table, (swap.row,))

        def attempt(client: Any) -> bool:
            done: bool = client.checkAndPut(name, swap.row, COLUMN, swap.expected, mutation, {})
            return done

        def swap_again(client: Any) -> bool:
            return value_of(client, name, swap.row) == swap.value or attempt(client)

        def doubt() -> None:
            self.unanswered.add_swap(swap.table, swap.row, swap.expected)

        try:
            return self._gateway.once(attempt)
        except CallFailed as failure:
            was_in_doubt = failure.is_in_doubt
        if was_in_doubt:
            doubt()
        try:
            return self._gateway.repeated(swap_again, doubt)
        except (CallFailed, Refused) as error:
            error.is_in_doubt |= was_in_doubt
            raise


def cell_of(client: Any, name: bytes, row: bytes) -> Any:
    """Return the cell of a row, with its value and timestamp; None if there is none."""
    cells = client.get(name, row, COLUMN, {})
    return cells[0] if cells else None


def value_of(client: Any, name: bytes, row: bytes) -> bytes | None:
    """Return the value of one of HBase's rows, None if there is none."""
    cell = cell_of(client, name, row)
    return None if cell is None else cell.value


def _mutate(name: bytes, mutations: list[Any], client: Any) -> None:
    client.mutateRows(name, mutations, {})
