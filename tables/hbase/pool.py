"""The connections to one gateway, which several stores of a process may share.

1. Each user of the pool can have its `own` number of connections at any time, however many calls of
   others hang. More connections come out of `spare`, which all users share, and no user has more
   than its `size`. So a shard that hangs holds up no other.
2. An idle connection may be used by any user. One that was idle for `idle_s_max` is not used again.
3. When a connection fails, all idle ones are dropped too: a restarted gateway has forgotten them
   all.

Used from any thread.
"""

import math
import ssl
import time
from contextlib import suppress
from threading import Condition
from typing import Any, Literal

import happybase
from thriftpy2.thrift import TException

from tables.hbase.tls import TlsConnection


class ConnectionPool:
    """Connections to one gateway."""

    def __init__(
        self,
        host: str,
        port: int,
        *,
        spare: float = math.inf,
        timeout_s: float = 30.0,
        transport: Literal["buffered", "framed"] = "buffered",
        protocol: Literal["binary", "compact"] = "binary",
        tls: ssl.SSLContext | None = None,
        idle_s_max: float = math.inf,
    ) -> None:
        """Keep the arguments, including those of `happybase.Connection`; connect on first use."""
        self.tls = tls
        """None if calls are not encrypted."""
        self._spare = spare
        self._idle_s_max = idle_s_max
        self._options = {
            "host": host,
            "port": port,
            "timeout": int(timeout_s * 1000),
            "transport": transport,
            "protocol": protocol,
            "autoconnect": False,
        }
        self.changed = Condition()
        self.users: set[Share] = set()
        self._idle: list[tuple[float, Any]] = []
        """Idle connections, each with the time of its last use; the latest is last."""

    @property
    def has_spare(self) -> bool:
        """Whether a user that has all of its own may take one more."""
        return sum(max(0, user.used - user.own) for user in self.users) < self._spare

    def connect(self) -> Any:
        """Return a new connection, which is not open yet."""
        if self.tls is None:
            return happybase.Connection(**self._options)
        return TlsConnection(self.tls, **self._options)

    def take_idle(self) -> Any:
        """Return the connection used last, None if none is fresh enough."""
        with self.changed:
            self._drop_stale()
            return self._idle.pop()[1] if self._idle else None

    def keep(self, connection: Any) -> None:
        """Return a connection to the pool."""
        with self.changed:
            self._idle.append((time.monotonic(), connection))
            self._drop_stale()

    def _drop_stale(self) -> None:
        before_s = time.monotonic() - self._idle_s_max
        fresh = next((at for at, (used_s, _) in enumerate(self._idle) if used_s > before_s), None)
        stale = self._idle[:fresh]
        del self._idle[:fresh]
        for _, connection in stale:
            _close(connection)

    def drop(self, connection: Any) -> None:
        """Close a connection that has failed, and all idle ones."""
        _close(connection)
        self.close_idle()

    def close_idle(self) -> None:
        """Close the idle connections."""
        with self.changed:
            idle, self._idle = self._idle, []
        for _, connection in idle:
            _close(connection)


class Share:
    """The part of a pool that one user may have, from its first use until `end`."""

    def __init__(self, pool: ConnectionPool, size: int, own: int) -> None:
        """Use at most `size` connections at once, of which `own` are always available."""
        self._pool = pool
        self._size = size
        self.own = own
        self.used = 0
        """The number of connections it has now."""

    def enter(self, timeout_s: float) -> bool:
        """Wait until one more connection may be taken; return False on a timeout."""
        pool = self._pool
        with pool.changed:
            pool.users.add(self)
            is_free = pool.changed.wait_for(self._has_room, timeout_s)
            self.used += is_free
            return is_free

    def _has_room(self) -> bool:
        return self.used < self._size and (self.used < self.own or self._pool.has_spare)

    def leave(self) -> None:
        """Release one connection."""
        with self._pool.changed:
            self.used -= 1
            self._pool.changed.notify_all()

    def end(self) -> None:
        """Stop using the pool; its last user closes the idle connections."""
        with self._pool.changed:
            self._pool.users.discard(self)
            is_last = not self._pool.users
        if is_last:
            self._pool.close_idle()


def _close(connection: Any) -> None:
    if connection is not None:
        with suppress(TException, OSError):
            connection.close()
