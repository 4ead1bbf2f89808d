"""Timeouts of one length for many things, at the cost of a dict entry each.

`asyncio.timeout` costs 6.4 us and `call_later` 2.6 us per use, of a publish's 35 us, although
nearly every body has already arrived when it is read, and nearly every connection is used again.
All timeouts here are equally long, so the oldest entry of a dict is the next one due, and one timer
serves all of them.

Used on the event loop's thread only.
"""

import asyncio
from collections.abc import Callable, Iterator
from typing import Generic, Protocol, TypeVar

T = TypeVar("T")
READ_BYTES_MIN = 64 * 1024


class Timeouts(Generic[T]):
    """Reports each thing that `leave` does not end within `seconds` after `enter`."""

    def __init__(self, seconds: float, on_expired: Callable[[T], object]) -> None:
        """Call `on_expired` with each expired thing, in the event loop of `enter`."""
        self.seconds = seconds
        self._on_expired = on_expired
        self._due: dict[T, float] = {}
        self._timer: asyncio.TimerHandle | None = None

    def enter(self, thing: T, loop: asyncio.AbstractEventLoop) -> None:
        """Start the timeout of a thing that has none."""
        self._due[thing] = loop.time() + self.seconds
        if self._timer is None:
            self._timer = loop.call_later(self.seconds, self._expire, loop)

    def leave(self, thing: T) -> None:
        """End the timeout of a thing, if it has one."""
        self._due.pop(thing, None)

    def since(self, thing: T) -> float | None:
        """Return when the timeout of a thing started, in the loop's time; None if it has none."""
        due = self._due.get(thing)
        return None if due is None else due - self.seconds

    def oldest(self) -> T | None:
        """Return the thing with the oldest timeout, None if there is none."""
        return next(iter(self._due), None)

    def __iter__(self) -> Iterator[T]:
        """Yield the things with a timeout, the oldest first."""
        return iter(self._due)

    def _expire(self, loop: asyncio.AbstractEventLoop) -> None:
        now = loop.time()
        self._timer = None
        for thing, due in list(self._due.items()):
            if due > now:
                self._timer = loop.call_at(due, self._expire, loop)
                return
            del self._due[thing]
            self._on_expired(thing)


class UnreadOutput(Protocol):
    """A connection with output."""

    @property
    def unread_bytes(self) -> int:
        """The bytes that the client has not read."""
        ...

    def abort(self) -> None:
        """Cut it off."""
        ...


U = TypeVar("U", bound=UnreadOutput)


class SlowReaders(Generic[U]):
    """Connections whose clients must read before anything else happens on them.

    A client must read `READ_BYTES_MIN` bytes, or everything pending, in each period of `seconds`.
    So one with a slow line gets a long answer whole, and one that does not read is cut off.
    """

    def __init__(self, seconds: float, loop: asyncio.AbstractEventLoop) -> None:
        """Check each after `seconds`."""
        self.since: Timeouts[U] = Timeouts(seconds, self._look)
        self._loop = loop
        self._unread: dict[U, int] = {}

    def enter(self, connection: U) -> None:
        """Start the time limit of a client."""
        self.leave(connection)
        self._unread[connection] = connection.unread_bytes
        self.since.enter(connection, self._loop)

    def leave(self, connection: U) -> None:
        """End the time limit of a client, if it has one."""
        if self._unread.pop(connection, None) is not None:
            self.since.leave(connection)

    def _look(self, connection: U) -> None:
        if self._unread[connection] - connection.unread_bytes < READ_BYTES_MIN:
            self.leave(connection)
            connection.abort()
        else:
            self.enter(connection)
