"""Messages read one by one: by one task at a time, and closed by any task.

A chain of asynchronous generators reads a topic. If a program leaves one half read, asyncio closes
all of them at the same time at the end of its loop, inner and outer ones, and they fail. So a
program gets an object instead. Its chain is closed once, from the outermost one: when the program
closes or drops the object, when the client is closed, or when the loop ends, before asyncio looks
for open generators (`Readers`).
"""

import asyncio
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import suppress
from math import inf
from time import monotonic
from typing import Any, Generic, Protocol, Self, TypeVar

from tms.core.runtime.deadlines import until, without_deadline
from tms.core.runtime.forks import tell_in_child

Item = TypeVar("Item")
Run = Sequence[Any]
"""Some messages, at least one."""


class RunSource(Protocol):
    """A source of runs of messages. After a `next` was cancelled, it may be called again."""

    async def next(self) -> Run | None:
        """Return the next run; None at the end."""
        ...

    async def aclose(self) -> None:
        """End it. Called while no `next` runs."""
        ...


class Generated:
    """Runs from asynchronous generators; a cancellation ends one, and another is opened."""

    def __init__(self, open_runs: Callable[[], AsyncGenerator[Run, None]]) -> None:
        """Open the first generator now; each call of `open_runs` continues after the last run."""
        self._open = open_runs
        self._runs = open_runs()

    async def next(self) -> Run | None:
        """Return the next run; None at the end."""
        try:
            return await anext(self._runs, None)
        except asyncio.CancelledError:
            self._runs = self._open()
            raise

    async def aclose(self) -> None:
        """Close the generators."""
        await self._runs.aclose()


class HalfRead:
    """Runs of messages, read by one task at a time."""

    def __init__(
        self, source: RunSource, *, timeout_s: float | None = None, is_endless: bool = False
    ) -> None:
        """Read nothing yet. All reads together may take `timeout_s`, from the first `next` on."""
        self._source = source
        self.is_endless = is_endless
        """Whether it may last as long as the program."""
        self._timeout_s = timeout_s
        self._end_s = inf
        self._turn = asyncio.Lock()
        self._waiting: asyncio.Timeout | None = None
        self._cause: Exception | None = None
        self.is_over = False

    async def next(self, items: list[Any]) -> bool:
        """Put the next run in reverse into `items`, or leave there what another task has put.

        Returns False at the end, or if it is closed in the meantime.
        """
        async with self._turn:
            if items:
                return True
            if self._timeout_s is not None:
                self._end_s, self._timeout_s = monotonic() + self._timeout_s, None
            if not self.is_over:
                run = await self._next()
                if not self.is_over:
                    self.is_over = run is None
                    items[:] = reversed(run or ())
                    return not self.is_over
            if self._cause is not None:
                raise self._cause
            return False

    async def _next(self) -> Run | None:
        waiting = self._waiting = asyncio.timeout(None)
        try:
            async with waiting:
                if self._end_s == inf:
                    return await self._source.next()
                with until(self._end_s):
                    return await self._source.next()
        except TimeoutError:
            if waiting.expired():  # by `aclose`
                return None
            raise
        finally:
            self._waiting = None

    async def aclose(self, cause: Exception | None = None) -> None:
        """End it, even while a task waits; that gets the end, or raises `cause` if there is one."""
        if not self.is_over:
            self.is_over, self._cause = True, cause
        if self._waiting is not None and not self._waiting.expired():
            self._waiting.reschedule(asyncio.get_running_loop().time())
        async with self._turn:
            await self._source.aclose()


class Readers:
    """The reads of one client that have begun and not ended."""

    def __init__(self) -> None:
        """Begin without reads."""
        self._open: set[HalfRead] = set()
        self._keeper: asyncio.Task[None] | None = None
        self._closings: set[asyncio.Task[None]] = set()
        tell_in_child(self)

    def forget_parent(self) -> object:
        """Give up the reads of the parent."""
        parents = (self._open, self._keeper, self._closings)
        self._open, self._keeper, self._closings = set(), None, set()
        return parents

    def begin(self, reading: HalfRead) -> None:
        """Close it at the end of the loop at the latest."""
        self._open.add(reading)
        if reading.is_endless and self._keeper is None:
            self._keeper = asyncio.create_task(self._keep(), context=without_deadline())

    def end(self, reading: HalfRead) -> None:
        """Forget a read that has ended."""
        self._open.discard(reading)
        keeper = self._keeper
        if not self._open and keeper is not None:
            self._keeper = None
            keeper.cancel()

    async def _keep(self) -> None:
        """Wait for the end of the loop, which cancels its tasks and then closes generators."""
        try:
            await asyncio.get_running_loop().create_future()
        finally:
            if self._keeper is asyncio.current_task():  # otherwise nothing was left to close
                await self._close_all(None)

    def close_soon(self, reading: HalfRead, loop: asyncio.AbstractEventLoop) -> None:
        """Close a dropped read. The garbage collector may call this: it takes no lock."""

        async def close() -> None:
            with suppress(Exception):
                await reading.aclose()
            self.end(reading)

        def begin() -> None:
            task = loop.create_task(close(), context=without_deadline())
            self._closings.add(task)
            task.add_done_callback(self._closings.discard)

        with suppress(RuntimeError):  # the loop has ended
            loop.call_soon_threadsafe(begin)

    async def close(self) -> None:
        """Close all, with the client: a later read raises an error that says so."""
        await self._close_all(RuntimeError("the client is closed"))
        if self._closings:
            await asyncio.wait(self._closings)

    async def _close_all(self, cause: Exception | None) -> None:
        while self._open:
            reading = next(iter(self._open))
            with suppress(Exception):
                await reading.aclose(cause)
            self.end(reading)


class AsyncMessages(Generic[Item]):
    """An asynchronous iterator over messages, returned by `poll`, `follow` and `take`.

    Any number of tasks may take from it; each message is given once. A wait for the next message
    may be cancelled, as `asyncio.wait_for` does, and another begun: `follow` and `take` then
    continue where they were, but a `poll` has ended. `aclose` ends it, even while a task waits. You
    need not call it: an iterator without references ends by itself, and all end when the client is
    closed or the event loop ends.
    """

    __slots__ = ("__weakref__", "_items", "_loop", "_readers", "_reading")

    def __init__(self, reading: HalfRead, readers: Readers) -> None:
        """Read nothing yet."""
        self._reading = reading
        self._readers = readers
        self._loop: asyncio.AbstractEventLoop | None = None
        """None before the first read, and after the end."""
        self._items: list[Item] = []
        """The rest of the run in reverse, the next message last."""

    def __aiter__(self) -> Self:
        """Return itself; messages are not given twice."""
        return self

    async def __anext__(self) -> Item:
        """Return the next message. Raises as the method that returned the iterator."""
        while not self._items:
            await self._fetch()
        return self._items.pop()

    async def _fetch(self) -> None:
        reading = self._reading
        if self._loop is None and not reading.is_over:
            self._loop = asyncio.get_running_loop()
            self._readers.begin(reading)
        try:
            has_items = await reading.next(self._items)
        except Exception:
            await self.aclose()
            raise
        if not has_items:
            self._forget()
            raise StopAsyncIteration

    def _forget(self) -> None:
        self._loop = None
        self._readers.end(self._reading)

    async def aclose(self) -> None:
        """End it. Closing twice is harmless."""
        self._items.clear()
        await self._reading.aclose()
        self._forget()

    def __del__(self) -> None:
        """End it soon if it was begun. The garbage collector may call it: it takes no lock."""
        if self._loop is not None:
            self._readers.close_soon(self._reading, self._loop)
