"""One server's part in a lease: it follows, claims the lease when that is free, and leads.

1. At any time at most one server has its services open, or may still write: see `lease.py`.
2. A server that cannot renew in time, by its own clock, or whose session was lost, stops leading at
   that moment. If nobody claims the lease in the meantime, it continues once a renewal succeeds. If
   somebody does, or the store shows a later leader, it closes its services and follows again.
3. A server that stops closes its services first, and then releases the lease, so that the next one
   need not wait.
4. A server that does not reach the store neither claims the lease nor keeps it while another one
   reaches the store: see `reach.py`.
5. If all servers stop, the last one frees the store: see `departure.py`.

A store has one lease, or one for each of its shards (`shard_members.py`), each independent.
"""

import asyncio
import logging
import random
from collections.abc import Callable, Sequence
from contextlib import AbstractAsyncContextManager, suppress
from dataclasses import replace

from tms.cluster.departure import Free, free_if_last
from tms.cluster.holding import LEASE, Holding, lease_codec, unless
from tms.cluster.instances import instances_of, is_last
from tms.cluster.lease import RENEWALS, Lease, LeaseRecord, Sighting, ceiling_ms
from tms.cluster.presence import Presence
from tms.core.errors import BadVersion, TmsError, ValueUnreadable
from tms.core.runtime.rare_log import RareLog
from tms.core.runtime.supervision import supervised
from tms.core.services.cluster import ClusterState, Role
from tms.core.services.findings import Finding
from tms.metadata.interface import NEW, Notification, SessionEvent, Value
from tms.metadata.patience import once_reached

RETRY_S = 1.0
_LOOK_LATER_S = 0.01
"""The delay after the end of a lease until it is read."""

Lead = Callable[[Lease], AbstractAsyncContextManager[object]]
"""Opens the services under a lease, and closes them; raises `TmsError` if they cannot be opened."""
OnLeader = Callable[[str | None, str], None]
"""Called with the address of the serving leader and its boot; None if there is none."""
MayClaim = Callable[[float], bool]
"""Returns whether this server may claim a lease that has been free for a number of seconds."""

_log = logging.getLogger(__name__)


class Member:
    """One server's part in one lease. Used from the event loop of its metadata store."""

    def __init__(
        self,
        presence: Presence,
        *,
        of_store: str,
        fence_s: float = 0.0,
        path: str = LEASE,
        may_claim: MayClaim | None = None,
        free: Free | None = None,
    ) -> None:
        """Take part as the server of `presence`, from `open` on.

        `of_store` names the store that the cluster shares. The lease is at `path`; without
        `may_claim` it is claimed as soon as it is free.
        """
        self._presence = presence
        self._time, self._clock = presence.time, presence.clock
        self._store = presence.store
        self._path = path
        self._may_claim: MayClaim = may_claim or _always
        self._free = free
        self._open_services: Lead | None = None
        instance = presence.instance
        self._own = LeaseRecord(
            token=0,
            holder=instance.id,
            address=instance.address,
            boot=instance.boot,
            store=of_store,
            lease_s=presence.lease_s,
            fence_s=fence_s,
        )
        self.role = Role.STANDBY
        self.failure: TmsError | None = None
        """The error that ended this server's latest turn; None if none did, or it leads again."""
        self._pauses: dict[type[TmsError], RareLog] = {}
        self._holding: Holding | None = None
        """The lease, while this server has it."""
        self._last: LeaseRecord | None = None
        """The lease as last read, of this or another server, even if it was deleted since."""
        self._sighting = Sighting(self._clock)
        self._free_from_s: float | None = None
        """Since when the lease is known to be free; None if it is not."""
        self.expired: LeaseRecord | None = None
        """The latest lease that was seen to expire without being released."""
        self.followed_token = 0
        """The latest token under which another server was seen serving."""
        self._failed_token = 0
        """The token of the latest turn, if an error has ended it; 0 if none has."""
        self._greatest_token = 0
        """The greatest token that the store has seen, if there is no lease to show it."""
        self._news = asyncio.Event()
        presence.watch.on_reached.append(self._news.set)
        self._stopping = asyncio.Event()
        self._turn_ends = asyncio.Event()
        """Set when this server should stop leading, to stop or to step down."""
        self._running: asyncio.Task[None] | None = None
        observing = self._store.observe(self._hear, path)
        self._stops = [observing, self._store.observe_session(self._happen)]
        self._on_leader: OnLeader = _nobody

    async def open(self, lead: Lead, on_leader: OnLeader) -> None:
        """Register and take part: lead by `lead`, and report the leader to `on_leader`.

        Raises as `Presence.enter` does, and `ValueError` for the cluster of another store.
        """
        self._open_services, self._on_leader = lead, on_leader
        read = await once_reached(self._read)
        if read is not None and read[0].store != self._own.store:
            raise ValueError(
                f"the cluster is on the store {read[0].store!r}, not on {self._own.store!r}: give "
                "each store a metadata path of its own"
            )
        await self._presence.enter()
        name = "taking part in the cluster"
        self._running = supervised(name, self._run, until=self._stopping)

    @property
    def failed_token(self) -> int:
        """The token of the latest turn, if an error has ended it; 0 if none has."""
        return self._failed_token

    @property
    def has_failed_last(self) -> bool:
        """Whether this server could not lead, and no other was seen serving since."""
        return self._failed_token > self.followed_token

    async def state(self) -> ClusterState:
        """Return the state of the cluster at one moment. Raises `Unavailable`.

        It says that this server leads only if the lease read is its own, and is held now.
        """
        instances = await instances_of(self._store)
        read = await self._read()
        record = None if read is None or read[0].is_released else read[0]
        holding = self._holding
        is_held = record is not None and holding is not None and holding.is_of(record)
        return ClusterState(
            id=self._own.holder,
            role=self.role if is_held else Role.STANDBY,
            leader=None if record is None else record.holder,
            token=None if record is None else record.token,
            instances=instances,
        )

    def findings(self) -> Sequence[Finding]:
        """Return findings about unreachable servers."""
        return self._presence.peers.findings()

    @property
    def seen(self) -> LeaseRecord | None:
        """The lease as this server last saw it; None if nobody holds it."""
        if self._holding is not None:
            return self._holding.record
        record = self._last
        return None if record is None or self._free_from_s is not None else record

    @property
    def is_stepping_down(self) -> bool:
        """Whether this server has the lease, and is about to release it."""
        return self._holding is not None and self._turn_ends.is_set()

    def step_down(self) -> None:
        """Release the lease once the services are closed, and follow; do nothing if it is not held.

        `may_claim` decides whether this server claims it again.
        """
        if self._holding is not None:
            self._turn_ends.set()

    def look_now(self) -> None:
        """Read the lease soon, because something else has changed."""
        self._news.set()

    async def close(self) -> None:
        """Stop leading, release the lease, and stop taking part."""
        self._stopping.set()
        await self._presence.retire()
        self._turn_ends.set()
        self._news.set()
        if self._running is not None:
            await asyncio.gather(self._running, return_exceptions=True)
            if self._free is not None:
                await free_if_last(self._store, self._own, self._record, self._free)
        for stop in self._stops:
            stop()
        await self._presence.leave()

    def _hear(self, _: Notification) -> None:
        self._news.set()

    def _happen(self, event: SessionEvent) -> None:
        """Receive an event of the session with the metadata store."""
        if event is SessionEvent.SESSION_LOST and self._holding is not None:
            self._holding.lease.suspend()
        if event in (SessionEvent.CONNECTION_LOST, SessionEvent.SESSION_LOST):
            self._sighting.restart()
        else:
            self._news.set()
            if self._holding is not None:
                self._holding.renew_now()

    async def _read(self) -> tuple[LeaseRecord, Value] | None:
        value = await self._store.get(self._path)
        if value is None:
            return None
        try:
            return lease_codec.decode(value.value), value
        except ValueError as error:
            raise ValueUnreadable(path=self._path, reason=str(error)) from error

    async def _record(self) -> LeaseRecord | None:
        read = await self._read()
        return None if read is None else read[0]

    async def _run(self) -> None:
        while not self._stopping.is_set():
            try:
                claimed = await self._follow()
                if claimed is not None:
                    await self._hold(*claimed)
            except TmsError as error:
                pauses = RareLog(
                    _log, f"pauses in the cluster of {self._own.store}", logging.WARNING
                )
                self._pauses.setdefault(type(error), pauses).add(error)
                self._greatest_token = max(self._greatest_token, error.detail.get("later_token", 0))
                self._tell(None)
                await self._pause(RETRY_S * random.uniform(0.5, 1.5))  # noqa: S311  no secret

    async def _follow(self) -> tuple[LeaseRecord, int, Lease, float] | None:
        """Return a claimed lease, with its version and how long to wait; None to stop."""
        while not self._stopping.is_set():
            self._news.clear()
            read = await self._read()
            version = NEW
            seen = None
            if read is not None:
                self._last, version = read[0], read[1].stat.version
                seen = read[1].stat.created_revision, version
            record = self._last
            if record is not None:
                self._sighting.see(seen, record.lease_s)
            if record is None or self._sighting.has_expired(record):
                self._tell(None)
                if record is not None and not record.is_released:
                    self.expired = record
                if self._may_claim(self._free_for_s()) and await self._presence.watch.may_claim():
                    claimed = await self._claim(record, version)
                    if claimed is not None:
                        return claimed
                    continue
                left_s = self._own.lease_s
            else:
                self._free_from_s = None
                if record.is_serving and record.holder != self._own.holder:
                    self.followed_token = record.token
                self._tell(record)
                left_s = self._sighting.left_s(record)
            lasts_s = self._own.lease_s if record is None else record.lease_s
            await self._pause(min(lasts_s / RENEWALS, left_s + _LOOK_LATER_S))
        return None

    def _free_for_s(self) -> float:
        now_s = self._clock.now_s()
        self._free_from_s = now_s if self._free_from_s is None else self._free_from_s
        return now_s - self._free_from_s

    async def _claim(
        self, old: LeaseRecord | None, version: int
    ) -> tuple[LeaseRecord, int, Lease, float] | None:
        token = max(0 if old is None else old.token, self._greatest_token) + 1
        wait_s = self._sighting.claim_wait_s(old)
        self._sighting.set_time(self._time, old)
        # Until this server serves, its successor must also wait for the leader before it.
        after_ms = 0 if old is None else old.keys_until_ms
        until_ms = ceiling_ms(max(self._time.now_ms(), after_ms + 1), self._own.lease_s)
        record = replace(
            self._own,
            token=token,
            fence_s=max(self._own.fence_s, wait_s),
            keys_until_ms=until_ms,
            keys_after_ms=after_ms,
            time_ms=self._time.now_ms(),
        )
        sent_s = self._clock.now_s()
        try:
            stat = await self._store.put(self._path, lease_codec.encode(record), version)
        except BadVersion:
            return None  # another server was faster, or the leader is back
        ceilings = {"keys_after_ms": after_ms, "keys_until_ms": until_ms}
        lease = Lease(token, record.lease_s, self._clock, sent_s, **ceilings)
        _log.info("taking over %s, with token %d", self._own.store, token)
        return record, stat.version, lease, wait_s

    async def _hold(self, record: LeaseRecord, version: int, lease: Lease, wait_s: float) -> None:
        """Lead until the lease is lost, the services fail to open, or this server stops."""
        self.role, self._free_from_s = Role.TAKING_OVER, None
        self._turn_ends.clear()
        if self._stopping.is_set():
            self._turn_ends.set()
        holding = Holding(
            self._store,
            self._path,
            record,
            version,
            lease,
            clock=self._clock,
            time=self._time,
            is_better_elsewhere=self._presence.watch.is_better_elsewhere,
        )
        self._holding = holding
        leading = asyncio.create_task(self._lead(holding, wait_s))
        renewing = supervised("renewing the lease", holding.renew_until_lost)
        ending = asyncio.create_task(self._turn_ends.wait())
        try:
            await asyncio.wait({leading, renewing, ending}, return_when=asyncio.FIRST_COMPLETED)
            if renewing.done():
                reason = "does not reach the store, and gives up the lease to a server that does"
                if not holding.is_given_up:
                    reason = "no longer leads, because another server has claimed the lease"
                    self._presence.registration.renew(self._time.now_ms())
                _log.error("this server %s; it closes %s", reason, self._own.store)
                lease.end()
            self._tell(None)
            lease.is_last = await is_last(self._store, self._own.holder, RETRY_S)
            holding.may_end.set()
            await self._forward_until(leading)
        finally:
            ending.cancel()
            holding.may_end.set()
            self.role, self._holding = Role.STANDBY, None
            self._free_from_s = self._clock.now_s()
        # Renewed until here: the services are closed. If they failed, they may still have calls in
        # progress; if they were never open, the previous leader may. Then the lease expires, and
        # the next leader waits.
        lease.end()
        error = leading.exception()
        if error is not None:
            self._failed_token = record.token
            self.failure = error if isinstance(error, TmsError) else None
        has_led = error is None and leading.result()
        await holding.end(renewing, releases=has_led)
        self._last = holding.record
        leading.result()

    async def _lead(self, holding: Holding, wait_s: float) -> bool:
        """Lead until that may end; return whether it was ended before the services opened."""
        if wait_s:
            _log.warning("waiting %.1f s, until no write of the last leader can arrive", wait_s)
            await unless(holding.may_end, asyncio.sleep(wait_s))
        if holding.may_end.is_set():
            return False
        assert self._open_services is not None, "open the member before it leads"
        async with self._open_services(holding.lease):
            self.role, self.failure, self._failed_token = Role.LEADER, None, 0
            holding.serve(self._own.fence_s)
            _log.info("this server leads %s, with token %d", self._own.store, holding.lease.token)
            await holding.may_end.wait()
        return True

    async def _forward_until(self, closed: "asyncio.Task[bool]") -> None:
        """Return when the services are closed, which may take long; report leaders until then."""
        while not closed.done():
            with suppress(TmsError):
                read = await self._read()
                record = None if read is None else read[0]
                is_own = record is None or record.holder == self._own.holder
                self._tell(None if is_own else record)
            await asyncio.wait({closed}, timeout=self._own.lease_s / RENEWALS)

    def _tell(self, record: LeaseRecord | None) -> None:
        if record is not None and record.is_serving:
            self._on_leader(record.address, record.boot)
        else:
            self._on_leader(None, "")

    async def _pause(self, seconds: float) -> None:
        """Return after a time, or when the lease has changed."""
        await unless(self._news, asyncio.sleep(seconds))


def _always(_: float) -> bool:
    """Allow a claim at once."""
    return True


def _nobody(_: str | None, __: str) -> None:
    """Report to nobody."""
