"""The shared parts of a server's connections: bounds, timers, known heads, the date, and the list.

Guarantees:

1. There are at most `connections_max` at a time, so that descriptors are left for the store.
2. Above nine tenths of that, each new connection replaces one that waits for its client: for a
   request, or for its client to read. `api.http.protocol.eviction` chooses it. A connection whose
   request is at work stays, and so does one from a server of the cluster.
3. If there is no place, `SURPLUS_MAX` more are accepted for probes (`Operation.is_probe`), and are
   closed after the answer. Any other request is refused there. If there are too many of these
   connections, the first one is refused.
4. Each wait for a client is bounded: for a head, a body, the reading of an answer, its end.
"""

import asyncio
import logging
from collections.abc import Iterator
from email.utils import formatdate
from typing import Any, Protocol

from api.http.protocol.eviction import Evictions
from api.http.protocol.head_cache import HeadCache
from api.http.protocol.taskless import TasklessCall
from api.http.protocol.timeouts import SlowReaders, Timeouts, UnreadOutput
from tms.core.errors import InvalidRequest, TmsError, TooManyConnections
from tms.core.limits import Limits
from tms.core.runtime.rare_log import RareLog

_log = logging.getLogger("tms.api")

LINGER_S = 2.0
"""How long the client's side is read after the last answer."""
SURPLUS_MAX = 32
SURPLUS_HEAD_S_MAX = 2.0
"""The time limit of a request's head on a connection beyond `connections_max`."""
_UNREAD_S_MIN = 1.0
"""A client that reads within this time does not count as one that does not read."""


class OpenConnection(UnreadOutput, Protocol):
    """A connection, as other parts see it."""

    is_of_server: bool
    """Whether a server of the cluster opened it."""

    @property
    def address(self) -> str:
        """The IP address of its other end."""
        ...

    @property
    def is_at_work(self) -> bool:
        """Whether a request is at work that does not wait for the client to read."""
        ...

    def close(self) -> None:
        """Close it at once."""
        ...

    def refuse(self, error: TmsError) -> None:
        """Answer an error, and close it."""
        ...

    def fail_body(self, error: InvalidRequest) -> None:
        """Raise `error` in the receiver of the body: no more of it is read."""
        ...

    def finish(self) -> None:
        """Close it once the request at work is answered."""
        ...


class Connections:
    """The connections of one server. Created within its event loop."""

    def __init__(self, limits: Limits, connections_max: int) -> None:
        """Allow `connections_max` connections at a time."""
        self.loop = asyncio.get_running_loop()
        self.head_bytes_max = limits.request_head_bytes_max
        self.heads = HeadCache()
        self.open: set[OpenConnection] = set()
        self.surplus: dict[OpenConnection, None] = {}
        """The connections beyond `connections_max`, in the order of arrival."""
        self.tasks: set[asyncio.Task[Any]] = set()
        """Requests that are at work in a task."""
        self.calls: set[TasklessCall] = set()
        """Requests that wait without a task."""
        self.idle: Timeouts[OpenConnection] = Timeouts(limits.request_head_s_max, _close)
        """Connections without a complete head."""
        self.bodies: Timeouts[OpenConnection] = Timeouts(limits.request_body_s_max, self._too_slow)
        """Connections whose request's body is not complete."""
        self.unread: SlowReaders[OpenConnection] = SlowReaders(limits.request_body_s_max, self.loop)
        """Connections whose client must read."""
        self.lingering: Timeouts[OpenConnection] = Timeouts(LINGER_S, _close)
        """Connections whose last answer was written."""
        surplus_s = min(SURPLUS_HEAD_S_MAX, limits.request_head_s_max)
        self._surplus_idle: Timeouts[OpenConnection] = Timeouts(surplus_s, self._refuse)
        self.malformed = RareLog(_log, "requests that are malformed")
        self.requests = 0
        """The number of requests answered."""
        self.is_stopping = False
        self.date = b""
        """The `date` line of an answer's head."""
        self._connections_max = connections_max
        self._crowded_from = -(-connections_max * 9 // 10)
        self._evictions = Evictions(self._waiting, self._waits_since)
        self.update_date()

    def update_date(self) -> None:
        """Update the date of answers; to be called each second."""
        self.date = b"date: %s\r\n" % formatdate(usegmt=True).encode()

    # Connections that open and close.

    def entered(self, connection: OpenConnection) -> None:
        """Count a new connection, and start the time limit of its first head."""
        if self._places_taken >= self._crowded_from:
            self._evict()
        has_place = self._places_taken < self._connections_max
        self.open.add(connection)
        self._evictions.enter(connection.address)
        if has_place:
            self.idle.enter(connection, self.loop)
            return
        self.surplus[connection] = None
        self._surplus_idle.enter(connection, self.loop)
        if len(self.surplus) > SURPLUS_MAX:
            self._refuse_first()

    def left(self, connection: OpenConnection) -> None:
        """Stop counting a connection, if that was not done yet."""
        self.awaits_no_head(connection)
        self.bodies.leave(connection)
        self.lingering.leave(connection)
        self.unread.leave(connection)
        if connection not in self.open:
            return
        self.open.discard(connection)
        self.surplus.pop(connection, None)
        self._evictions.leave(connection.address)

    def awaits_no_head(self, connection: OpenConnection) -> None:
        """End the time limit of a head."""
        self.idle.leave(connection)
        self._surplus_idle.leave(connection)

    def is_surplus(self, connection: OpenConnection, *, is_probe: bool) -> bool:
        """Whether a connection with a request is surplus, and so is closed after the answer.

        If there is a place again, it becomes an ordinary one. Raises `TooManyConnections` if there
        is none, and the request is not a probe.
        """
        if connection not in self.surplus:
            return False
        self._surplus_idle.leave(connection)
        if self._places_taken < self._connections_max:
            del self.surplus[connection]
            return False
        if not is_probe:
            raise self._too_many
        return True

    @property
    def _places_taken(self) -> int:
        return len(self.open) - len(self.surplus)

    @property
    def _too_many(self) -> TooManyConnections:
        return TooManyConnections(connections_max=self._connections_max)

    def _refuse(self, connection: OpenConnection) -> None:
        connection.refuse(self._too_many)

    def _refuse_first(self) -> None:
        """Close the first surplus connection that has no request at work."""
        first = next(each for each in self.surplus if not each.is_at_work)
        if self._surplus_idle.since(first) is not None:
            first.refuse(self._too_many)
        first.close()
        self.left(first)

    # Eviction.

    def _evict(self) -> None:
        """Cut off the first connection of the eviction order, if there is one."""
        evicted = self._evictions.next(self.loop.time())
        if evicted is not None:
            self.left(evicted)
            evicted.abort()  # over TLS, closing it could take time

    def _waiting(self) -> Iterator[tuple[OpenConnection, str, float]]:
        """Yield the connections that may be evicted, with their addresses and starts of waiting."""
        for timeouts in (self.idle, self.lingering, self.unread.since):
            for timeout in list(timeouts):
                since_s = self._waits_since(timeout)
                if since_s is not None:
                    yield timeout, timeout.address, since_s

    def _waits_since(self, connection: OpenConnection) -> float | None:
        """Return when a connection began to wait for its client; None if it must stay."""
        if connection.is_of_server or connection.is_at_work or connection in self.surplus:
            return None
        since_s = self.unread.since.since(connection)
        if since_s is not None:
            return since_s if since_s + _UNREAD_S_MIN <= self.loop.time() else None
        idle_s = self.idle.since(connection)
        return self.lingering.since(connection) if idle_s is None else idle_s

    def _too_slow(self, connection: OpenConnection) -> None:
        seconds = self.bodies.seconds
        connection.fail_body(InvalidRequest("body_too_slow", request_body_s_max=seconds))


def _close(connection: OpenConnection) -> None:
    connection.close()
