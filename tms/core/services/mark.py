"""The mark of a store: where its time continues after a stop, and numbers that must ascend.

    mark := version byte (1), crc32 uint32 over what follows, trusted, expiry, steady, high,
            forgotten: int64 each, boot id UTF-8

- `trusted` is the trusted time, in ms since 1970, when steady time was `steady` in the boot of that
  id. If the machine kept running, a start so knows how long the stop was
  (`TrustedClock.start_after`).
- `expiry` is the time up to which processes elsewhere may delete what has expired.
- `high` is above all versions of subscriptions ever given: new ones begin above it.
- `forgotten` is above all keys of topics whose row is gone, in ms since 1970: no key is below it.

Each leader has a row of its own, by its token, so a late write of an earlier one does no harm.

Big-endian. DO NOT CHANGE: on disk.
"""

import struct
from dataclasses import dataclass, replace
from typing import Protocol
from zlib import crc32

from tms.core.errors import StoreCorrupt
from tms.core.runtime.clock import Clock, SystemClock

_VERSION = 1
_START = struct.Struct(">BI")
_NUMBERS = struct.Struct(">qqqqq")


class Marks(Protocol):
    """The part of the Transaction table that has the marks."""

    def marks(self) -> list[tuple[int, bytes]]:
        """Return the marks with the tokens of their writers, ascending."""
        ...


@dataclass(frozen=True, slots=True)
class Mark:
    """The values of one row."""

    trusted_ms: int
    expiry_ms: int
    steady_ms: int
    high: int
    forgotten_ms: int
    boot_id: str


def encode_mark(mark: Mark) -> bytes:
    """Return the row."""
    numbers = (mark.trusted_ms, mark.expiry_ms, mark.steady_ms, mark.high, mark.forgotten_ms)
    body = _NUMBERS.pack(*numbers) + mark.boot_id.encode()
    return _START.pack(_VERSION, crc32(body)) + body


def decode_mark(row: bytes) -> Mark:
    """Return what a row says. Raises `StoreCorrupt`."""
    body = row[_START.size :]
    is_whole = row[: _START.size] == _START.pack(_VERSION, crc32(body))
    if not is_whole or len(body) < _NUMBERS.size:
        raise StoreCorrupt(table="transaction", reason="the time mark is damaged")
    trusted_ms, expiry_ms, steady_ms, high, forgotten_ms = _NUMBERS.unpack_from(body)
    boot_id = body[_NUMBERS.size :].decode()
    return Mark(trusted_ms, expiry_ms, steady_ms, high, forgotten_ms, boot_id)


def latest_mark(table: Marks) -> Mark | None:
    """Return the last leader's mark with the greatest numbers of all marks; None if there is none.

    Raises `StoreCorrupt`, `StoreUnavailable`. Blocks.
    """
    marks = [decode_mark(row) for _, row in table.marks()]
    if not marks:
        return None
    high = max(mark.high for mark in marks)
    forgotten_ms = max(mark.forgotten_ms for mark in marks)
    return replace(marks[-1], high=high, forgotten_ms=forgotten_ms)


class ClockElsewhere(Clock):
    """The clock of a process that cleans up a store beside its servers, or while none runs.

    A wrong clock must not delete what servers still return. So it deletes what has expired both by
    its own time and by that of the store's servers, as their mark says.
    """

    def __init__(self, mark: Mark | None, clock: Clock | None = None) -> None:
        """Delete as of `mark`; without one, of a version before marks, as of `clock` alone."""
        self._clock = clock or SystemClock()
        self._mark = mark

    def now_ms(self) -> int:
        """Return the time."""
        return self._clock.now_ms()

    def steady_ms(self) -> int:
        """Return steady time."""
        return self._clock.steady_ms()

    def expiry_ms(self) -> int:
        """Return the time that decides what has expired."""
        now_ms = self._clock.expiry_ms()
        return now_ms if self._mark is None else min(now_ms, self._mark.expiry_ms)
