"""Takes rows out of a store by ranges of keys, in steps, so that others have their turn between.

Reading keys and deleting them are steps of their own: what publishers feel of it is the longest
time in which it does not let go of Python's lock, or of the store's.

Deletes are written straight to the store, beside the writer. That is safe because nothing is
deleted but keys that a scan has seen, and what the writer writes has other keys: its keys of a
topic ascend from above the greatest row, which is never deleted while its topic's row is there
(`cleanup.expiry`). A rollback may put an expired row back that was deleted after it was read; such
a row is hidden by TTL, and found by a later pass, because each begins with a topic's first row.

The deletes need not be durable: what a crash undoes, the next pass does again.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum
from itertools import islice
from time import perf_counter
from typing import Protocol

from tables.store import Store

ROWS_COUNTED = 500
"""Rows that are counted in a step: less than a millisecond."""
_ROWS_BETWEEN_LOOKS = 250
"""Rows read before the time is looked at: about a quarter of a millisecond."""


class Reason(StrEnum):
    """Why a row was changed."""

    TTL = "ttl"
    GENERATION = "generation"
    INVALID = "invalid"
    SEALED = "sealed"
    """A leader before had sent it late, so that nobody is shown it."""
    SUPERSEDED = "superseded"
    """A compact topic has a newer message of its key."""
    TOMBSTONE = "tombstone"
    """It said that its key has no value, and nothing older of the key is left."""
    ROLLED_BACK = "rolled_back"
    """It was rolled back, in a compact topic."""
    RETENTION = "retention"
    """Read only, to count: what is too much then expires."""


@dataclass(frozen=True, slots=True)
class Step:
    """The result of one step."""

    table: str
    reason: Reason
    scanned: int = 1
    """How many rows it read, or places it looked at."""
    dropped: int = 0
    dropped_bytes: int = 0
    inverted: int = 0


@dataclass(frozen=True, slots=True)
class Budget:
    """The limits of one step."""

    rows_max: int
    ms_max: float


def first_key(store: Store, table: str, start: bytes, stop: bytes) -> bytes | None:
    """Return the smallest key with start <= key < stop, None if there is none."""
    with store.scan(table, start, stop, limit=1) as rows:
        return next((key for key, _ in rows), None)


def last_key(store: Store, table: str, start: bytes, stop: bytes) -> bytes | None:
    """Return the greatest key with start <= key < stop, None if there is none."""
    with store.scan(table, start, stop, reverse=True, limit=1) as rows:
        return next((key for key, _ in rows), None)


class Drop(Protocol):
    """Deletes the rows of a table with start <= key < stop, as far as they are one's own."""

    def __call__(self, table: str, start: bytes, stop: bytes, *, reason: Reason) -> Iterator[Step]:
        """Give steps, after each write too. Raises `StoreUnavailable`, `StoreCorrupt`."""
        ...


def drop_range(
    store: Store, budget: Budget, table: str, start: bytes, stop: bytes, *, reason: Reason
) -> Iterator[Step]:
    """Delete the rows with start <= key < stop; give a step after each read and each write.

    Raises `StoreUnavailable`, `StoreCorrupt`; then what was given is done.
    """
    while start < stop:
        keys, size, is_done = _keys(store, table, start, stop, budget)
        if not keys:
            return
        yield Step(table, reason, len(keys))
        batch = store.batch(durable=False)
        batch.delete_rows(table, keys)
        store.write(batch)
        # Going on behind the last one: from the start, it would walk over all that was deleted.
        start = keys[-1] + b"\x00"
        yield Step(table, reason, 0, len(keys), size)
        if is_done:
            return


def _keys(
    store: Store, table: str, start: bytes, stop: bytes, budget: Budget
) -> tuple[list[bytes], int, bool]:
    """Return the first keys of a range, how large their rows are, and whether that is all."""
    keys: list[bytes] = []
    size = 0
    until = perf_counter() + budget.ms_max / 1000
    with store.scan(table, start, stop, limit=budget.rows_max) as rows:
        while found := list(islice(rows, _ROWS_BETWEEN_LOOKS)):
            found_keys, values = zip(*found, strict=True)
            keys += found_keys
            size += len(found) * len(found_keys[0]) + sum(map(len, values))
            if perf_counter() >= until:
                return keys, size, False
    return keys, size, len(keys) < budget.rows_max
