"""Carries out runs and compare-and-puts, each as often as need be for it to be done once.

Calls are repeated with the same rows and values. What one of them that got no answer may do late is
kept in `UnansweredCalls`, and what was deleted just now in `Deleted`: both say when a row can be
put.
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
    """A compare-and-put of a value that is not None."""

    table: str
    row: bytes
    expected: bytes | None
    value: bytes


class Sender:
    """Writes through one gateway, from many threads. All calls raise `CallFailed` and `Refused`."""

    def __init__(self, gateway: Gateway, names: Mapping[str, bytes]) -> None:
        """`names` are HBase's, by table."""
        self.unanswered = UnansweredCalls(gateway.timeout_s)
        self._gateway = gateway
        self._names = names
        self._deleted = Deleted()

    def send(self, run: Run) -> None:
        """Carry out a run; again from its start where it was carried out in part."""
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
                # HBase carries out the rows of a call region by region.
                refusal.is_in_doubt |= number > 0 or len(part) > 1
                raise
        if run.is_delete:
            self._deleted.add(run.table, run.rows)

    def remove(self, table: str, row: bytes, timestamp: int) -> None:
        """Delete what a row had at a timestamp of HBase's; not what was put later."""
        name = self._names[table]
        self.unanswered.check(table, {row: b""}, is_delete=True)
        delete = [Mutation(True, COLUMN, None, True)]
        self._gateway.repeated(lambda client: client.mutateRowTs(name, row, delete, timestamp, {}))

    def swap(self, swap: Swap) -> bool:
        """Put the value if it is due, and find out whether it was put where the answer was lost.

        Whoever finds their value there has put it, for nobody else puts beside them; whoever finds
        what they expected can do it again.
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
    """Return the cell of a row, with its value and timestamp; None where there is none."""
    cells = client.get(name, row, COLUMN, {})
    return cells[0] if cells else None


def value_of(client: Any, name: bytes, row: bytes) -> bytes | None:
    """Return the value of a row, None where there is none, as HBase has both."""
    cell = cell_of(client, name, row)
    return None if cell is None else cell.value


def _mutate(name: bytes, mutations: list[Any], client: Any) -> None:
    client.mutateRows(name, mutations, {})
