"""Elects one leader among several members: the first that creates the path's value.

A member is FOLLOWING while another member leads, LEADING while it leads itself, NO_LEADER before
and after. A leader that loses its session stops leading at that moment, before the store lets
others lead, and is a candidate again when there is a session. `listener` is called with each new
state.
"""

import asyncio
import logging
from collections.abc import Callable
from enum import Enum

from tms.coordination.taking import give_back, take
from tms.core.errors import LockBusy, MetadataClosed, RequestError
from tms.metadata.following import Following, is_back
from tms.metadata.interface import Change, MetadataStore, Notification, SessionEvent

_log = logging.getLogger(__name__)


class LeaderState(Enum):
    """The state of a member of an election."""

    NO_LEADER = "no leader"
    LEADING = "leading"
    FOLLOWING = "following"


Listener = Callable[[LeaderState], None]


class LeaderElection:
    """One member of the election at a path. `CoordinationService.election` returns it."""

    def __init__(self, store: MetadataStore, path: str, listener: Listener | None = None) -> None:
        """Do not take part until `elect`."""
        self._store = store
        self._path = path
        self._listener = listener
        self._state = LeaderState.NO_LEADER
        self._reported = LeaderState.NO_LEADER
        self._token: int | None = None
        self._content = b""
        self._steal = True
        self._session_is_lost = False
        self._is_decided = asyncio.Event()
        self._leading = asyncio.Event()
        self._turn = asyncio.Lock()
        """Held during a start or an end, so that an end does not release a later start's lock."""
        self._refusal: RequestError | None = None
        self._following: Following | None = None

    @property
    def is_member(self) -> bool:
        """Whether this member takes part."""
        return self._following is not None

    @property
    def state(self) -> LeaderState:
        """The state now."""
        return self._state

    @property
    def token(self) -> int | None:
        """The fencing token of this leadership, None if this member does not lead."""
        return self._token if self._state is LeaderState.LEADING else None

    async def elect(self, content: bytes) -> LeaderState:
        """Be a candidate from now on; return LEADING or FOLLOWING once that is decided.

        If this member is already a candidate, its content stays. Raises `MetadataClosed` if it is
        closed in the meantime, and the store's errors for a path or content that it refuses.
        """
        async with self._turn:
            if self._following is None:
                self._start(content)
        while self._state is LeaderState.NO_LEADER:
            await self._unless_closed(self._is_decided)
        return self._state

    def _start(self, content: bytes) -> None:
        self._content = content
        self._steal = True
        self._refusal = None
        self._session_is_lost = False
        self._following = Following(
            self._store,
            self._path,
            f"taking part in the election at {self._path}",
            self._take,
            hear=self._hear,
            happen=self._happen,
        )
        self._following.wake()
        self._following.start()

    async def wait_until_leading(self) -> int:
        """Return the fencing token when this member leads. Raises `MetadataClosed`."""
        while (token := self.token) is None:
            await self._unless_closed(self._leading)
        return token

    async def leader_content(self) -> bytes | None:
        """Return the content of the present leader, None if there is none."""
        value = await self._store.get(self._path)
        return None if value is None else value.value

    async def _unless_closed(self, event: asyncio.Event) -> None:
        following = self._following
        if following is not None:
            waiting = [asyncio.ensure_future(each.wait()) for each in (event, following.ending)]
            try:
                await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
            finally:
                for task in waiting:
                    task.cancel()
        if self._refusal is not None:
            raise self._refusal
        if following is None or following.ending.is_set():
            raise MetadataClosed(path=self._path)

    async def _take(self) -> None:
        try:
            stat = await take(
                self._store, self._path, self._content, token=self._token, steal=self._steal
            )
        except LockBusy:
            self._steal = False
            self._become(LeaderState.FOLLOWING, None)
        except RequestError as error:
            self._refusal = error
            self._no_leader()
            self._leave()
        else:
            self._steal = False
            self._become(LeaderState.LEADING, stat.created_revision)

    def _become(self, state: LeaderState, token: int | None) -> None:
        if self._following is None or self._session_is_lost:
            self._token = token  # released, or searched when there is a session again
            return
        if self._state is LeaderState.LEADING and token != self._token:
            self._no_leader()  # it was lost in between, although nobody else may have led
        self._state = state
        self._token = token
        if state is LeaderState.LEADING:
            self._leading.set()
        self._is_decided.set()
        self._tell()

    def _no_leader(self) -> None:
        """Forget the leader; a follower does not report that."""
        was_leading = self._state is LeaderState.LEADING
        self._state = LeaderState.NO_LEADER
        self._leading.clear()
        self._is_decided.clear()
        if was_leading:
            self._tell()

    def _tell(self) -> None:
        if self._listener is None or self._state is self._reported:
            return
        self._reported = self._state
        try:
            self._listener(self._state)
        except Exception:  # the listener's error must not end the election
            _log.exception("a listener of the election at %s failed", self._path)

    def _hear(self, notification: Notification) -> bool:
        is_gone = notification == Notification(Change.DELETED, self._path)
        if is_gone:
            self._no_leader()
        return is_gone

    def _happen(self, event: SessionEvent) -> bool:
        if event is SessionEvent.SESSION_LOST:
            self._session_is_lost = True
            self._no_leader()
        elif event is SessionEvent.SESSION_REESTABLISHED:
            self._session_is_lost = False
        return is_back(event)

    async def close(self) -> None:
        """Stop being a candidate, and give the leadership back if this member has it.

        Waiters get `MetadataClosed`. `elect` may be called again. Raises the errors of the store;
        then the value goes with the session.
        """
        async with self._turn:
            following = self._following
            if following is None:
                return
            self._leave()
            # Not cancelled, because the outcome of a cancelled attempt would be unknown.
            await following.ended()
            token, self._token = self._token, None
            self._no_leader()
            if token is not None:
                await give_back(self._store, self._path, token)

    def _leave(self) -> None:
        if self._following is not None:
            self._following.leave()
        self._following = None
