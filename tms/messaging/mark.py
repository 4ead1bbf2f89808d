"""The mark of a store: where its time goes on after a stop, and numbers that must ascend.

    mark := version byte (1), crc32 uint32 over what follows, trusted, expiry, steady, high,
            forgotten: int64 each, boot id UTF-8

- `trusted` is the trusted time, in ms since 1970, when steady time was `steady` in the boot of that
  id: so a start knows how long the stop was, or that it does not (`TrustedClock.start_after`).
- `expiry` is the time up to which processes elsewhere may delete what has grown old.
- `high` is above all versions of subscriptions ever given: new ones begin above it.
- `forgotten` is above all keys of topics whose row is gone, in ms since 1970: no key is below it.

It is put a minute after the last time if the writer was used meanwhile, or an hour after it; in the
flush that needs a higher `high`; before a topic's row goes; and at the close. Each leader has a row
of its own, by its token: what an earlier one puts late does no harm.

Big-endian. DO NOT CHANGE: on disk. Used from the event loop's thread, but for `open`.
"""

import asyncio
import logging
import struct
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, replace
from zlib import crc32

from tms.core.errors import StoreCorrupt, TmsError
from tms.core.group_commit import GroupCommit
from tms.core.tables import Batch, Tables
from tms.core.trusted_clock import TrustedClock

_LOOK_S = 0.5
"""How often the clock is looked at: so an idle server does not take two steps for one."""
_PUT_MS = 60_000
_PUT_IDLE_MS = 3_600_000
_HIGH_AHEAD = 60_000_000
"""How far above the version that needs it a new `high` is, in microseconds."""
_SIZE_BYTES = 200

_VERSION = 1
_START = struct.Struct(">BI")
_NUMBERS = struct.Struct(">qqqqq")

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Mark:
    """What a row says."""

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
        raise StoreCorrupt(table="transaction", reason="the mark of the time is damaged")
    trusted_ms, expiry_ms, steady_ms, high, forgotten_ms = _NUMBERS.unpack_from(body)
    boot_id = body[_NUMBERS.size :].decode()
    return Mark(trusted_ms, expiry_ms, steady_ms, high, forgotten_ms, boot_id)


def latest_mark(tables: Tables) -> Mark | None:
    """Return the mark of the last leader, with the greatest numbers of all; None without any.

    Raises `StoreCorrupt`, `StoreUnavailable`. Blocks.
    """
    marks = [decode_mark(row) for _, row in tables.transactions.marks()]
    if not marks:
        return None
    high = max(mark.high for mark in marks)
    forgotten_ms = max(mark.forgotten_ms for mark in marks)
    return replace(marks[-1], high=high, forgotten_ms=forgotten_ms)


class StoreMark:
    """The mark of one store that is open."""

    def __init__(self, tables: Tables, clock: TrustedClock, token: int) -> None:
        """Keep the mark of the leader with that token; 0: of a server that is alone."""
        self._tables = tables
        self._clock = clock
        self._token = token
        self._writer: GroupCommit | None = None
        self._timer: asyncio.Task[None] | None = None
        self._put_ms = 0
        self.high = 0
        """No version above it was given, or is given before it is raised; durable."""
        self._wanted_high = 0
        self._forgotten_ms = 0

    def open(self) -> bool:
        """Have the clock go on from the mark; return False if there is none. Blocks.

        Raises `StoreCorrupt`, `StoreUnavailable`.
        """
        mark = latest_mark(self._tables)
        if mark is None:
            return False
        self._clock.start_after(mark.trusted_ms, mark.boot_id, mark.steady_ms)
        self._clock.may_be_deleted(mark.expiry_ms)
        self._clock.keep_keys_from(mark.forgotten_ms)
        self.high = self._wanted_high = mark.high
        self._forgotten_ms = mark.forgotten_ms
        return True

    def put(self, batch: Batch) -> None:
        """Add the mark as of now to a batch."""
        trusted_ms, wall_ms = self._clock.candidates()
        mark = Mark(
            trusted_ms,
            min(trusted_ms, wall_ms),
            self._clock.steady_ms(),
            self._wanted_high,
            self._forgotten_ms,
            self._clock.boot_id,
        )
        self._clock.may_be_deleted(mark.expiry_ms)
        self._tables.transactions.put_mark(batch, self._token, encode_mark(mark))

    def keep(self, writer: GroupCommit, used: Callable[[], float]) -> None:
        """Put it by and by through `writer`, until `close`. Call within a running event loop.

        `used` returns another number if the writer was used meanwhile.
        """
        self._writer = writer
        self._put_ms = self._clock.steady_ms()
        self._timer = asyncio.create_task(self._keep(writer, used), name="mark-timer")

    async def _keep(self, writer: GroupCommit, used: Callable[[], float]) -> None:
        used_then = used()
        while True:
            await asyncio.sleep(_LOOK_S)
            self._clock.now_ms()
            since_ms = self._clock.steady_ms() - self._put_ms
            if since_ms >= _PUT_IDLE_MS or (since_ms >= _PUT_MS and used() != used_then):
                with suppress(TmsError):
                    await writer.submit(_Put(self))
                self._put_ms, used_then = self._clock.steady_ms(), used()

    def cover(self, batch: Batch, version: int) -> None:
        """Raise `high` in the batch that gives a version, if it must be."""
        if version > self.high:
            self._wanted_high = max(self._wanted_high, version + _HIGH_AHEAD)
            self.put(batch)

    def is_durable(self, version: int) -> None:
        """Take note that the batch that gave a version is durable."""
        if version > self.high:
            self.high = self._wanted_high

    async def keep_keys_from(self, floor_ms: int) -> None:
        """Give no key of a time before `floor_ms` any more; durable on return.

        Raises the `Unavailable` errors, `OutcomeUnknown`.
        """
        if floor_ms > self._forgotten_ms:
            assert self._writer is not None
            self._clock.keep_keys_from(floor_ms)
            self._forgotten_ms = floor_ms
            await self._writer.submit(_Put(self))

    async def close(self) -> None:
        """Put it a last time. The writer must be open yet."""
        if self._timer is None or self._writer is None:
            return
        self._timer.cancel()
        with suppress(asyncio.CancelledError):
            await self._timer
        try:
            await self._writer.submit(_Put(self))
        except TmsError as error:
            _log.warning("the mark of the time could not be put: %s", error)


class _Put:
    """The mark as a request to the writer (`tms.core.group_commit.Write`)."""

    size_bytes = _SIZE_BYTES

    def __init__(self, mark: StoreMark) -> None:
        self._mark = mark

    def on_queued(self) -> None:
        """Hold nothing."""

    def add_rows(self, batch: Batch, now_ms: int) -> None:  # noqa: ARG002
        """Add the row."""
        self._mark.put(batch)

    def on_durable(self) -> None:
        """Do nothing: what it says was so before."""

    def on_failed(self) -> None:
        """Do nothing: the next one says the same."""

    def release(self) -> None:
        """Hold nothing."""

    def result(self) -> None:
        """Return nothing."""
