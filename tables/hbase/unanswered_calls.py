"""Remembers the calls without an answer, which may still put or delete rows late.

A call that timed out may be in progress in the gateway until the gateway gives it up. Repeating it
is safe. But if new values are written to its rows in the meantime, the late call could overwrite
them. So until `timeout_s` have passed, a row of such a call cannot get another value. A late
compare-and-put changes nothing, unless the row has its expected value again: only that value is
refused.

The number of remembered rows is bounded: beyond `_ROWS_MAX`, no row can be written until enough
time has passed.
"""

import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from threading import Lock

from tables.hbase.connections import CallFailed

_ROWS_MAX = 200_000


def late(left_s: float) -> str:
    """Return the reason why a row cannot be written."""
    return f"an earlier call may still write a row late, for {left_s:.0f} s"


@dataclass(frozen=True, slots=True)
class _Doubt:
    until: float
    table: str
    hashes: Mapping[bytes, int]
    """By row, the hashes of the values that a call may still write, or of those it expects."""
    compares: bool


class UnansweredCalls:
    """The unanswered calls of one store, for many threads."""

    def __init__(self, timeout_s: float, now_s: Callable[[], float] = time.monotonic) -> None:
        """Remember each call for `timeout_s` seconds."""
        self._timeout_s = timeout_s
        self._now_s = now_s
        self._lock = Lock()
        self._doubts: deque[_Doubt] = deque()
        self._rows = 0

    def add(self, table: str, rows: Mapping[bytes, bytes], *, is_delete: bool) -> None:
        """Record that the rows may be put, or deleted, late."""
        hashes = {row: hash(None if is_delete else value) for row, value in rows.items()}
        self._add(table, hashes, compares=False)

    def add_swap(self, table: str, row: bytes, expected: bytes | None) -> None:
        """Record that a row may be put late, if its value is then `expected`."""
        self._add(table, {row: hash(expected)}, compares=True)

    def _add(self, table: str, hashes: Mapping[bytes, int], *, compares: bool) -> None:
        with self._lock:
            self._doubts.append(_Doubt(self._now_s() + self._timeout_s, table, hashes, compares))
            self._rows += len(hashes)

    def left_s(
        self, table: str, rows: Mapping[bytes, bytes | None], *, is_delete: bool = False
    ) -> float:
        """Return how long until the rows may get these values, or be deleted."""
        with self._lock:
            now = self._now_s()
            while self._doubts and self._doubts[0].until <= now:
                self._rows -= len(self._doubts.popleft().hashes)
            doubts = [doubt for doubt in self._doubts if doubt.table == table]
            if self._rows > _ROWS_MAX:
                return self._doubts[0].until - now
        until = now
        for doubt in doubts:
            for row in doubt.hashes.keys() & rows.keys():
                is_same = doubt.hashes[row] == hash(None if is_delete else rows[row])
                if is_same == doubt.compares:
                    until = max(until, doubt.until)
        return until - now

    def late_s(self, table: str, rows: Sequence[bytes]) -> float:
        """Return how long any of the rows may still be written late, whatever its value."""
        with self._lock:
            now = self._now_s()
            return max(
                (
                    doubt.until - now
                    for doubt in self._doubts
                    if doubt.table == table and not doubt.hashes.keys().isdisjoint(rows)
                ),
                default=0.0,
            )

    def check(
        self, table: str, rows: Mapping[bytes, bytes | None], *, is_delete: bool = False
    ) -> None:
        """Raise `CallFailed` if the rows may not yet get these values, or be deleted."""
        left_s = self.left_s(table, rows, is_delete=is_delete)
        if left_s > 0:
            raise CallFailed(late(left_s), is_in_doubt=False)

    @property
    def are_left(self) -> bool:
        """Whether any call may still come late."""
        with self._lock:
            return bool(self._doubts) and self._doubts[-1].until > self._now_s()
