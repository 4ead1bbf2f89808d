"""Successive leaders on simulated rows, and their calls that arrive late."""

from dataclasses import dataclass, field
from enum import Enum
from typing import Any

from prometheus_client import CollectorRegistry

from tables.hbase.store import HBaseStore
from tables.sealing.seal import seal_of, topic_row
from tables.sealing.store import SealedStore
from tables.sealing.tables import SealedTables
from tables.store import METADATA
from tests.manual_clock import ManualClock
from tests.simulation.gateway import PLACE, Call, Rows, SimulatedGateway
from tms.cluster.lease import Lease, ceiling_ms
from tms.core.limits import Limits
from tms.core.runtime.trusted_clock import trusted
from tms.core.services.messaging import RollbackRange
from tms.core.values.subscriptions import SubscriptionPosition
from tms.core.values.topic import TopicId
from tms.server.node import OpenServices, services_on

LEASE_S = 1.0


class Steady:
    """The steady clock that a lease is measured by, which does not matter here."""

    def now_s(self) -> float:
        return 0.0


class Leader:
    """The services of one term of leadership; nothing waits for its late calls."""

    def __init__(self, rows: Rows, before: "Leader | None", now_ms: int) -> None:
        self.clock = ManualClock(1)
        self.clock.set(max(1, now_ms))  # the machine has been up for a long time
        self.time = trusted(self.clock, Limits())
        if before is not None:
            self.time.go_on_from(before.time.now_ms())
        last: Lease | None = None if before is None else before.lease
        after_ms = 0 if last is None else last.keys_until_ms
        self.lease: Lease = lease_after(last, after_ms, self.clock.now_ms())
        self.gateway = SimulatedGateway(rows, self.lease.check)
        self.is_open = False

    async def open(self) -> None:
        self.services: OpenServices = await services_on(
            taken_over(self.gateway, self.lease),
            Limits(),
            self.time,
            CollectorRegistry(),
            lease=self.lease,
        )
        self.is_open = True

    async def end(self) -> None:
        """Stop leading; the calls in flight arrive at any time."""
        self.lease.end()
        self.is_open = False
        await self.services.close()


def lease_after(last: Lease | None, after_ms: int, now_ms: int) -> Lease:
    """Return the lease that follows another one, with keys above `after_ms`."""
    until_ms = ceiling_ms(max(now_ms, after_ms + 1), LEASE_S)
    token = 1 if last is None else last.token + 1
    return Lease(token, LEASE_S, Steady(), 0.0, keys_after_ms=after_ms, keys_until_ms=until_ms)


def taken_over(gateway: SimulatedGateway, lease: Lease) -> SealedTables:
    """Return the tables behind a gateway for the holder of a lease."""
    store = HBaseStore(PLACE, gateway)
    store.take_over(_do_not_wait, token=lease.token, on_fenced=lease.lose)
    return SealedTables(SealedStore(store, lease))


def _do_not_wait(_: float) -> None:
    """Do not wait for the calls of earlier leaders: they may arrive at any time."""


def is_refused_by_seals(call: Call, rows: Rows, token: int) -> bool:
    """Whether a call changes a topic that the leader of a token has sealed."""
    table, row = call.arguments[:2]
    if call.name != "checkAndPut" or table != PLACE.name_of(METADATA):
        return False
    cell = rows.tables[table].get(row)
    return cell is not None and seal_of(cell.value).token == token


def changes_a_topic(call: Call) -> bool:
    """Whether a call changes more of a topic than its seal."""
    if call.name != "checkAndPut" or call.arguments[0] != PLACE.name_of(METADATA):
        return False
    expected, mutation = call.arguments[3:5]
    return topic_row(expected or b"") != topic_row(mutation.value)


class End(Enum):
    """The outcome of a transaction."""

    OPEN = "open"
    COMMITTED = "committed"
    UNDONE = "undone"
    """Aborted or invalid: no committed reader ever gets any of its messages."""
    UNKNOWN = "unknown"
    UNDOING = "undoing"
    """Like UNDONE, but perhaps still in progress."""


NOT_COMMITTED = (End.OPEN, End.UNKNOWN, End.UNDOING, End.UNDONE)


@dataclass(eq=False)
class Work:
    """A transaction and its requests."""

    number: int
    transaction_id: int
    end: End = End.OPEN
    published: list[tuple[TopicId, RollbackRange]] = field(default_factory=list)
    certain: dict[TopicId, list[bytes]] = field(default_factory=dict)
    """The acknowledged publications, in order."""
    stored: dict[TopicId, list[bytes]] = field(default_factory=dict)
    """The acknowledged stored messages, which its commit publishes after the others."""
    is_in_doubt: bool = False
    """Whether one of its calls got no answer; the transaction is then given up."""


ANY = object()
"""A position at the start, with any version."""


class PositionModel:
    """Where a position may be: one place, or several after a call without an answer."""

    def __init__(self) -> None:
        self.places: list[Any] = [None]
        self._in_doubt_of: Leader | None = None
        """The leader whose call got no answer: it may be carried out until another one leads."""
        self.mover: Work | None = None
        """The transaction that moves it to the last of the places."""

    def is_open_under(self, leader: Leader) -> bool:
        """Whether a call or a transaction of this leader may still decide where it is."""
        return self.mover is not None or self._in_doubt_of is leader

    def put(self, place: Any, leader: Leader, *, done: bool) -> None:
        """Record a call that puts the position there."""
        if done and self._in_doubt_of is not leader:
            self.places = [place]
        else:
            self.places.append(place)
            self._in_doubt_of = leader
        self.mover = None

    def see(self, found: SubscriptionPosition | None, leader: Leader) -> None:
        """Check where it was found; if no call can move it any more, it stays there."""
        is_new = ANY in self.places and found is not None and found.after is None
        assert is_new or found in self.places, "a position is where nobody put it"
        if self._in_doubt_of is not leader:
            if self.mover is not None:
                is_moved = found == self.places[-1]
                assert self.mover.end in ((End.COMMITTED,) if is_moved else NOT_COMMITTED)
                self.mover = None
            self.places = [found]
