"""The locks, elections and counters of one session, which end together."""

import asyncio
import logging
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

from tms.coordination.election import LeaderElection, Listener
from tms.coordination.lock import ResourceLock
from tms.coordination.taking import give_back, take
from tms.core.errors import LockBusy, MetadataClosed, TmsError, Unavailable
from tms.core.runtime.shared_work import shared
from tms.metadata.following import is_back
from tms.metadata.interface import Change, MetadataStore, Notification, SessionEvent, Stat
from tms.metadata.paths import check_value_path

RETRY_S = 5.0
"""The pause before a lock that failed is tried again, unless something happens before."""

_log = logging.getLogger(__name__)

T = TypeVar("T")


class CoordinationService:
    """The locks and elections of one session. Close it before its store.

    Create one per session, and use it from the event loop of the store.
    """

    def __init__(self, store: MetadataStore) -> None:
        """Work on `store`, which stays open when this is closed."""
        self._store = store
        self._closed = False
        self._closing = asyncio.Event()
        self._locks: dict[str, ResourceLock] = {}
        self._taking: set[str] = set()
        self._elections: dict[str, LeaderElection] = {}
        self._waking: dict[asyncio.Event, str] = {}
        self._tasks: set[asyncio.Task[Any]] = set()
        self._stops = [store.observe(self._hear), store.observe_session(self._happen)]

    async def read_lock(self, path: str) -> bytes | None:
        """Return the content of the lock at `path`, None if it is free."""
        self._check_open()
        value = await self._store.get(path)
        return None if value is None else value.value

    async def list_locks(self, path: str) -> list[str]:
        """Return the names of the locks directly below `path`, sorted."""
        self._check_open()
        return await self._store.get_children(path)

    async def acquire_lock(self, path: str, content: bytes) -> ResourceLock:
        """Take the lock at `path`. Raises `LockBusy` at once if another session has it.

        Its content does not matter: even a lock left by a former run of this process is busy until
        that session has ended. Raises the errors of the store.
        """
        return await self._finished(self._acquire(path, content, steal=True))

    async def become_leader(self, path: str, content: bytes) -> ResourceLock:
        """Take the lock at `path` when it is free, however long that takes.

        Raises `MetadataClosed` if this service or the store is closed in the meantime.
        """
        check_value_path(path)
        wake = asyncio.Event()
        self._waking[wake] = path
        steal = True
        try:
            while True:
                wake.clear()
                try:
                    return await self._finished(self._acquire(path, content, steal=steal))
                except LockBusy:
                    steal = False
                    await self._wait(wake, None)
                except MetadataClosed:
                    raise
                except Unavailable as error:
                    _log.info("no leader is known at %s yet: %s", path, error)
                    await self._wait(wake, RETRY_S)
        finally:
            del self._waking[wake]

    async def _wait(self, wake: asyncio.Event, timeout_s: float | None) -> None:
        """Return when `wake` is set, this service is closed, or the time is up."""
        waiting = [asyncio.ensure_future(event.wait()) for event in (wake, self._closing)]
        try:
            await asyncio.wait(waiting, timeout=timeout_s, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for task in waiting:
                task.cancel()

    async def _finished(self, taking: Coroutine[Any, Any, ResourceLock]) -> ResourceLock:
        """Return the result of `taking`; if the caller is cancelled, finish it and undo it."""
        task = self._spawn(taking)
        try:
            return await shared(task)
        except asyncio.CancelledError:
            self._spawn(_undone(task))
            raise

    def _spawn(self, work: Coroutine[Any, Any, T]) -> "asyncio.Task[T]":
        task = asyncio.ensure_future(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    async def _acquire(self, path: str, content: bytes, *, steal: bool) -> ResourceLock:
        self._check_open()
        self._check_unused(path)
        self._taking.add(path)
        try:
            stat = await take(self._store, path, content, token=None, steal=steal)
            return await self._held(path, content, stat)
        finally:
            self._taking.discard(path)

    async def _held(self, path: str, content: bytes, stat: Stat) -> ResourceLock:
        if self._closed:
            await give_back(self._store, path, stat.created_revision)
            raise MetadataClosed
        lock = ResourceLock(self._store, content, stat, self._ended)
        self._locks[path] = lock
        return lock

    def _check_unused(self, path: str) -> None:
        """Raise `LockBusy` if this session has the path, because it would take it from itself."""
        election = self._elections.get(path)
        if path in self._locks or path in self._taking or (election and election.is_member):
            raise LockBusy(path=path, reason="held by this process")

    def _ended(self, path: str) -> None:
        self._locks.pop(path, None)
        self._wake(path)

    def _wake(self, path: str) -> None:
        for wake, awaited in self._waking.items():
            if awaited == path:
                wake.set()

    def election(self, path: str, listener: Listener | None = None) -> LeaderElection:
        """Return a member of the election at `path`, which does not take part yet.

        Raises `InvalidRequest` for a malformed path, `LockBusy` if this service already has a
        member at the path, and `MetadataClosed`.
        """
        self._check_open()
        check_value_path(path)
        self._check_unused(path)
        election = LeaderElection(self._store, path, listener)
        self._elections[path] = election
        return election

    async def next_counter_value(self, path: str) -> int:
        """Return a number greater than all numbers returned for `path` before.

        It need not be the next one: it is the store's revision, which grows with every change. So
        no number is repeated, even if the counter's value was deleted.
        """
        self._check_open()
        return (await self._store.put(path, b"")).modified_revision

    def _hear(self, notification: Notification) -> None:
        change, path = notification
        if change is Change.DELETED:
            self._wake(path)

    def _happen(self, event: SessionEvent) -> None:
        # Even after a mere reconnection, because deletions in between may never be reported.
        if is_back(event):
            for wake in self._waking:
                wake.set()

    def _check_open(self) -> None:
        if self._closed:
            raise MetadataClosed

    async def close(self) -> None:
        """Release all locks, leave all elections, and end every wait.

        If the store is not reached, locks end with the session.
        """
        if self._closed:
            return
        self._closed = True
        self._closing.set()
        for stop in self._stops:
            stop()
        locks = list(self._locks.values())
        steps: list[Callable[[], Any]] = [e.close for e in self._elections.values()]
        steps += [step for lock in locks for step in (lock.release, lock.close)]
        for step in steps:
            try:
                await step()
            except TmsError as error:
                _log.warning("not released, but it will end with the session: %s", error)
        if self._tasks:
            await asyncio.wait(list(self._tasks))


async def _undone(taking: "asyncio.Task[ResourceLock]") -> None:
    try:
        lock = await taking
        await lock.release()
    except TmsError as error:
        _log.info("a cancelled call did not take its lock, or did not release it: %s", error)
