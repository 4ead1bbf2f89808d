"""The end of each wait for a client that does not read what is written to it.

A client has to take `READ_BYTES_MIN` bytes, or all that there is, in each span of `seconds`. So one
with a slow line gets a long answer whole, and one that does not read holds nothing.
"""

import asyncio
from typing import Generic, Protocol, TypeVar

from api.http.protocol.timeouts import Timeouts

READ_BYTES_MIN = 64 * 1024


class UnreadOutput(Protocol):
    """A connection to which something was written."""

    @property
    def unread_bytes(self) -> int:
        """How much of it the client has not taken."""
        ...

    def abort(self) -> None:
        """Cut it off."""
        ...


T = TypeVar("T", bound=UnreadOutput)


class SlowReaders(Generic[T]):
    """Connections whose clients have to read before anything else happens on them."""

    def __init__(self, seconds: float, loop: asyncio.AbstractEventLoop) -> None:
        """Look at each after so many seconds."""
        self.since: Timeouts[T] = Timeouts(seconds, self._look)
        self._loop = loop
        self._unread: dict[T, int] = {}

    def enter(self, connection: T) -> None:
        """Give a client its time, from now on."""
        self.leave(connection)
        self._unread[connection] = connection.unread_bytes
        self.since.enter(connection, self._loop)

    def leave(self, connection: T) -> None:
        """Wait no more for a client, where that was waited for."""
        if self._unread.pop(connection, None) is not None:
            self.since.leave(connection)

    def _look(self, connection: T) -> None:
        if self._unread[connection] - connection.unread_bytes < READ_BYTES_MIN:
            self.leave(connection)
            connection.abort()
        else:
            self.enter(connection)
