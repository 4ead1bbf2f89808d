"""Which entries a reader is given: the rules of a poll with and without a transaction.

Pure. Without a transaction everything is given, what is in progress or rolled back included: a
repeatable log. With one, per entry in order: plain is given; rolled back or invalid is skipped;
visible is given; anything else is in progress, and there the reader stops, so that order holds.
"""

from collections.abc import Callable
from typing import NamedTuple

from tms.core.entries import PLAIN, Entries
from tms.core.transaction import Transaction, Visibility

Decide = Callable[[int], Visibility]


class Given(NamedTuple):
    """What a reader is given of some entries."""

    runs: list[range]
    """Indexes of entries to give, in order; a reference is a run of its own."""
    stopped_at: int | None
    """The index of the entry that the reader must not pass; None where there is none."""


def decider(transaction: Transaction | None) -> Decide:
    """Return the rule of a reader for stored pointers, asked once for each pointer."""
    if transaction is None:
        return lambda _: Visibility.GIVE
    known: dict[int, Visibility] = {PLAIN: Visibility.GIVE}

    def decide(pointer: int) -> Visibility:
        decision = known.get(pointer)
        if decision is None:
            decision = known[pointer] = transaction.decide(pointer)
        return decision

    return decide


def given(entries: Entries, start: int, stop: int, decide: Decide) -> Given:
    """Return what a reader is given of the entries from `start` to before `stop`."""
    pointers, references = entries.pointers, entries.references
    if pointers is None:
        return Given([range(start, stop)] if start < stop else [], None)
    runs: list[range] = []
    run_start = start
    for index in range(start, stop):
        decision = decide(pointers[index])
        is_reference = index in references
        if decision is Visibility.GIVE and not is_reference:
            continue
        if run_start < index:
            runs.append(range(run_start, index))
        run_start = index + 1
        if decision is Visibility.STOP:
            return Given(runs, index)
        if decision is Visibility.GIVE:
            runs.append(range(index, index + 1))
    if run_start < stop:
        runs.append(range(run_start, stop))
    return Given(runs, None)
