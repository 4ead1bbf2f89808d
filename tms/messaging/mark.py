"""The mark of an open store: read at the start, and written periodically.

It is written a minute after the last time if the writer was used since, otherwise an hour after it;
in the flush that needs a higher `high`; before a topic's row is deleted; and at the close. Used
from the event loop's thread, except `open`.
"""

import asyncio
import logging
from collections.abc import Callable
from contextlib import suppress
from typing import TYPE_CHECKING

from tms.core.errors import TmsError
from tms.core.runtime.trusted_clock import TrustedClock
from tms.core.services.group_commit import GroupCommit, Write
from tms.core.services.mark import Mark, encode_mark, latest_mark
from tms.core.values.batch import Batch

if TYPE_CHECKING:
    from tables.store_tables import StoreTables

_LOOK_S = 0.5
"""How often the clock is read, so that an idle server does not mistake two steps for one."""
_PUT_MS = 60_000
_PUT_IDLE_MS = 3_600_000
HIGH_AHEAD_US = 60_000_000
"""How far a new `high` is above the version that needs it, in microseconds."""
_SIZE_BYTES = 200

_log = logging.getLogger(__name__)


class StoreMark:
    """The mark of one open store."""

    def __init__(self, tables: "StoreTables", clock: TrustedClock, token: int) -> None:
        """Keep the mark of the leader with that token; 0 for a server that is alone."""
        self._tables = tables
        self._clock = clock
        self._token = token
        self.high = 0
        """No version above it is assigned before it is raised; durable."""
        self._wanted_high = 0
        self._forgotten_ms = 0

    def open(self) -> bool:
        """Make the clock continue from the mark; return False if there is none. Blocks.

        Raises `StoreCorrupt`, `StoreUnavailable`.
        """
        mark = latest_mark(self._tables.transactions)
        if mark is None:
            return False
        behind_ms = mark.trusted_ms - mark.expiry_ms
        self._clock.start_after(mark.trusted_ms, mark.boot_id, mark.steady_ms, behind_ms)
        self._clock.may_be_deleted(mark.expiry_ms)
        self._clock.keep_keys_from(mark.forgotten_ms)
        self.high = self._wanted_high = mark.high
        self._forgotten_ms = mark.forgotten_ms
        return True

    def put(self, batch: Batch) -> None:
        """Add the current mark to a batch."""
        mark = Mark(
            self._clock.now_ms(),
            self._clock.deletion_ms(),
            self._clock.steady_ms(),
            self._wanted_high,
            self._forgotten_ms,
            self._clock.boot_id,
        )
        self._tables.transactions.put_mark(batch, self._token, encode_mark(mark))

    def cover(self, batch: Batch, version: int) -> None:
        """Raise `high` in the batch that assigns a version, if necessary."""
        if version > self.high:
            self._wanted_high = max(self._wanted_high, version + HIGH_AHEAD_US)
            self.put(batch)

    def is_durable(self, version: int) -> None:
        """Record that the batch that assigned a version is durable."""
        if version > self.high:
            self.high = self._wanted_high

    async def store(self, writer: GroupCommit) -> None:
        """Write it now, through `writer`. Raises as `keep_keys_from`."""
        await writer.submit(_Put(self))

    async def keep_keys_from(self, floor_ms: int, writer: GroupCommit) -> None:
        """Create no more keys before the time `floor_ms`; durable, through `writer`, on return.

        Raises the `Unavailable` errors, `OutcomeUnknown`.
        """
        if floor_ms > self._forgotten_ms:
            self._clock.keep_keys_from(floor_ms)
            self._forgotten_ms = floor_ms
            await self.store(writer)


class MarkTimer:
    """Writes a mark periodically, and a last time when it is closed."""

    def __init__(
        self, mark: StoreMark, clock: TrustedClock, writer: GroupCommit, used: Callable[[], float]
    ) -> None:
        """Write `mark` through `writer` from now on. Call within a running event loop.

        `used` returns a number that changes whenever the writer is used.
        """
        self._mark = mark
        self._clock = clock
        self._writer = writer
        self._used = used
        self._timer = asyncio.create_task(self._keep(clock.steady_ms()), name="mark-timer")

    async def _keep(self, put_ms: int) -> None:
        used_then, beliefs = self._used(), self._clock.beliefs
        while True:
            await asyncio.sleep(_LOOK_S)
            self._clock.now_ms()
            since_ms, is_used = self._clock.steady_ms() - put_ms, self._used() != used_then
            is_due = since_ms >= _PUT_IDLE_MS or (since_ms >= _PUT_MS and is_used)
            # A confirmed step is stored, so that a restart need not confirm it again.
            if is_due or self._clock.beliefs != beliefs:
                beliefs = self._clock.beliefs
                with suppress(TmsError):
                    await self._mark.store(self._writer)
                put_ms, used_then = self._clock.steady_ms(), self._used()

    async def close(self) -> None:
        """Write it a last time. The writer must still be open."""
        self._timer.cancel()
        await asyncio.gather(self._timer, return_exceptions=True)
        try:
            await self._mark.store(self._writer)
        except TmsError as error:
            _log.warning("cannot store the time mark: %s", error)


class _Put(Write):
    """The mark as a request to the writer. Its result does not matter."""

    size_bytes = _SIZE_BYTES

    def __init__(self, mark: StoreMark) -> None:
        self._mark = mark

    def add_rows(self, batch: Batch, now_ms: int) -> None:  # noqa: ARG002
        """Add the row."""
        self._mark.put(batch)
