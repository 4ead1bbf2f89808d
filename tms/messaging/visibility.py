"""Decides which entries a reader gets: the rules of a poll with and without a transaction.

Pure. Without a transaction a reader gets everything, even entries in progress or rolled back: a
repeatable log. With one, it gets plain and visible entries, skips those rolled back or invalid, and
stops at any other one, which is in progress, so that order holds.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from typing import NamedTuple

from tms.core.values.entries import PLAIN, Entries
from tms.core.values.transaction import Transaction, Visibility


class View:
    """The rule of a reader for stored pointers, with a transaction or without."""

    def __init__(self, transaction: Transaction | None) -> None:
        """Read as `transaction` sees; None sees everything."""
        self._transaction = transaction
        self._known: dict[int, Visibility] = {PLAIN: Visibility.GIVE}

    def gives_all(self, entries: Entries, start: int, stop: int) -> bool:
        """Whether the reader gets all entries from `start` to before `stop`: a cheap check.

        False may also mean that only `decide` can tell.
        """
        transaction, pointers = self._transaction, entries.pointers
        if transaction is None or pointers is None:
            return True
        if entries.bounds is not None and _sees_between(transaction, *entries.bounds):
            return True
        pointers = pointers[start:stop]
        least, greatest = min(pointers), max(pointers)
        if least < PLAIN or greatest > transaction.read_pointer:
            return False
        for excluded in (transaction.in_progress, transaction.invalids):
            first, end = bisect_left(excluded, least), bisect_right(excluded, greatest)
            if first < end and _share(excluded[first:end], pointers):
                return False
        return True

    def decide(self, pointer: int) -> Visibility:
        """Return what the reader does at an entry with `pointer`."""
        if self._transaction is None:
            return Visibility.GIVE
        decision = self._known.get(pointer)
        if decision is None:
            decision = self._known[pointer] = self._transaction.decide(pointer)
        return decision


def _sees_between(transaction: Transaction, least: int, greatest: int) -> bool:
    """Whether a transaction sees all entries under pointers from `least` to `greatest`."""
    if least < PLAIN or greatest > transaction.read_pointer:
        return False
    in_progress, invalids = transaction.in_progress, transaction.invalids
    return bisect_left(in_progress, least) == bisect_right(in_progress, greatest) and bisect_left(
        invalids, least
    ) == bisect_right(invalids, greatest)


def _share(excluded: Sequence[int], pointers: Sequence[int]) -> bool:
    """Whether `excluded`, which ascends, has any of `pointers`; the cost is that of the shorter."""
    if len(excluded) <= len(pointers):
        return not set(pointers).isdisjoint(excluded)
    return any(excluded[bisect_left(excluded, p, hi=len(excluded) - 1)] == p for p in set(pointers))


class Visible(NamedTuple):
    """The part of some entries that a reader gets."""

    runs: list[range]
    """Indexes of entries to give, in order; a reference is a run of its own."""
    stopped_at: int | None
    """The index of the entry that the reader must not pass; None if there is none."""


def visible_in(entries: Entries, start: int, stop: int, view: View) -> Visible:
    """Return the reader's part of the entries from `start` to before `stop`."""
    if start == stop:
        return Visible([], None)
    if view.gives_all(entries, start, stop):
        return Visible(_runs(entries, start, stop), None)
    assert entries.pointers is not None
    runs: list[range] = []
    run_start = start
    for index in range(start, stop):
        decision = view.decide(entries.pointers[index])
        if decision is Visibility.GIVE:
            continue
        runs += _runs(entries, run_start, index)
        run_start = index + 1
        if decision is Visibility.STOP:
            return Visible(runs, index)
    return Visible(runs + _runs(entries, run_start, stop), None)


def _runs(entries: Entries, start: int, stop: int) -> list[range]:
    """Return the indexes from `start` to before `stop`, with each reference as a run of its own."""
    if start == stop:
        return []
    references = entries.references
    if not references:
        return [range(start, stop)]
    runs: list[range] = []
    for index in range(start, stop):
        if index in references:
            runs += [range(start, index), range(index, index + 1)]
            start = index + 1
    runs.append(range(start, stop))
    return [run for run in runs if run]
