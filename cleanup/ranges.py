"""Deletes rows of a store by ranges of keys, in steps, so that other threads run in between.

Reading keys and deleting them are separate steps: publishers are delayed by the longest time that a
step holds Python's lock, or the store's.

Deletes are written straight to the store, concurrently with the writer. That is safe because only
keys that a scan has seen are deleted, and the writer uses other keys: its keys of a topic ascend
from above the greatest row, which is never deleted while its topic's row exists (`cleanup.expiry`).
A rollback may put back an expired row that was deleted after it was read. TTL hides such a row, and
a later pass finds it, because each pass begins with a topic's first row.

The deletes need not be durable: the next pass repeats what a crash undoes.
"""

from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum
from time import perf_counter
from typing import Protocol

from tables.store import Store

ROWS_COUNTED = 500
"""Rows counted in a step: less than a millisecond."""
_ROWS_BETWEEN_LOOKS = 250
"""Rows read before the clock is read again: about a quarter of a millisecond."""


class Reason(StrEnum):
    """The reason why a row was changed."""

    TTL = "ttl"
    GENERATION = "generation"
    INVALID = "invalid"
    SEALED = "sealed"
    """An earlier leader sent it late, so nobody sees it."""
    SUPERSEDED = "superseded"
    """A compact topic has a newer message of its key."""
    TOMBSTONE = "tombstone"
    """It deleted its key, and no older message of the key remains."""
    ROLLED_BACK = "rolled_back"
    """It was rolled back, in a compact topic."""
    RETENTION = "retention"
    """Only read, to count; excess messages then expire."""


@dataclass(frozen=True, slots=True)
class Step:
    """The result of one step."""

    table: str
    reason: Reason
    scanned: int = 1
    """The number of rows it read, or places it searched."""
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
    """For a range of a topic: the end of all rows of the topic."""
    dropped_bytes: int = 0
    kept: bytes | None = None
    """The row that stays because it is the greatest of the topic."""


class Drop(Protocol):
    """Deletes rows of a table in ranges of keys, as far as they belong to the caller."""

    def __call__(
        self,
        table: str,
        ranges: Sequence[RowRange],
        *,
        reason: Reason,
        keeps_greatest: bool = False,
    ) -> Iterator[Step]:
        """Delete the rows of ascending ranges; yield steps, also after each write.

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
    """Delete the rows of ascending ranges; yield a step after each read and each write.

    Adjacent ranges are read by one scan. Implements `Drop`. Raises `StoreUnavailable`,
    `StoreCorrupt`; the yielded steps are done then.
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
        rows_max = self._budget.rows_max + self._keeps_greatest  # one key may have to stay
        while self._ranges and self.scanned < rows_max:
            if self.scanned and perf_counter() >= until:
                break
            self._scan(rows_max - self.scanned, until)
        if self._keeps_greatest and self._ranges and self._has_keys_of(self._ranges[0]):
            self._start = self._withdrawn(self._ranges[0])  # a greater key may follow

    def _scan(self, rows_max: int, until: float) -> None:
        """Read rows up to the first one between two ranges, or until `until`."""
        current, count = self._ranges[0], 0
        with self._store.scan(self._table, self._start, self._stop, limit=rows_max) as rows:
            for key, value in rows:
                count += 1
                if not current.start <= key < current.stop:
                    following = self._range_at(key)
                    if following is None:
                        break
                    current = following
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
            # From the start, the next scan would step over all deleted rows.
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
        finished = self._ranges.popleft()
        if not self._keeps_greatest or not self._has_keys_of(finished):
            return
        if next_key is None or next_key >= finished.end:
            finished.kept = self._withdrawn(finished)

    def _has_keys_of(self, current: RowRange) -> bool:
        return bool(self.keys) and self.keys[-1] >= current.start

    def _withdrawn(self, current: RowRange) -> bytes:
        """Return the last key, which must not be deleted yet."""
        self.size -= self._last_bytes
        current.dropped_bytes -= self._last_bytes
        return self.keys.pop()
