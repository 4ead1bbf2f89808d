"""What the connections of a server share: bounds, timers, known heads, the date, and each other.

There are at most `connections_max` at a time, so that descriptors are left for the store. One more
takes the place of the one that has been idle for longest; if none is idle, it is told so and
closed.
"""

import asyncio
from email.utils import formatdate
from typing import Any, Protocol

from api.http.head_cache import HeadCache
from api.http.rare_log import RareLog
from api.http.taskless import TasklessCall
from api.http.timeouts import Timeouts
from tms.core.errors import InvalidRequest, TmsError, TooManyConnections
from tms.core.limits import Limits

LINGER_S = 2.0
"""How long a client is listened to after the last answer."""


class OpenConnection(Protocol):
    """A connection, as others see it."""

    def close(self) -> None:
        """Close it at once."""
        ...

    def refuse(self, error: TmsError) -> None:
        """Answer an error, and close it."""
        ...

    def fail_body(self, error: InvalidRequest) -> None:
        """Have whoever receives the body get `error`: no more of it is taken."""
        ...

    def finish(self) -> None:
        """Close it once what is at work is answered."""
        ...

    def abort(self) -> None:
        """Close it, whatever is at work."""
        ...


class Connections:
    """The connections of one server. Made within its event loop."""

    def __init__(self, limits: Limits, connections_max: int) -> None:
        """Allow `connections_max` connections at a time."""
        self.loop = asyncio.get_running_loop()
        self.head_bytes_max = limits.request_head_bytes_max
        self.heads = HeadCache()
        self.open: set[OpenConnection] = set()
        self.tasks: set[asyncio.Task[Any]] = set()
        """Requests that are at work in a task."""
        self.calls: set[TasklessCall] = set()
        """Requests that wait without a task."""
        self.idle: Timeouts[OpenConnection] = Timeouts(limits.request_head_s_max, _close)
        """Connections without a whole head."""
        self.bodies: Timeouts[OpenConnection] = Timeouts(limits.request_body_s_max, self._too_slow)
        """Connections whose request's body has not all come."""
        self.lingering: Timeouts[OpenConnection] = Timeouts(LINGER_S, _close)
        """Connections whose last answer was written."""
        self.malformed = RareLog("requests that are malformed")
        self.requests = 0
        """How many were answered."""
        self.is_stopping = False
        self.date = b""
        """The line of an answer's head that tells the time."""
        self._connections_max = connections_max
        self.tell_time()

    def tell_time(self) -> None:
        """Have answers tell the present time; to be called each second."""
        self.date = b"date: %s\r\n" % formatdate(usegmt=True).encode()

    def entered(self, connection: OpenConnection) -> None:
        """Count a new connection in, and start the time in which its first head has to come."""
        if len(self.open) >= self._connections_max:
            oldest = self.idle.oldest()
            if oldest is None:
                self.open.add(connection)
                connection.refuse(TooManyConnections(connections_max=self._connections_max))
                return
            self.idle.leave(oldest)
            oldest.abort()  # over TLS, one that is closed may take its time
        self.open.add(connection)
        self.idle.enter(connection, self.loop)

    def left(self, connection: OpenConnection) -> None:
        """Count a connection out."""
        self.open.discard(connection)
        for timeouts in (self.idle, self.bodies, self.lingering):
            timeouts.leave(connection)

    def _too_slow(self, connection: OpenConnection) -> None:
        seconds = self.bodies.seconds
        connection.fail_body(InvalidRequest("body_too_slow", request_body_s_max=seconds))


def _close(connection: OpenConnection) -> None:
    connection.close()
