"""A lease that is held: renewed until it is lost, or until this server gives it up.

It is given up, but not released, if the store does not answer this server while it answers another
one (`tms.cluster.store_watch`). This server then has calls in progress, so the lease expires, like
that of a leader that died.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import replace
from functools import partial

from tms.cluster.instances import ROOT
from tms.cluster.lease import RENEWALS, Lease, LeaseClock, LeaseRecord
from tms.core.errors import BadVersion, TmsError, Unavailable
from tms.core.runtime.clock import Clock
from tms.core.runtime.rare_log import RareLog
from tms.metadata.cache import JsonCodec
from tms.metadata.interface import MetadataStore

LEASE = f"{ROOT}/lease"
"""The path of the lease of a store with one shard."""

lease_codec = JsonCodec(LeaseRecord)
_log = logging.getLogger(__name__)


class Holding:
    """A lease that is renewed."""

    def __init__(
        self,
        store: MetadataStore,
        path: str,
        record: LeaseRecord,
        version: int,
        lease: Lease,
        *,
        clock: LeaseClock,
        time: Clock,
        is_better_elsewhere: Callable[[], Awaitable[bool]],
    ) -> None:
        self.lease = lease
        loop = asyncio.get_running_loop()
        lease.on_lost.append(partial(_call_in, loop, self._lose))
        self._time = time
        self.may_end = asyncio.Event()
        """Set when the services should be closed."""
        self._store = store
        self._path = path
        self._record = record
        self._version = version
        self._clock = clock
        self._is_due = asyncio.Event()
        self._unrenewed = RareLog(
            _log, f"failed renewals of the lease of {record.store}", logging.WARNING
        )
        self._is_lost = False
        self._is_over = False
        self._is_better_elsewhere = is_better_elsewhere
        self.is_given_up = False
        """Whether it is left to expire, because another server can lead and this one cannot."""

    def serve(self, fence_s: float) -> None:
        """Announce that the services are open, with the new fence time."""
        self._record = replace(self._record, is_serving=True, fence_s=fence_s)
        self._is_due.set()

    def _lose(self) -> None:
        """Lose the lease, because the store shows that a later leader has begun."""
        self._is_lost = True
        self._is_due.set()

    def renew_now(self) -> None:
        """Renew at once, before it is due."""
        self._is_due.set()

    @property
    def record(self) -> LeaseRecord:
        """The lease as last written."""
        return self._record

    def is_of(self, record: LeaseRecord) -> bool:
        """Whether the lease is held now, and `record` is of it."""
        return self.lease.left_s > 0 and (record.holder, record.token) == self._whose()

    async def renew_until_lost(self) -> None:
        """Renew until somebody else claims the lease, or it is given up."""
        pause_s = self._record.lease_s / RENEWALS
        sent_s = self._clock.now_s()
        while True:
            left_s = max(0.0, sent_s + pause_s - self._clock.now_s())
            await unless(self._is_due, asyncio.sleep(left_s))
            self._is_due.clear()
            if self._is_lost or self._is_over:
                return
            sent_s = self._clock.now_s()
            try:
                async with asyncio.timeout(self._record.lease_s):
                    if await self._is_better_elsewhere():
                        self.is_given_up = True
                        return
                    await self._renew()
            except (TimeoutError, Unavailable) as error:
                self._unrenewed.add(f"{self.lease.left_s:.1f} s left: {error}")

    async def _renew(self) -> None:
        now_ms, renewals = self._time.now_ms(), self._record.renewals + 1
        until_ms = self.lease.ceiling_ms(now_ms)
        record = replace(self._record, renewals=renewals, keys_until_ms=until_ms, time_ms=now_ms)
        sent_s, suspensions = self._clock.now_s(), self.lease.suspensions
        try:
            stat = await self._store.put(self._path, lease_codec.encode(record), self._version)
        except BadVersion:
            await self._look()
            return
        # Only these fields: those of the services may have changed in the meantime.
        self._record = replace(self._record, renewals=record.renewals, keys_until_ms=until_ms)
        self._version = stat.version
        self.lease.renewed(sent_s, until_ms, suspensions)

    async def _look(self) -> None:
        """Find out whether another server has the lease, or a lost renewal was accepted."""
        value = await self._store.get(self._path)
        own = None if value is None else lease_codec.decode(value.value)
        if value is None or own is None or (own.holder, own.token) != self._whose():
            self._is_lost = True
        else:
            self._record = replace(self._record, renewals=own.renewals)
            self._version = value.stat.version
        self._is_due.set()

    def _whose(self) -> tuple[int, int]:
        return self._record.holder, self._record.token

    async def end(self, renewing: "asyncio.Task[None]", *, releases: bool) -> None:
        """Stop renewing, and release the lease if it is held; otherwise it expires."""
        self._is_over = True
        self._is_due.set()
        await asyncio.gather(renewing, return_exceptions=True)
        if self._is_lost or self.is_given_up or not releases:
            return
        # With the services closed no more keys are assigned, so the next leader's may begin here.
        released = replace(
            self._record,
            is_serving=False,
            is_released=True,
            keys_until_ms=self.lease.last_given_ms,
            time_ms=self._time.now_ms(),
        )
        try:
            await self._store.put(self._path, lease_codec.encode(released), self._version)
            self._record = released
        except TmsError as error:
            _log.warning("could not release the lease, which will expire: %s", error)


def _call_in(loop: asyncio.AbstractEventLoop, call: Callable[[], object]) -> None:
    """Make a call in an event loop, from any thread; none if the loop has ended."""
    with suppress(RuntimeError):
        loop.call_soon_threadsafe(call)


async def unless(event: asyncio.Event, other: Awaitable[object]) -> None:
    """Return when the event is set, or `other` has ended."""
    tasks = {asyncio.ensure_future(event.wait()), asyncio.ensure_future(other)}
    try:
        await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for task in tasks:
            task.cancel()
