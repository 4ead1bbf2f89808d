"""The lease by which one server leads, and the time that the others must wait.

The lease is one value of the metadata store, which the leader renews by compare-and-put. By the
leader's clock it lasts for `lease_s` from when the latest renewal was *sent*; by the others'
clocks, for the same time from when they *saw* it. So a server that has seen no renewal for that
time knows that the lease has also ended for the leader, even if the leader is paused. It claims the
lease by compare-and-put, and after that no renewal of the old leader succeeds.

If the metadata store is away, a server sees no renewal, and the leader cannot renew. Count only
time in which we could read the lease without a break. After a break the count starts again, and the
leader renews at once when the store is back.

The lease alone does not stop a paused leader from sending prepared writes, nor a leader whose clock
stood still with the machine from continuing. So late writes of leaders are hidden or refused
(`tables.sealing`), whenever they arrive; none is acknowledged once another leader has begun
(`tables.hbase.fence`); and the new leader begins at once. A lease may still make the next leader
wait (`fence_s`).

Keys of messages contain a time, and the lease has the greatest time that its holder may use, the
*ceiling* (`keys_until_ms`). It grows with each renewal, and never shrinks while the lease is held;
all keys of the next leader are above it. So the key of a row shows whether an earlier leader wrote
it, whenever it arrives: the store hides it (`tables.sealing.seal`).

Clocks must continue while a process is stopped or the machine sleeps; different machines' clocks
are never compared. If the metadata store says that a session is over, the clock may have stood
still: the lease is suspended until a renewal is accepted.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from threading import Lock
from typing import Protocol

from tms.core.errors import NoLeader, StoreUnavailable
from tms.core.limits import INT64_MAX, MS_PER_S
from tms.core.runtime.clock import Clock
from tms.core.runtime.trusted_clock import TrustedClock

DRIFT = 1.1
"""The factor by which the others wait longer: clocks may differ in speed."""
RENEWALS = 4
"""How often a lease is renewed or read, and the store checked, in the time of a lease."""
GAP = 0.5
"""The longest gap between two reads, as a fraction of a lease, for the time to count."""


class SteadySeconds:
    """A clock's steady time, which continues while the machine sleeps, in seconds."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock

    def now_s(self) -> float:
        """Return the time in seconds."""
        return self._clock.steady_ms() / MS_PER_S


class LeaseClock(Protocol):
    """The clock of a lease."""

    def now_s(self) -> float:
        """Return a time in seconds that never stops."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class LeaseRecord:
    """The lease in the metadata store, in JSON."""

    token: int
    """Grows by one with each claim."""
    holder: int
    """The instance that leads."""
    address: str
    """The holder's URL."""
    store: str
    """The shared store: all servers of a cluster must have the same one."""
    lease_s: float
    """How long it lasts from each renewal on."""
    fence_s: float
    """How long the next leader waits before it begins."""
    keys_until_ms: int = 0
    """The ceiling: no key of this or an earlier holder has a later millisecond since 1970. 0 from
    versions without ceilings.
    """
    keys_after_ms: int = INT64_MAX
    """The ceiling of the earlier leaders; above all times if it is unknown."""
    time_ms: int = 0
    """The trusted time of the holder at this renewal; 0 from versions without one."""
    renewals: int = 0
    is_serving: bool = False
    """False while it takes over."""
    boot: str = ""
    """Identifies the process among all with its address; empty if unknown."""
    is_released: bool = False
    """Whether the holder has released it, with no call in progress."""


class Lease:
    """A lease as its holder sees it. Any thread may use it."""

    def __init__(
        self,
        token: int,
        lease_s: float,
        clock: LeaseClock,
        sent_s: float,
        *,
        keys_after_ms: int = 0,
        keys_until_ms: int = 0,
    ) -> None:
        """Hold it under `token`; the claim was sent at `sent_s` by `clock`.

        Keys are assigned above the first ceiling, and not above the second.
        """
        self.token = token
        self.keys_after_ms = keys_after_ms
        self.keys_until_ms = keys_until_ms
        self.requested_ms = keys_after_ms + 1
        """The latest millisecond of keys that were assigned or requested."""
        self._lease_s = lease_s
        self._clock = clock
        self._until_s = sent_s + lease_s
        self._is_over = False
        self.suspensions = self._resumed = 0
        """The number of suspensions, and of those that a renewal has ended."""
        self.on_lost: list[Callable[[], object]] = []
        """Called in any thread when a write shows that a later leader has begun."""
        self._giving = Lock()
        """Each shard of a store has a thread that writes."""
        self.is_last = False
        """Whether, when this server stops, no other server of the cluster is registered."""

    def renewed(
        self, sent_s: float, keys_until_ms: int = 0, suspensions: int | None = None
    ) -> None:
        """Record that a renewal sent at `sent_s` was accepted, with that ceiling.

        `suspensions` is their number when it was sent, by default the present number.
        """
        self._until_s = sent_s + self._lease_s
        self.keys_until_ms = max(self.keys_until_ms, keys_until_ms)
        self._resumed = self.suspensions if suspensions is None else suspensions

    def suspend(self) -> None:
        """Suspend it until a renewal sent from now on is accepted.

        For when the metadata store shows that time has passed, whatever our clock says.
        """
        self.suspensions += 1

    def ceiling_ms(self, now_ms: int) -> int:
        """Return the ceiling for a renewal at `now_ms`, milliseconds since 1970."""
        return max(self.keys_until_ms, ceiling_ms(max(now_ms, self.requested_ms), self._lease_s))

    @property
    def last_given_ms(self) -> int:
        """No key of this or an earlier holder has a later millisecond."""
        return min(max(self.keys_after_ms, self.requested_ms), self.keys_until_ms)

    def give_keys(self, last_ms: int) -> None:
        """Record that keys up to this millisecond are used.

        Raises `StoreUnavailable` if that is above the ceiling, until a renewal raises it.
        """
        with self._giving:
            self.requested_ms = max(self.requested_ms, last_ms)
        if last_ms > self.keys_until_ms:
            raise StoreUnavailable(reason="no keys remain before the next renewal of the lease")

    def end(self) -> None:
        """Stop holding it, whatever the time."""
        self._is_over = True

    def lose(self) -> None:
        """Stop holding it: the store shows that a later leader has begun."""
        self._is_over = True
        for call in self.on_lost:
            call()

    @property
    def left_s(self) -> float:
        """The remaining time in seconds; 0 if it is over or suspended."""
        if self._is_over or self._resumed < self.suspensions:
            return 0.0
        return max(0.0, self._until_s - self._clock.now_s())

    def check(self) -> None:
        """Raise `NoLeader` unless it is held now."""
        if self.left_s <= 0:
            raise NoLeader(token=self.token)


def ceiling_ms(from_ms: int, lease_s: float) -> int:
    """Return the ceiling of keys for a lease renewed at `from_ms`."""
    return from_ms + int(lease_s * 1000) + 1


class Sighting:
    """Another server's view of the lease: the latest renewal that it saw, and when."""

    def __init__(self, clock: LeaseClock) -> None:
        self._clock = clock
        self._version: tuple[int, int] | None = None
        self._since_s = 0.0
        self._looked_s = -math.inf
        self._is_timed = False
        """Whether the latest renewal was seen when it was written."""

    def see(self, version: tuple[int, int] | None, lease_s: float) -> None:
        """Record what was just read of a lease that lasts `lease_s` seconds.

        `version` is the value's created revision and version; None if there is no value, which is
        not a renewal.
        """
        now_s = self._clock.now_s()
        is_renewed = version is not None and version != self._version
        is_gap = now_s - self._looked_s > lease_s * GAP
        if is_renewed or is_gap:
            self._since_s = now_s
            self._is_timed = not is_gap
        self._version = version or self._version
        self._looked_s = now_s

    def restart(self) -> None:
        """Record that the store was not reached, so earlier sightings no longer count."""
        self._looked_s = -math.inf

    def has_expired(self, record: LeaseRecord) -> bool:
        """Whether the lease last seen is over for its holder."""
        waited_s = self._clock.now_s() - self._since_s
        return record.is_released or waited_s > record.lease_s * DRIFT

    def left_s(self, record: LeaseRecord) -> float:
        """Return the seconds until the lease last seen expires."""
        waited_s = self._clock.now_s() - self._since_s
        return max(0.0, record.lease_s * DRIFT - waited_s)

    def set_time(self, time: Clock, record: LeaseRecord | None) -> None:
        """Let the claimant's time continue from that of the previous leader, if they differ.

        The time since then is known if its last renewal was seen when it was written; otherwise
        this is like a start after a stop.
        """
        if record is None or not record.time_ms or not isinstance(time, TrustedClock):
            return
        if self._is_timed:
            passed_ms = int((self._clock.now_s() - self._since_s) * MS_PER_S)
            time.go_on_from(record.time_ms + passed_ms)
        else:
            time.start_after(record.time_ms, "", 0)

    def claim_wait_s(self, record: LeaseRecord | None) -> float:
        """Return how long the claimant of an expired lease must wait before it begins."""
        return 0.0 if record is None or record.is_released else record.fence_s
