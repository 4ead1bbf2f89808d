"""All values directly below a path, decoded in memory and kept up to date.

1. `values` has all of them when `open` returns. A change made here is in it when the call returns;
   one made elsewhere as soon as the store reports it, or, after a lost connection, when that is
   back.
2. A value that does not change is the same object.
3. A value that cannot be decoded is logged; the last valid value stays in force.
4. `known_at_ms` is the time as of which all changes are known: that of the store's last answer, or
   earlier, of a reported change that is not read yet.

Used from the event loop of its store, which stays open when this is closed.
"""

import asyncio
import logging
from collections.abc import Callable, Collection, Iterable
from typing import Generic, TypeVar

from tms.core.errors import (
    MetadataClosed,
    MetadataUnavailable,
    OutcomeUnknown,
    TmsError,
    ValueUnreadable,
)
from tms.core.runtime.clock import Clock, SystemClock
from tms.metadata.cache import CachedValue, Codec
from tms.metadata.following import Following, is_back
from tms.metadata.interface import Change, MetadataStore, Notification, SessionEvent, Stat, Value

T = TypeVar("T")
OnChange = Callable[[Collection[str]], None]
"""Called with the names whose values were changed, created or deleted."""
_READS_AT_ONCE = 100

_log = logging.getLogger(__name__)


class LiveValues(Generic[T]):
    """Values by their names below one path."""

    def __init__(
        self,
        store: MetadataStore,
        root: str,
        codec: Codec[T],
        on_change: OnChange,
        clock: Clock | None = None,
    ) -> None:
        """Prepare to follow the values directly below `root`; call `open` next."""
        self.values: dict[str, T] = {}
        """Read only; do not change it."""
        self.lost_at_ms: int | None = None
        """The `steady_ms` since which changes may be unknown here."""
        self._store = store
        self._root = root
        self._codec = codec
        self._clock: Clock = clock or SystemClock()
        self._on_change = on_change
        self._stored: dict[str, Value] = {}
        """All values, readable or not."""
        name = f"following {root} in the metadata store"
        self._following = Following(
            store, root, name, self._bring_up_to_date, hear=self._hear, happen=self._happen
        )
        self._turn = asyncio.Lock()
        self._changed: dict[str, int] = {}
        """The changed names not read yet, with the `steady_ms` of the change, oldest first."""
        self._reading: dict[str, int] = {}
        self._all_changed = True
        self._losses = 0
        """The number of session events after which changes may be missed."""

    @property
    def known_at_ms(self) -> int:
        """The `steady_ms` as of which all changes are known."""
        at_ms = self._clock.steady_ms() - self._store.silent_ms
        for unread in (self._reading, self._changed):
            at_ms = min(at_ms, next(iter(unread.values()), at_ms))
        return at_ms if self.lost_at_ms is None else min(at_ms, self.lost_at_ms)

    async def open(self) -> None:
        """Read all values, and follow them from now on. Raises `MetadataUnavailable`."""
        await self._following.open()

    async def close(self) -> None:
        """Stop following the store."""
        await self._following.close()

    @property
    def names(self) -> Collection[str]:
        """The names of all values, including those that cannot be decoded."""
        return self._stored.keys()

    def cached(self, name: str) -> CachedValue[T] | None:
        """Return the last value read from the store. Raises `ValueUnreadable`."""
        value = self._stored.get(name)
        if value is None:
            return None
        try:
            return CachedValue(self._codec.decode(value.value), value.stat)
        except ValueError as error:
            raise ValueUnreadable(path=self._path(name), reason=str(error)) from error

    async def put(self, name: str, value: T, expected_version: int | None = None) -> Stat:
        """Create or replace a value. Raises as `MetadataStore.put` does, and `OutcomeUnknown`."""
        is_sent = self._store.is_connected
        data = self._codec.encode(value)
        try:
            stat = await self._store.put(self._path(name), data, expected_version)
            await self._read([name])
        except (MetadataClosed, MetadataUnavailable) as error:
            raise _unknown(error) if is_sent else error from None
        return stat

    async def delete(self, name: str) -> None:
        """Delete a value. Raises as `MetadataStore.delete` does, and `OutcomeUnknown`."""
        is_sent = self._store.is_connected
        try:
            await self._store.delete(self._path(name))
            await self._read([name])
        except (MetadataClosed, MetadataUnavailable) as error:
            raise _unknown(error) if is_sent else error from None

    async def look(self, name: str) -> None:
        """Bring one value up to date now. Raises `MetadataUnavailable`."""
        await self._read([name])

    def _path(self, name: str) -> str:
        return f"{self._root}/{name}"

    def _hear(self, notification: Notification) -> bool:
        change, path = notification
        if change is Change.CHILDREN_CHANGED or path == self._root:
            return False
        self._changed.setdefault(path.removeprefix(f"{self._root}/"), self._clock.steady_ms())
        return True

    def _happen(self, event: SessionEvent) -> bool:
        if is_back(event):
            self._all_changed = True
            return True
        self._losses += 1
        if self.lost_at_ms is None:
            self.lost_at_ms = self._clock.steady_ms() - self._store.silent_ms
        return False

    async def _bring_up_to_date(self) -> None:
        self._reading, self._changed = self._changed, {}
        every, self._all_changed = self._all_changed, False
        try:
            await (self._read_all() if every else self._read(self._reading))
        except BaseException:
            self._changed = {**self._reading, **self._changed, **self._reading}
            self._all_changed |= every
            raise
        finally:
            self._reading = {}

    async def _read_all(self) -> None:
        losses = self._losses
        await self._read({*await self._store.get_children(self._root), *self._stored})
        if self._store.is_connected and self._losses == losses:
            self.lost_at_ms = None

    async def _read(self, names: Iterable[str]) -> None:
        """Bring some values up to date, and report those that have changed."""
        remaining = sorted(name for name in names if "/" not in name)
        changed: list[str] = []
        # One at a time, so that an earlier read never replaces a later one.
        async with self._turn:
            try:
                while remaining:
                    some, remaining = remaining[:_READS_AT_ONCE], remaining[_READS_AT_ONCE:]
                    values = await asyncio.gather(
                        *(self._store.get(self._path(name)) for name in some)
                    )
                    for name, value in zip(some, values, strict=True):
                        if self._take(name, value):
                            changed.append(name)
            finally:
                # Also if a read fails: these names do not differ any more when it is repeated.
                if changed:
                    self._on_change(changed)

    def _take(self, name: str, stored: Value | None) -> bool:
        """Put a value that was read into memory; return whether that changes anything."""
        before = self._stored.pop(name, None)
        if stored is None:
            return self.values.pop(name, None) is not None
        self._stored[name] = stored
        if before is not None and before.value == stored.value:
            return False
        try:
            value = self._codec.decode(stored.value)
        except ValueError as error:
            _log.error("%s keeps its last valid value: %s", self._path(name), error)
            return False
        self.values[name] = value
        return True


def _unknown(error: TmsError) -> OutcomeUnknown:
    return OutcomeUnknown(**error.detail)
