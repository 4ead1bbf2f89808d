"""Values read from a store, cached by path until a change is reported.

Readers of one path share one load. A value forgotten during its load is not cached, because it may
be from before the change. A reader that starts after `forget` returns gets a value that was read
later.
"""

import asyncio
from collections import OrderedDict
from collections.abc import Awaitable, Callable
from typing import Generic, TypeVar

from tms.core.runtime.shared_work import shared

T = TypeVar("T")


class Kept(Generic[T]):
    """A bounded number of results of `load`, by path. Used from one event loop."""

    def __init__(self, load: Callable[[str], Awaitable[T]], entries_max: int) -> None:
        self._load = load
        self._entries_max = entries_max
        self._entries: OrderedDict[str, T] = OrderedDict()
        self._loads: dict[str, asyncio.Task[T]] = {}
        self._tasks: set[asyncio.Task[T]] = set()

    async def get(self, path: str) -> T:
        """Return the cached value of `path`, or load it. Raises as the load does."""
        if path in self._entries:
            self._entries.move_to_end(path)
            return self._entries[path]
        # Shielded, so that a cancelled reader does not cancel the others.
        return await shared(self._loading(path))

    def peek(self, path: str) -> T | None:
        """Return the cached value of `path`, None if there is none."""
        return self._entries.get(path)

    def __contains__(self, path: str) -> bool:
        return path in self._entries

    def _loading(self, path: str) -> "asyncio.Task[T]":
        task = self._loads.get(path)
        if task is None:
            task = asyncio.ensure_future(self._loaded(path))
            self._loads[path] = task
            self._tasks.add(task)
            task.add_done_callback(self._finished)
        return task

    async def _loaded(self, path: str) -> T:
        this = asyncio.current_task()
        try:
            loaded = await self._load(path)
            if self._loads.get(path) is this:
                self._entries[path] = loaded
                while len(self._entries) > self._entries_max:
                    self._entries.popitem(last=False)
            return loaded
        finally:
            if self._loads.get(path) is this:
                del self._loads[path]
            del this  # the error refers to this frame, which must not refer to the task

    def _finished(self, task: "asyncio.Task[T]") -> None:
        self._tasks.discard(task)
        if not task.cancelled():
            task.exception()  # a reload may fail: the next reader loads again

    def forget(self, path: str) -> None:
        """Drop the value of `path`, and any load of it in progress."""
        self._entries.pop(path, None)
        self._loads.pop(path, None)

    def reload(self, path: str) -> None:
        """Load `path` again, if it is cached or being loaded, without waiting for it."""
        if path in self._entries or path in self._loads:
            self.forget(path)
            self._loading(path)

    def clear(self) -> None:
        """Drop all values."""
        self._entries.clear()
        self._loads.clear()

    async def close(self) -> None:
        """Drop all values, and wait for loads in progress."""
        self.clear()
        tasks = list(self._tasks)
        await asyncio.gather(*tasks, return_exceptions=True)
