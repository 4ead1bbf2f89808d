"""A lock that this process holds, as far as it knows.

States: VALID → RELEASED by `release`, or → EXPIRED if somebody else has it. A valid lock puts its
value back if that was deleted, or ended with a lost session, unless somebody else was first. If the
store is not reached, the check is repeated until it succeeds; until then the lock counts as held.
"""

import asyncio
import logging
from collections.abc import Callable
from enum import Enum

from tms.coordination.taking import give_back, take
from tms.core.errors import BadVersion, LockBusy, MetadataClosed, RequestError
from tms.metadata.following import Following
from tms.metadata.interface import Change, MetadataStore, Notification, Stat

_log = logging.getLogger(__name__)


class LockState(Enum):
    """The state of a lock."""

    VALID = "valid"
    RELEASED = "released"
    EXPIRED = "expired"


class ResourceLock:
    """A lock on a path, with content. `CoordinationService.acquire_lock` returns it."""

    def __init__(
        self, store: MetadataStore, content: bytes, stat: Stat, on_end: Callable[[str], None]
    ) -> None:
        """Hold the lock taken with `stat`; `on_end` is called with the path when it ends."""
        self._store = store
        self._path = stat.path
        self._content = content
        self._stat = stat
        self._on_end = on_end
        self._state = LockState.VALID
        self._given_back = False
        self._expired: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._turn = asyncio.Lock()
        name = f"checking the lock {self._path}"
        self._following = Following(store, self._path, name, self._check, hear=self._is_gone)
        self._following.start()

    @property
    def path(self) -> str:
        """The path of the lock."""
        return self._path

    @property
    def content(self) -> bytes:
        """The holder's description of itself."""
        return self._content

    @property
    def token(self) -> int:
        """The fencing token: greater than that of any earlier holder.

        It grows if the lock had to be taken again, so read it at each use.
        """
        return self._stat.created_revision

    @property
    def is_valid(self) -> bool:
        """Whether the lock is held, as far as this process knows."""
        return self._state is LockState.VALID

    @property
    def expired(self) -> "asyncio.Future[None]":
        """Done when the lock has been lost to somebody else; never by `release`."""
        return self._expired

    async def update(self, content: bytes) -> None:
        """Replace the content. Raises `LockBusy` if the lock is lost."""
        async with self._turn:
            if self._state is not LockState.VALID:
                raise LockBusy(path=self._path, reason=self._state.value)
            while not await self._update_once(content):
                pass  # somebody else changed it in between
            self._content = content

    async def _update_once(self, content: bytes) -> bool:
        """Try to replace the value under our token, or put it back if it is gone."""
        # The version alone is not enough: another holder's value has the same versions.
        value = await self._store.get(self._path)
        if value is None or not self._is_ours(value.stat):
            await self._retake(content)
            return False
        self._stat = value.stat
        if value.value != content:
            try:
                self._stat = await self._store.put(self._path, content, value.stat.version)
            except BadVersion:
                return False
        return True

    def _is_ours(self, stat: Stat) -> bool:
        return stat.created_by_self and stat.created_revision == self.token

    async def _retake(self, content: bytes) -> None:
        try:
            self._stat = await take(self._store, self._path, content, token=self.token, steal=False)
        except LockBusy:
            self._expire()
            raise

    async def release(self) -> None:
        """Give the lock back. After it has ended, this does nothing.

        Raises the errors of the store: then the lock is not held, but others find it busy until the
        session ends, or `release` is called again.
        """
        async with self._turn:
            if self._state is LockState.EXPIRED or self._given_back:
                return
            self._state = LockState.RELEASED
            self._following.leave()
            try:
                await give_back(self._store, self._path, self.token)
                self._given_back = True
            finally:
                self._on_end(self._path)

    def _expire(self) -> None:
        self._state = LockState.EXPIRED
        self._following.leave()
        if not self._expired.done():
            self._expired.set_result(None)
        self._on_end(self._path)

    def check(self) -> None:
        """Start to check whether the lock is still held, and to put it back; do not wait."""
        self._following.wake()

    def _is_gone(self, notification: Notification) -> bool:
        return notification == Notification(Change.DELETED, self._path)

    async def _check(self) -> None:
        async with self._turn:
            if not self.is_valid:
                return
            try:
                await self._retake(self._content)
            except LockBusy as busy:
                _log.warning("lock %s is lost: %s", self._path, busy)
            except MetadataClosed:
                self._expire()
            except RequestError as error:
                _log.warning("cannot restore lock %s: %s", self._path, error)
                self._expire()

    async def close(self) -> None:
        """Wait for a check in progress to end, after the lock has ended."""
        self._following.leave()
        await self._following.ended()
