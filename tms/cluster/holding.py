"""A lease that is held: renewed until it is lost, or until this server gives it up.

It is given up, and not given back, if this server's calls to the store are not served while
another server's are (`tms.cluster.store_watch`). Calls of this one are under way then, so the lease
runs out, as that of a leader that died.
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
        """Set when the services are to be closed."""
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
        """Whether it is left to run out, because another server can lead and this one cannot."""

    def serve(self, fence_s: float) -> None:
        """Let the others know that the services are open, and what is to be waited for now."""
        self._record = replace(self._record, is_serving=True, fence_s=fence_s)
        self._is_due.set()

    def _lose(self) -> None:
        """End, because the store shows that a later leader has begun."""
        self._is_lost = True
        self._is_due.set()

    def renew_now(self) -> None:
        """Renew without waiting for when that is due."""
        self._is_due.set()

    @property
    def record(self) -> LeaseRecord:
        """The lease as it was written last."""
        return self._record

    def is_of(self, record: LeaseRecord) -> bool:
        """Whether the lease is held now, and `record` tells of it."""
        return self.lease.left_s > 0 and (record.holder, record.token) == self._whose()

    async def renew_until_lost(self) -> None:
        """Renew for as long as nobody else has claimed the lease, and it is not given up."""
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
        # Only these: what the services are may have changed meanwhile.
        self._record = replace(self._record, renewals=record.renewals, keys_until_ms=until_ms)
        self._version = stat.version
        self.lease.renewed(sent_s, until_ms, suspensions)

    async def _look(self) -> None:
        """Find out whether the lease is another's, or a renewal was accepted without an answer."""
        found = await self._store.get(self._path)
        own = None if found is None else lease_codec.decode(found.value)
        if found is None or own is None or (own.holder, own.token) != self._whose():
            self._is_lost = True
        else:
            self._record = replace(self._record, renewals=own.renewals)
            self._version = found.stat.version
        self._is_due.set()

    def _whose(self) -> tuple[int, int]:
        return self._record.holder, self._record.token

    async def end(self, renewing: "asyncio.Task[None]", *, releases: bool) -> None:
        """Renew no more, and give the lease back, if it is held; else it runs out."""
        self._is_over = True
        self._is_due.set()
        await asyncio.gather(renewing, return_exceptions=True)
        if self._is_lost or self.is_given_up or not releases:
            return
        # With the services closed no more keys are given, so the next ones may begin here.
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
