"""One group in memory, and the takes that wait for it. Used from the event loop's thread alone."""

import asyncio
from collections import deque
from typing import TYPE_CHECKING, Final

from tms.core.services.commits import CarryAgain
from tms.core.values.groups import GroupMember, Take, Taken
from tms.core.values.subscriptions import SharedSubscription
from tms.messaging.groups.ahead import ReadAhead
from tms.messaging.groups.commands import GroupCommands
from tms.messaging.groups.open_entries import Taker
from tms.messaging.groups.snapshots import Frozen
from tms.messaging.loaded_topics import TopicState
from tms.messaging.subscriptions import Positions

if TYPE_CHECKING:
    from tables.group_table import StoreGroupLog

_SEEN_MAX: Final = 1_000


class GroupLeftMemory(CarryAgain):
    """The object of a group is no longer current: look the group up again. Nothing has changed.

    It leaves this package only through commits that carry acks.
    """


class WaitingTake:
    """A take that waits for messages."""

    def __init__(self, taker: Taker, take: Take) -> None:
        self.taker = taker
        self.take = take
        self.is_gone = False
        """Whether its caller no longer waits."""
        self.served: asyncio.Future[Taken | None] = asyncio.get_running_loop().create_future()
        """The answer; None if the group was dropped and must be looked up again."""
        self.short = Taken()
        """The answer after a timeout."""


class LoadedGroup:
    """A group in memory, and the takes that wait for it.

    The object is for one life of the group, from its creation to its deletion. Once the deletion is
    in a flush, `check_current` refuses. So nothing changes a group that is being deleted, and a
    later group of the same name is not mistaken for it.
    """

    def __init__(
        self,
        state: TopicState,
        positions: Positions,
        shared: SharedSubscription,
        commands: GroupCommands,
        log: "StoreGroupLog",
    ) -> None:
        """Represent the group whose row in `positions` was `shared` when it was read."""
        self.state = state
        self._positions = positions
        self.name = shared.name
        self.created = shared.created
        self.commands = commands
        self.log = log
        self.in_use = 0
        self.used_s = 0.0
        self.waiting: deque[WaitingTake] = deque()
        self.ahead = ReadAhead()
        self.reading = asyncio.Lock()
        """Held while the next messages of the topic are read."""
        self.attendant: asyncio.Task[None] | None = None
        """Serves the waiting takes."""
        self.bell: asyncio.Future[None] | None = None
        self.is_dropped = False
        self.ending: asyncio.Future[None] | None = None
        """Done after the flush that deletes the group; None if it is not being deleted."""
        self.timer: asyncio.TimerHandle | None = None
        self.timer_ms = 0
        self.burying: asyncio.Task[None] | None = None
        """The task that writes dead letters."""
        self.burial_timer: asyncio.TimerHandle | None = None
        self.burial_error = ""
        """Why the last dead letters could not be written; empty if they could."""
        self.rows = 0
        """Rows since the last snapshot; `row_bytes` is their size."""
        self.row_bytes = 0
        self.snapshot_bytes = 0
        self.frozen: tuple[int, Frozen] | None = None
        """A snapshot to write once the flush is durable, with its number."""
        self.snapshotting: asyncio.Task[None] | None = None
        self.is_kept_still = False
        """Whether no snapshot may start, because the group is about to be deleted."""
        self.seen: dict[Taker, GroupMember] = {}
        self.repeatable: dict[tuple[Taker, int], asyncio.Future[None]] = {}
        """The running takes that have a sequence; each is done when a repeated one may continue."""

    @property
    def shared(self) -> SharedSubscription:
        """Its durable row. Raises `GroupLeftMemory` if that row is of another life."""
        row = self._positions.durable.get(self.name)
        if not isinstance(row, SharedSubscription) or row.created != self.created:
            raise GroupLeftMemory
        return row

    def check_current(self) -> None:
        """Raise `GroupLeftMemory` or `TopicNotFound` if it is no longer current."""
        if self.is_dropped or self.ending is not None or self.state.stale:
            raise GroupLeftMemory
        self.state.check_current()

    def ring(self) -> None:
        """Wake the waiting takes, so that they check again."""
        if self.bell is not None and not self.bell.done():
            self.bell.set_result(None)

    def saw(self, taker: Taker, now_ms: int) -> None:
        """Record a request of a member."""
        before = self.seen.pop(taker, None)
        since_ms = now_ms if before is None else before.since_ms
        self.seen[taker] = GroupMember(taker.name, taker.principal, 0, since_ms, now_ms)
        while len(self.seen) > _SEEN_MAX:
            del self.seen[next(iter(self.seen))]
