"""The lease by which one server leads, and the time that the others must wait.

The lease is one value of the metadata store, which the leader renews by compare-and-put. By its own
clock it lasts for `lease_s` from when the latest renewal was *sent*; by the others', for as long
from when they *saw* the latest. So a server that has seen no renewal for that long knows that the
lease has also ended for the leader, even if that is paused. It claims the lease by compare-and-put,
and after that no renewal of the old leader succeeds.

If the metadata store is away, a server sees no renewal, and the leader cannot renew. Count only
time in which we could read the lease without a break. After a break the count starts again, and the
leader renews at once when the store is back.

The lease alone does not stop a paused leader from sending what it had prepared, and not one whose
clock stood still with the machine from going on. So late writes of leaders are hidden or refused
(`tables.sealing`), whenever they come; none is acknowledged once another leader has begun
(`tables.hbase.fence`); and the new leader begins at once. A lease may still make the next leader
wait (`fence_s`).

Keys of messages have a time too, and the lease has the greatest time that its holder may use, the
*ceiling* (`keys_until_ms`). It grows with each renewal, and never shrinks while the lease is held;
the next leader's keys all begin above it. So the key of a row shows whether an earlier leader wrote
it, whenever it arrives: the store hides it (`tables.sealing.seal`).

Clocks go on while a process is stopped or the machine sleeps, and are compared with nobody's. If
the metadata store says that a session is over, the clock may have stood still: the lease is
suspended until a renewal is accepted.
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
"""How much longer the others wait: clocks may differ in how fast they go."""
RENEWALS = 4
"""How often a lease is renewed, or looked at, in the time that it lasts. The store is, too."""
GAP = 0.5
"""How long nobody may have looked at a lease, in parts of it, for the time to count."""


class SteadySeconds:
    """A clock's steady time, which goes on while the machine sleeps, in seconds."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock

    def now_s(self) -> float:
        """Return the time in seconds."""
        return self._clock.steady_ms() / MS_PER_S


class LeaseClock(Protocol):
    """The clock of a lease."""

    def now_s(self) -> float:
        """Return a time in seconds that never stands still."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class LeaseRecord:
    """The lease as the metadata store has it, in JSON."""

    token: int
    """One more with each claim."""
    holder: int
    """The instance that leads."""
    address: str
    """Its URL."""
    store: str
    """The store that the servers share: all servers of a cluster must have the same one."""
    lease_s: float
    """How long it lasts from each renewal on."""
    fence_s: float
    """How long the next leader waits before it begins."""
    keys_until_ms: int = 0
    """The ceiling: no key of this holder, or of one before, is of a later millisecond since 1970.
    0 where the holder is of a version that has none."""
    keys_after_ms: int = INT64_MAX
    """The ceiling of the leaders before this one; above all where that is not known."""
    time_ms: int = 0
    """The trusted time of the holder at this renewal; 0 where it is of a version that has none."""
    renewals: int = 0
    is_serving: bool = False
    """False while it takes over."""
    boot: str = ""
    """Which process it is, of all that have its address; empty if it does not say."""
    is_released: bool = False
    """Whether the holder has given it back, with nothing under way."""


class Lease:
    """A lease as its holder knows it. Any thread may ask."""

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

        Keys are given above the first ceiling, and not above the second.
        """
        self.token = token
        self.keys_after_ms = keys_after_ms
        self.keys_until_ms = keys_until_ms
        self.wanted_ms = keys_after_ms + 1
        """The latest millisecond of which keys were given, or were to be."""
        self._lease_s = lease_s
        self._clock = clock
        self._until_s = sent_s + lease_s
        self._is_over = False
        self.suspensions = self._resumed = 0
        """How often it was suspended, and how many of these a renewal has ended."""
        self.on_lost: list[Callable[[], object]] = []
        """Called in any thread when a write shows that a later leader has begun."""
        self._giving = Lock()
        """Each shard of a store has a thread that writes."""
        self.is_last = False
        """Whether no other server of the cluster is registered any more, as this one stops."""

    def renewed(
        self, sent_s: float, keys_until_ms: int = 0, suspensions: int | None = None
    ) -> None:
        """Record that a renewal sent at `sent_s` was accepted, with that ceiling.

        `suspensions` is how many there were when it was sent; None: all that there are now.
        """
        self._until_s = sent_s + self._lease_s
        self.keys_until_ms = max(self.keys_until_ms, keys_until_ms)
        self._resumed = self.suspensions if suspensions is None else suspensions

    def suspend(self) -> None:
        """Do nothing under it until a renewal that is sent from now on is accepted.

        For when the metadata store says that time has passed, whatever the own clock says.
        """
        self.suspensions += 1

    def ceiling_ms(self, now_ms: int) -> int:
        """Return the ceiling that a renewal at `now_ms`, milliseconds since 1970, asks for."""
        return max(self.keys_until_ms, ceiling_ms(max(now_ms, self.wanted_ms), self._lease_s))

    @property
    def last_given_ms(self) -> int:
        """No key of this holder, or of one before, is of a later millisecond."""
        return min(max(self.keys_after_ms, self.wanted_ms), self.keys_until_ms)

    def give_keys(self, last_ms: int) -> None:
        """Take note that keys up to this millisecond are written.

        Raises `StoreUnavailable` where that is above the ceiling, until a renewal has moved it.
        """
        with self._giving:
            self.wanted_ms = max(self.wanted_ms, last_ms)
        if last_ms > self.keys_until_ms:
            raise StoreUnavailable(reason="no keys are left before the next renewal of the lease")

    def end(self) -> None:
        """Hold it no more, whatever the time."""
        self._is_over = True

    def lose(self) -> None:
        """Hold it no more: the store shows that a later leader has begun."""
        self._is_over = True
        for call in self.on_lost:
            call()

    @property
    def left_s(self) -> float:
        """How much is left of it, in seconds; nothing while it is over, or suspended."""
        if self._is_over or self._resumed < self.suspensions:
            return 0.0
        return max(0.0, self._until_s - self._clock.now_s())

    def check(self) -> None:
        """Raise `NoLeader` unless it is held now."""
        if self.left_s <= 0:
            raise NoLeader(token=self.token)


def ceiling_ms(from_ms: int, lease_s: float) -> int:
    """Return the ceiling of keys until a lease that is renewed at `from_ms` is over."""
    return from_ms + int(lease_s * 1000) + 1


class Sighting:
    """A sighting of the lease by another server: the renewal that it saw, and since when."""

    def __init__(self, clock: LeaseClock) -> None:
        self._clock = clock
        self._version: tuple[int, int] | None = None
        self._since_s = 0.0
        self._looked_s = -math.inf
        self._is_timed = False
        """Whether the latest renewal was seen as it came."""

    def see(self, version: tuple[int, int] | None, lease_s: float) -> None:
        """Take note of what was just read of a lease that lasts so many seconds.

        `version` is the revision in which the value was created, and its version since; None where
        there is none, which is no renewal.
        """
        now_s = self._clock.now_s()
        is_renewed = version is not None and version != self._version
        is_gap = now_s - self._looked_s > lease_s * GAP
        if is_renewed or is_gap:
            self._since_s = now_s
            self._is_timed = not is_gap
        self._version = version or self._version
        self._looked_s = now_s

    def begin_anew(self) -> None:
        """Take note that the store was not reached: what was seen before says nothing any more."""
        self._looked_s = -math.inf

    def has_run_out(self, record: LeaseRecord) -> bool:
        """Whether the lease that was seen last is over for its holder."""
        waited_s = self._clock.now_s() - self._since_s
        return record.is_released or waited_s > record.lease_s * DRIFT

    def left_s(self, record: LeaseRecord) -> float:
        """Return how long until the lease that was seen last has run out, in seconds."""
        waited_s = self._clock.now_s() - self._since_s
        return max(0.0, record.lease_s * DRIFT - waited_s)

    def set_time(self, time: Clock, record: LeaseRecord | None) -> None:
        """Have the time of whoever claims go on from that of the leader before, if they differ.

        How long ago that was is known if its last renewal was seen as it came; otherwise this is as
        a start after a stop.
        """
        if record is None or not record.time_ms or not isinstance(time, TrustedClock):
            return
        if self._is_timed:
            passed_ms = int((self._clock.now_s() - self._since_s) * MS_PER_S)
            time.go_on_from(record.time_ms + passed_ms)
        else:
            time.start_after(record.time_ms, "", 0)

    def claim_wait_s(self, record: LeaseRecord | None) -> float:
        """Return how long whoever claims a lease that has run out must wait before it begins."""
        return 0.0 if record is None or record.is_released else record.fence_s
