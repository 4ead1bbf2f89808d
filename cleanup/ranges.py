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

from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum
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


@dataclass(slots=True)
class RowRange:
    """The rows of a table with start <= key < stop, and the result of dropping them."""

    start: bytes
    stop: bytes
    end: bytes = b""
    """If it is of a topic, where all of that ends."""
    dropped_bytes: int = 0
    kept: bytes | None = None
    """The row that stays because it is the greatest of the topic."""


class Drop(Protocol):
    """Deletes rows of a table in ranges of keys, as far as they are one's own."""

    def __call__(
        self,
        table: str,
        ranges: Sequence[RowRange],
        *,
        reason: Reason,
        keeps_greatest: bool = False,
    ) -> Iterator[Step]:
        """Delete the rows of ascending ranges; give steps, after each write too.

        With `keeps_greatest`, keep the greatest row of each range's topic.
        Raises `StoreUnavailable`, `StoreCorrupt`.
        """
        ...


def drop_ranges(
    store: Store,
    budget: Budget,
    table: str,
    ranges: Sequence[RowRange],
    *,
    reason: Reason,
    keeps_greatest: bool = False,
) -> Iterator[Step]:
    """Delete the rows of ascending ranges; give a step after each read and each write.

    Ranges that follow each other are read by one scan. Fulfils `Drop`. Raises `StoreUnavailable`,
    `StoreCorrupt`; then what was given is done.
    """
    reader = _Reader(store, budget, table, ranges, keeps_greatest=keeps_greatest)
    while reader.has_more:
        reader.read()
        if reader.scanned:
            yield Step(table, reason, reader.scanned)
        if reader.keys:
            batch = store.batch(durable=False)
            batch.delete_rows(table, reader.keys)
            store.write(batch)
            yield Step(table, reason, 0, len(reader.keys), reader.size)


class _Reader:
    """Reads the keys of ranges, as many at a time as a budget allows."""

    def __init__(
        self,
        store: Store,
        budget: Budget,
        table: str,
        ranges: Sequence[RowRange],
        *,
        keeps_greatest: bool,
    ) -> None:
        self._store = store
        self._budget = budget
        self._table = table
        self._keeps_greatest = keeps_greatest
        self._ranges = deque(each for each in ranges if each.start < each.stop)
        if self._ranges:
            self._start, last = self._ranges[0].start, self._ranges[-1]
            self._stop = last.end if keeps_greatest else last.stop

    @property
    def has_more(self) -> bool:
        """Whether there may be more keys."""
        return bool(self._ranges)

    def read(self) -> None:
        """Read the next `keys` to delete; `scanned` rows were read, `size` bytes are deleted."""
        self.keys: list[bytes] = []
        self.size = self.scanned = 0
        until = perf_counter() + self._budget.ms_max / 1000
        rows_max = self._budget.rows_max + self._keeps_greatest  # one may have to stay
        while self._ranges and self.scanned < rows_max:
            if self.scanned and perf_counter() >= until:
                break
            self._scan(rows_max - self.scanned, until)
        if self._keeps_greatest and self._ranges and self._has_keys_of(self._ranges[0]):
            self._start = self._withdrawn(self._ranges[0])  # a greater one may follow

    def _scan(self, rows_max: int, until: float) -> None:
        """Read rows up to the first one between two ranges, or until it is time to stop."""
        current, count = self._ranges[0], 0
        with self._store.scan(self._table, self._start, self._stop, limit=rows_max) as rows:
            for key, value in rows:
                count += 1
                if not current.start <= key < current.stop:
                    found = self._range_at(key)
                    if found is None:
                        break
                    current = found
                self.keys.append(key)
                self._last_bytes = len(key) + len(value)
                current.dropped_bytes += self._last_bytes
                self.size += self._last_bytes
                if not count % _ROWS_BETWEEN_LOOKS and perf_counter() >= until:
                    break
            else:
                if count < rows_max:
                    while self._ranges:
                        self._leave(None)
        self.scanned += count
        if self._ranges and self._has_keys_of(self._ranges[0]):
            # From the start, the next scan would walk over all that was deleted.
            self._start = self.keys[-1] + b"\x00"

    def _range_at(self, key: bytes) -> RowRange | None:
        """Return the range that a key is in; if there is none, continue with the next range."""
        while self._ranges and key >= self._ranges[0].stop:
            self._leave(key)
        if not self._ranges:
            return None
        self._start = self._ranges[0].start
        return self._ranges[0] if key >= self._start else None

    def _leave(self, next_key: bytes | None) -> None:
        """Finish a range; `next_key` is the first key after it, None if there is none."""
        left = self._ranges.popleft()
        if not self._keeps_greatest or not self._has_keys_of(left):
            return
        if next_key is None or next_key >= left.end:
            left.kept = self._withdrawn(left)

    def _has_keys_of(self, current: RowRange) -> bool:
        return bool(self.keys) and self.keys[-1] >= current.start

    def _withdrawn(self, current: RowRange) -> bytes:
        """Return the last key, which is not to be deleted yet."""
        self.size -= self._last_bytes
        current.dropped_bytes -= self._last_bytes
        return self.keys.pop()
