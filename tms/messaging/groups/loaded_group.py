"""One group in memory, and the takes that wait for it. Used from the event loop's thread alone."""

import asyncio
from collections import deque
from typing import Final

from tms.core.errors import StoreUnavailable
from tms.core.group_log import GroupLog
from tms.core.groups import GroupMember, Take, Taken
from tms.core.subscriptions import SharedSubscription
from tms.messaging.groups.ahead import ReadAhead
from tms.messaging.groups.commands import GroupCommands, Taker
from tms.messaging.groups.snapshots import Frozen
from tms.messaging.loaded_topics import TopicState

_SEEN_MAX: Final = 1_000


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
    """A group in memory."""

    def __init__(
        self, state: TopicState, shared: SharedSubscription, commands: GroupCommands, log: GroupLog
    ) -> None:
        self.state = state
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
        self.timer: asyncio.TimerHandle | None = None
        self.timer_ms = 0
        self.rows = 0
        """Rows, and bytes, since the last snapshot."""
        self.row_bytes = 0
        self.snapshot_bytes = 0
        self.frozen: tuple[int, Frozen] | None = None
        """A snapshot to write once the flush is durable, and its number."""
        self.snapshotting: asyncio.Task[None] | None = None
        self.seen: dict[str, GroupMember] = {}

    def check_current(self) -> None:
        """Raise `StoreUnavailable`, `TopicNotFound` if it is not to be used any more."""
        self.state.check_current()
        if self.is_dropped:
            raise StoreUnavailable(reason="the group was loaded again in the meantime; try again")

    def ring(self) -> None:
        """Have those who wait look again."""
        if self.bell is not None and not self.bell.done():
            self.bell.set_result(None)

    def saw(self, taker: Taker, now_ms: int) -> None:
        """Take note that a member has asked."""
        before = self.seen.pop(taker.name, None)
        since_ms = now_ms if before is None else before.since_ms
        self.seen[taker.name] = GroupMember(taker.name, taker.principal, 0, since_ms, now_ms)
        while len(self.seen) > _SEEN_MAX:
            del self.seen[next(iter(self.seen))]
