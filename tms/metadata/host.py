"""A metadata store of this process: one tree, and the sessions that use it.

Changes are made one at a time: decided, made durable if there is a journal, applied, and reported
to the observers of all sessions, before the call returns. Without a journal all that happens in one
step of the event loop. A cancelled call is carried out all the same.

If the journal fails, a change may or may not be durable; so the tree is read again before the next
change, and differences are reported.

The sessions of a host are used in one event loop. The host can also simulate events of a session
(`disconnect`, `expire`, `reconnect`) to test applications.
"""

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from contextlib import suppress
from dataclasses import replace

from tms.core.errors import MetadataClosed, MetadataUnavailable, OutcomeUnknown, StoreUnavailable
from tms.core.runtime.clock import Clock, SystemClock
from tms.core.runtime.shared_work import shared
from tms.metadata.interface import Notification, SessionEvent
from tms.metadata.journal import NOBODY, MetadataJournal
from tms.metadata.local import LocalSession
from tms.metadata.tree import Tree, TreeEdit

Decide = Callable[[Tree], list[TreeEdit]]
"""Returns the edits, or raises the caller's error."""


class MetadataHost:
    """The tree that the sessions of this process share."""

    def __init__(
        self,
        tree: Tree | None = None,
        journal: MetadataJournal | None = None,
        clock: Clock | None = None,
    ) -> None:
        """Serve `tree`; `open_host` reads it from a journal."""
        self.tree = tree or Tree()
        self.clock: Clock = clock or SystemClock()
        self._journal = journal
        self._in_doubt = False
        self._turn = asyncio.Lock()
        self._running: set[asyncio.Task[list[TreeEdit]]] = set()
        self._sessions: dict[int, LocalSession] = {}
        self._last_session = 0
        self._closed = False
        self.on_unused: Callable[[], Awaitable[None]] | None = None
        """Called when the last session has been closed; the host then opens no more."""

    def open_session(self) -> LocalSession:
        """Return a new session. Raises `MetadataClosed`."""
        if self._closed:
            raise MetadataClosed
        session = LocalSession(self, self._next_session())
        self._sessions[session.number] = session
        return session

    def _next_session(self) -> int:
        self._last_session += 1
        return self._last_session

    @property
    def has_sessions(self) -> bool:
        """Whether any session is open."""
        return bool(self._sessions)

    async def change(self, decide: Decide) -> list[TreeEdit]:
        """Carry out the edits of `decide`, and return them.

        Raises as `decide` does, and `MetadataUnavailable` if the change may not be durable.
        """
        if self._journal is None:
            return self._apply(decide(self.tree))
        task = asyncio.ensure_future(self._change(self._journal, decide))
        self._running.add(task)
        task.add_done_callback(self._finished)
        try:
            return await shared(task)
        finally:
            del task  # the error refers to this frame, which must not refer to the task

    def _finished(self, task: "asyncio.Task[list[TreeEdit]]") -> None:
        self._running.discard(task)
        if not task.cancelled():
            task.exception()  # its caller may be cancelled, and then nobody retrieves the error

    async def _change(self, journal: MetadataJournal, decide: Decide) -> list[TreeEdit]:
        async with self._turn:
            try:
                if self._in_doubt:
                    await self._read_anew(journal)
                edits = decide(self.tree)
                if edits:
                    await asyncio.to_thread(journal.write, edits)
            except (StoreUnavailable, OutcomeUnknown) as error:
                self._in_doubt = True
                raise MetadataUnavailable(reason=str(error)) from error
            return self._apply(edits)

    async def _read_anew(self, journal: MetadataJournal) -> None:
        stored = await asyncio.to_thread(journal.load)
        ours, theirs = dict(self.tree.nodes()), dict(stored.nodes())
        gone = [path for path in reversed(ours) if path not in theirs]
        edits = [TreeEdit(path, None, stored.revision) for path in gone]
        for path, node in theirs.items():
            old = ours.get(path)
            if old is None or old.modified_revision != node.modified_revision:
                # Rows do not contain the owner of an ephemeral value. One that the failed write
                # created has no owner here, and is deleted as if its session had ended.
                owned = old.owner if old is not None else node.owner
                edits.append(TreeEdit(path, replace(node, owner=owned), stored.revision))
        self._apply(edits)
        strays = self.tree.owned_by(NOBODY)
        if strays:
            lost = self.tree.decide_delete_all(strays)
            await asyncio.to_thread(journal.write, lost)
            self._apply(lost)
        self._in_doubt = False

    def _apply(self, edits: list[TreeEdit]) -> list[TreeEdit]:
        self._tell(self.tree.apply(edits))
        return edits

    def _tell(self, notifications: Iterable[Notification]) -> None:
        for notification in notifications:
            for session in list(self._sessions.values()):
                session.hear(notification)

    async def end(self, session: LocalSession) -> None:
        """End a session for good, and its ephemeral values."""
        if self._sessions.pop(session.number, None) is None:
            return
        is_last = self.on_unused is not None and not self._sessions
        self._closed = self._closed or is_last
        try:
            await self._drop_ephemerals(session.number)
        finally:
            if is_last and self.on_unused is not None:
                await asyncio.gather(*self._running, return_exceptions=True)
                await self.on_unused()

    async def _drop_ephemerals(self, number: int) -> None:
        await self.change(lambda tree: tree.decide_delete_all(tree.owned_by(number)))

    async def close(self) -> None:
        """End all sessions, and wait for changes in progress."""
        self._closed = True
        for session in list(self._sessions.values()):
            await session.close()
        await asyncio.gather(*self._running, return_exceptions=True)

    def disconnect(self, session: LocalSession) -> None:
        """Disconnect a session: calls fail, and it gets no notifications."""
        session.happen(SessionEvent.CONNECTION_LOST)

    async def expire(self, session: LocalSession) -> None:
        """End a session on the store's side, as after a timeout."""
        if session.is_connected:
            self.disconnect(session)
        del self._sessions[session.number]
        await self._drop_ephemerals(session.number)
        session.number = self._next_session()
        self._sessions[session.number] = session
        session.happen(SessionEvent.SESSION_LOST)

    def reconnect(self, session: LocalSession) -> None:
        """Reconnect a session, or start a new one if it had ended."""
        session.happen(SessionEvent.RECONNECTED)


async def open_host(journal: MetadataJournal, clock: Clock | None = None) -> MetadataHost:
    """Return a host of the journal's nodes, without ephemeral values of earlier processes.

    Their rows stay for the next opening if the store refuses writes now. Raises `StoreUnavailable`,
    `StoreCorrupt`, `StoreFormatUnknown`.
    """
    tree = await asyncio.to_thread(journal.load)
    leftover = tree.decide_delete_all(tree.owned_by(NOBODY))
    if leftover:
        with suppress(StoreUnavailable):
            await asyncio.to_thread(journal.write, leftover)
        tree.apply(leftover)
    return MetadataHost(tree, journal, clock)
