"""Decoded values of a metadata store, kept fresh by its notifications.

1. A cached value is read without I/O, and is the same object each time: do not change it.
2. A reported change is read again; after a lost connection everything is, because changes may not
   have been reported. A load in progress at a change is not cached.
3. After a write through the cache returns, reads through it see that write or a later one.
4. A value that cannot be decoded raises `ValueUnreadable` in each reader, and is not cached.
5. `read_modify_update` passes a new copy to its function each time, so a function that fails or
   changes its argument does no harm.
6. At most `ENTRIES_MAX` values are cached, as many lists of children, and as many facts whether a
   path exists, which may say no. The least recently used go first.
"""

import asyncio
import random
from collections.abc import Callable
from typing import Generic, NamedTuple, Protocol, TypeVar

import msgspec

from tms.core.errors import BadVersion, PathExists, PathNotFound, Unavailable, ValueUnreadable
from tms.core.runtime.clock import Clock, SystemClock
from tms.metadata.interface import (
    NEW,
    Change,
    MetadataStore,
    Notification,
    SessionEvent,
    Stat,
)
from tms.metadata.kept import Kept
from tms.metadata.paths import ancestors

T = TypeVar("T")

ENTRIES_MAX = 10_000
"""The most values in a cache; the least recently used go first."""
RETRY_MS_MAX = 30_000
"""How long `read_modify_update` tries if other writers are faster each time."""
_PAUSE_S = 0.005
_PAUSE_S_MAX = 0.5


class Codec(Protocol[T]):
    """The encoding of values of one kind."""

    def encode(self, value: T) -> bytes:
        """Return the bytes of a value."""
        ...

    def decode(self, data: bytes) -> T:
        """Return a new value from its bytes. Raises `ValueError` for other bytes."""
        ...


class JsonCodec(Generic[T]):
    """JSON of a type that msgspec supports: dataclasses, structs, dicts, numbers, text."""

    def __init__(self, kind: type[T]) -> None:
        self._kind = kind

    def encode(self, value: T) -> bytes:
        """Return the JSON of a value."""
        return msgspec.json.encode(value)

    def decode(self, data: bytes) -> T:
        """Return the value of JSON, after checking its type. Raises `ValueError`."""
        return msgspec.json.decode(data, type=self._kind)


class CachedValue(NamedTuple, Generic[T]):
    """A decoded value with its stat."""

    value: T
    stat: Stat


class _Entry(NamedTuple, Generic[T]):
    cached: CachedValue[T]
    data: bytes
    """The value's bytes, from which copies are made."""


class MetadataCache(Generic[T]):
    """Values of one type in a metadata store. Used from the event loop of its store."""

    def __init__(
        self,
        store: MetadataStore,
        codec: Codec[T],
        *,
        under: str = "/",
        entries_max: int = ENTRIES_MAX,
        clock: Clock | None = None,
    ) -> None:
        """Cache the values of `store` at `under` and below."""
        self._store = store
        self._codec = codec
        self._clock: Clock = clock or SystemClock()
        self._values: Kept[_Entry[T] | None] = Kept(self._load, entries_max)
        self._children: Kept[list[str]] = Kept(store.get_children, entries_max)
        self._existing: Kept[bool] = Kept(store.exists, entries_max)
        self._stops = [store.observe(self._hear, under), store.observe_session(self._happen)]

    async def get(self, path: str) -> T | None:
        """Return the value at `path`, None if there is none. Raises `ValueUnreadable`."""
        cached = await self.get_with_stat(path)
        return None if cached is None else cached.value

    async def get_with_stat(self, path: str) -> CachedValue[T] | None:
        """Return the value at `path` with its stat. Raises `ValueUnreadable`."""
        entry = await self._values.get(path)
        return None if entry is None else entry.cached

    def get_if_cached(self, path: str) -> T | None:
        """Return the value of `path` if it is cached; does no I/O."""
        entry = self._values.peek(path)
        return None if entry is None else entry.cached.value

    async def get_children(self, path: str) -> list[str]:
        """Return the names directly below `path`, sorted."""
        return list(await self._children.get(path))

    async def exists(self, path: str) -> bool:
        """Return whether `path` has a value, readable or not."""
        return await self._existing.get(path)

    async def create(self, path: str, value: T, *, ephemeral: bool = False) -> Stat:
        """Create a value and return its stat. Raises `PathExists` if there is one."""
        try:
            return await self.put(path, value, NEW, ephemeral=ephemeral)
        except BadVersion:
            raise PathExists(path=path) from None

    async def put(
        self,
        path: str,
        value: T,
        expected_version: int | None = None,
        *,
        ephemeral: bool = False,
    ) -> Stat:
        """Create or replace a value, as `MetadataStore.put` does."""
        data = self._codec.encode(value)
        try:
            stat = await self._store.put(path, data, expected_version, ephemeral=ephemeral)
        finally:
            # Also after a failure, because the write may have succeeded with a lost answer.
            self._forget(path)
        await self._read_again(path)
        return stat

    async def delete(self, path: str, expected_version: int | None = None) -> None:
        """Delete a value, as `MetadataStore.delete` does."""
        try:
            await self._store.delete(path, expected_version)
        finally:
            self._forget(path)

    async def read_modify_update(self, path: str, modify: Callable[[T], T]) -> T:
        """Replace the value by the result of `modify`, and return that.

        `modify` runs again if another writer was faster. Raises `PathNotFound`, the errors of
        `modify`, and `BadVersion` if others were faster for `RETRY_MS_MAX`.
        """

        def changed(old: T | None) -> T:
            if old is None:
                raise PathNotFound(path=path)
            return modify(old)

        return await self.read_modify_update_or_create(path, changed)

    async def read_modify_update_or_create(self, path: str, modify: Callable[[T | None], T]) -> T:
        """As `read_modify_update`, but pass None to `modify` if there is no value."""
        deadline_ms = self._clock.steady_ms() + RETRY_MS_MAX
        pause_s = _PAUSE_S
        while True:
            entry = await self._values.get(path)
            if entry is None:
                # Absence may be outdated, and has no version to compare.
                self._values.forget(path)
                entry = await self._values.get(path)
            old = None if entry is None else self._decode(path, entry.data)
            new = modify(old)
            try:
                await self.put(path, new, NEW if entry is None else entry.cached.stat.version)
            except BadVersion:
                if self._clock.steady_ms() > deadline_ms:
                    raise
            else:
                return new
            # Concurrent writers pause for different times.
            await asyncio.sleep(random.uniform(0, pause_s))  # noqa: S311
            pause_s = min(2 * pause_s, _PAUSE_S_MAX)

    def invalidate(self, path: str) -> None:
        """Drop `path` from the cache: the next read is from the store."""
        self._forget(path)
        self._children.forget(path)

    async def refresh(self, path: str) -> None:
        """Read `path` again, if its value is cached."""
        if path in self._values:
            self._values.forget(path)
            await self._values.get(path)

    async def close(self) -> None:
        """Stop following changes, and clear the cache. The store stays open."""
        for stop in self._stops:
            stop()
        for kept in (self._values, self._children, self._existing):
            await kept.close()

    async def _load(self, path: str) -> _Entry[T] | None:
        read = await self._store.get(path)
        if read is None:
            return None
        return _Entry(CachedValue(self._decode(path, read.value), read.stat), read.value)

    def _decode(self, path: str, data: bytes) -> T:
        try:
            return self._codec.decode(data)
        except ValueError as error:
            raise ValueUnreadable(path=path, reason=str(error)) from error

    def _forget(self, path: str) -> None:
        """Forget what a write of `path` may have changed, before the change is reported."""
        self._values.forget(path)
        self._existing.forget(path)
        for ancestor in ancestors(path):
            self._children.forget(ancestor)

    async def _read_again(self, path: str) -> None:
        """Cache our own write for `get_if_cached`."""
        try:
            await self._values.get(path)
        except (Unavailable, ValueUnreadable):
            return  # it is written all the same; the next reader gets the error

    def _hear(self, notification: Notification) -> None:
        change, path = notification
        if change is Change.CHILDREN_CHANGED:
            self._children.forget(path)
            return
        self._values.reload(path)
        if change is not Change.MODIFIED:
            self._existing.forget(path)

    def _happen(self, event: SessionEvent) -> None:
        if event in (SessionEvent.RECONNECTED, SessionEvent.SESSION_REESTABLISHED):
            for kept in (self._values, self._children, self._existing):
                kept.clear()
