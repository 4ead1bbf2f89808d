"""One group in memory, and the takes that wait for it.

It is one life of a group: `check_current` refuses it once a deletion of it is in a flush, so that
nothing is done to a group that ends, and none that was made again under its name is taken for it.
Used from the event loop's thread alone.
"""

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
    """The group is not to be used any more: look for it again. Nothing has changed.

    It never leaves this package, except to those that carry acks with a commit.
    """


class WaitingTake:
    """A take that waits for messages."""

    def __init__(self, taker: Taker, take: Take) -> None:
        self.taker = taker
        self.take = take
        self.is_gone = False
        """Whether nobody waits for it any more."""
        self.served: asyncio.Future[Taken | None] = asyncio.get_running_loop().create_future()
        """None: look again, the group was read anew."""
        self.short = Taken()
        """The answer if its time is over."""


class LoadedGroup:
    """A group in memory, and the takes that wait for it.

    It is one life of a group: `check_current` refuses it once a deletion of it is in a flush, so
    that nothing is done to a group that ends, and none that was made again under its name is taken
    for it.
    """

    def __init__(
        self,
        state: TopicState,
        positions: Positions,
        shared: SharedSubscription,
        commands: GroupCommands,
        log: "StoreGroupLog",
    ) -> None:
        """Be the group whose row in `positions` was `shared` when it was read."""
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
        """Held by who reads on."""
        self.attendant: asyncio.Task[None] | None = None
        """Serves the takes that wait."""
        self.bell: asyncio.Future[None] | None = None
        self.is_dropped = False
        self.ending: asyncio.Future[None] | None = None
        """Done when the flush is over that deletes the group; None: none does."""
        self.timer: asyncio.TimerHandle | None = None
        self.timer_ms = 0
        self.burying: asyncio.Task[None] | None = None
        """Writes dead letters."""
        self.burial_timer: asyncio.TimerHandle | None = None
        self.burial_error = ""
        """Why dead letters cannot be written now; empty if they can."""
        self.rows = 0
        """Rows, and bytes, since the last snapshot."""
        self.row_bytes = 0
        self.snapshot_bytes = 0
        self.frozen: tuple[int, Frozen] | None = None
        """A snapshot to write once the flush is durable, and its number."""
        self.snapshotting: asyncio.Task[None] | None = None
        self.is_kept_still = False
        """Whether no snapshot may be begun, because it is about to be deleted."""
        self.seen: dict[Taker, GroupMember] = {}
        self.repeatable: dict[tuple[Taker, int], asyncio.Future[None]] = {}
        """The takes under way that have a sequence, each done when the next one may go on."""

    @property
    def shared(self) -> SharedSubscription:
        """Its durable row. Raises `GroupLeftMemory` where that is of another life."""
        row = self._positions.durable.get(self.name)
        if not isinstance(row, SharedSubscription) or row.created != self.created:
            raise GroupLeftMemory
        return row

    def check_current(self) -> None:
        """Raise `GroupLeftMemory`, `TopicNotFound` if it is not to be used any more."""
        if self.is_dropped or self.ending is not None or self.state.stale:
            raise GroupLeftMemory
        self.state.check_current()

    def ring(self) -> None:
        """Have those who wait look again."""
        if self.bell is not None and not self.bell.done():
            self.bell.set_result(None)

    def saw(self, taker: Taker, now_ms: int) -> None:
        """Take note that a member has asked."""
        before = self.seen.pop(taker, None)
        since_ms = now_ms if before is None else before.since_ms
        self.seen[taker] = GroupMember(taker.name, taker.principal, 0, since_ms, now_ms)
        while len(self.seen) > _SEEN_MAX:
            del self.seen[next(iter(self.seen))]
