"""All values directly below a path, decoded and at hand in memory, kept up to date.

1. `values` has all of them when `open` returns. A change made here is in it when the call returns,
   one made elsewhere as soon as the store tells of it, or after a connection was lost, as that
   comes back.
2. A value that does not change is the same object.
3. A value that cannot be decoded is told in the log; what was known before it holds on.
4. `known_at_ms` says as of when all changes are known: the time of the last sign of the store, or
   before, of a change that is told and not read yet.

Used from the event loop of its store, which stays open when this is closed.
"""

import asyncio
import logging
from collections.abc import Callable, Collection, Iterable
from typing import Generic, TypeVar

from tms.core.clock import Clock
from tms.core.errors import MetadataUnavailable, OutcomeUnknown, Unavailable
from tms.core.supervision import supervised
from tms.metadata.cache import Codec
from tms.metadata.interface import Change, MetadataStore, Notification, SessionEvent, Value

T = TypeVar("T")
OnChange = Callable[[Collection[str]], None]
"""Is told the names whose values have changed, come or gone."""
RETRY_S = 1.0
"""After which what could not be read is read again."""
_READS_AT_ONCE = 100

_log = logging.getLogger(__name__)


class LiveValues(Generic[T]):
    """Values by their names below one path."""

    def __init__(
        self,
        store: MetadataStore,
        root: str,
        codec: Codec[T],
        clock: Clock,
        on_change: OnChange,
    ) -> None:
        """Follow what is directly below `root`; `open` first."""
        self.values: dict[str, T] = {}
        """Read it, and leave it as it is."""
        self.lost_at_ms: int | None = None
        """Since when the store may have changes that are not known here, by `steady_ms`."""
        self._store = store
        self._root = root
        self._codec = codec
        self._clock = clock
        self._on_change = on_change
        self._data: dict[str, bytes] = {}
        self._stops = [store.observe(self._hear, root), store.observe_session(self._happen)]
        self._turn = asyncio.Lock()
        self._changed: dict[str, int] = {}
        """The changed paths that are not read yet, with the `steady_ms` of the change; the oldest
        first."""
        self._reading: dict[str, int] = {}
        self._all_changed = False
        self._losses = 0
        """How often something happened to the session by which changes may be missed."""
        self._has_news = asyncio.Event()
        self._following: asyncio.Task[None] | None = None

    @property
    def known_at_ms(self) -> int:
        """As of when all changes are known, by `steady_ms`."""
        known = self._clock.steady_ms() - self._store.silent_ms
        for unread in (self._reading, self._changed):
            known = min(known, next(iter(unread.values()), known))
        return known if self.lost_at_ms is None else min(known, self.lost_at_ms)

    async def open(self) -> None:
        """Read all there is, and follow it from now on. Raises `MetadataUnavailable`."""
        await self._read_all()
        self._following = supervised(f"following {self._root} in the metadata store", self._follow)

    async def close(self) -> None:
        """Follow the store no more."""
        for stop in self._stops:
            stop()
        if self._following is not None:
            self._following.cancel()
            await asyncio.gather(self._following, return_exceptions=True)

    async def put(self, name: str, value: T, expected_version: int | None = None) -> None:
        """Create or replace a value. Raises as `MetadataStore.put`, and `OutcomeUnknown`."""
        is_sent = self._store.is_connected
        try:
            await self._store.put(self._path(name), self._codec.encode(value), expected_version)
            await self._read([name])
        except MetadataUnavailable as error:
            raise _unknown(error) if is_sent else error from None

    async def delete(self, name: str) -> None:
        """Delete a value. Raises as `MetadataStore.delete`, and `OutcomeUnknown`."""
        is_sent = self._store.is_connected
        try:
            await self._store.delete(self._path(name))
            await self._read([name])
        except MetadataUnavailable as error:
            raise _unknown(error) if is_sent else error from None

    async def look(self, name: str) -> None:
        """Have a value as it is in the store now. Raises `MetadataUnavailable`."""
        await self._read([name])

    def _path(self, name: str) -> str:
        return f"{self._root}/{name}"

    def _hear(self, notification: Notification) -> None:
        change, path = notification
        if change is not Change.CHILDREN_CHANGED and path != self._root:
            name = path.removeprefix(f"{self._root}/")
            self._changed.setdefault(name, self._clock.steady_ms())
            self._has_news.set()

    def _happen(self, event: SessionEvent) -> None:
        if event in (SessionEvent.RECONNECTED, SessionEvent.SESSION_REESTABLISHED):
            self._all_changed = True
            self._has_news.set()
            return
        self._losses += 1
        if self.lost_at_ms is None:
            self.lost_at_ms = self._clock.steady_ms() - self._store.silent_ms

    async def _follow(self) -> None:
        while True:
            await self._has_news.wait()
            self._has_news.clear()
            self._reading, self._changed = self._changed, {}
            names = self._reading
            every, self._all_changed = self._all_changed, False
            try:
                await (self._read_all() if every else self._read(names))
            except BaseException as error:
                self._changed = {**self._changed, **names}
                self._all_changed |= every
                self._has_news.set()
                if not isinstance(error, Unavailable):
                    raise
                _log.warning("%s cannot be read: %s", self._root, error)
                await asyncio.sleep(RETRY_S)
            finally:
                self._reading = {}

    async def _read_all(self) -> None:
        losses = self._losses
        await self._read({*await self._store.get_children(self._root), *self._data})
        if self._store.is_connected and self._losses == losses:
            self.lost_at_ms = None

    async def _read(self, names: Iterable[str]) -> None:
        """Bring some values up to date, and tell of those that have changed."""
        left = sorted(name for name in names if "/" not in name)
        changed: list[str] = []
        # One at a time: what was read earlier never replaces what was read later.
        async with self._turn:
            while left:
                some, left = left[:_READS_AT_ONCE], left[_READS_AT_ONCE:]
                found = await asyncio.gather(*(self._store.get(self._path(name)) for name in some))
                changed += [
                    name for name, value in zip(some, found, strict=True) if self._take(name, value)
                ]
            if changed:
                self._on_change(changed)

    def _take(self, name: str, found: Value | None) -> bool:
        """Have a value in memory as it was found; return whether that changes anything."""
        data = None if found is None else found.value
        if self._data.get(name) == data:
            return False
        if data is None:
            del self._data[name]
            return self.values.pop(name, None) is not None
        self._data[name] = data
        try:
            value = self._codec.decode(data)
        except ValueError as error:
            _log.error("%s keeps its last valid value: %s", self._path(name), error)
            return False
        self.values[name] = value
        return True


def _unknown(error: MetadataUnavailable) -> OutcomeUnknown:
    return OutcomeUnknown(**error.detail)
