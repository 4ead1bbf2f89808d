"""Timeouts of one length for many things, at the price of a dict entry each.

`asyncio.timeout` costs 6.4 us and `call_later` 2.6 us a use, of a publish's 35 us in all, although
nearly every body is there already when it is asked for, and nearly every connection is used again.
As all timeouts here are equally long, the oldest entry of a dict is the next one due, so that one
timer serves all of them.

Used on the event loop's thread only.
"""

import asyncio
from collections.abc import Callable, Iterator
from typing import Generic, Protocol, TypeVar

T = TypeVar("T")
READ_BYTES_MIN = 64 * 1024


class Timeouts(Generic[T]):
    """Tells of each thing that has been between `enter` and `leave` for `seconds`."""

    def __init__(self, seconds: float, on_expired: Callable[[T], object]) -> None:
        """Have `on_expired` called with what has expired, in the event loop of `enter`."""
        self.seconds = seconds
        self._on_expired = on_expired
        self._due: dict[T, float] = {}
        self._timer: asyncio.TimerHandle | None = None

    def enter(self, thing: T, loop: asyncio.AbstractEventLoop) -> None:
        """Start the time of a thing that is not in there."""
        self._due[thing] = loop.time() + self.seconds
        if self._timer is None:
            self._timer = loop.call_later(self.seconds, self._expire, loop)

    def leave(self, thing: T) -> None:
        """End the time of a thing, where it is in there."""
        self._due.pop(thing, None)

    def since(self, thing: T) -> float | None:
        """Return since when a thing is in there, in the loop's time; None where it is not."""
        due = self._due.get(thing)
        return None if due is None else due - self.seconds

    def oldest(self) -> T | None:
        """Return what has been in there for longest; None if nothing is."""
        return next(iter(self._due), None)

    def __iter__(self) -> Iterator[T]:
        """Give those that are in there, the oldest first."""
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
    """A connection to which something was written."""

    @property
    def unread_bytes(self) -> int:
        """How much of it the client has not taken."""
        ...

    def abort(self) -> None:
        """Cut it off."""
        ...


U = TypeVar("U", bound=UnreadOutput)


class SlowReaders(Generic[U]):
    """Connections whose clients have to read before anything else happens on them.

    A client has to take `READ_BYTES_MIN` bytes, or all that there is, in each span of `seconds`. So
    one with a slow line gets a long answer whole, and one that does not read holds nothing.
    """

    def __init__(self, seconds: float, loop: asyncio.AbstractEventLoop) -> None:
        """Look at each after so many seconds."""
        self.since: Timeouts[U] = Timeouts(seconds, self._look)
        self._loop = loop
        self._unread: dict[U, int] = {}

    def enter(self, connection: U) -> None:
        """Give a client its time, from now on."""
        self.leave(connection)
        self._unread[connection] = connection.unread_bytes
        self.since.enter(connection, self._loop)

    def leave(self, connection: U) -> None:
        """Wait no more for a client, where that was waited for."""
        if self._unread.pop(connection, None) is not None:
            self.since.leave(connection)

    def _look(self, connection: U) -> None:
        if self._unread[connection] - connection.unread_bytes < READ_BYTES_MIN:
            self.leave(connection)
            connection.abort()
        else:
            self.enter(connection)
