"""A connection as a way for bytes: its state, its flow in both directions, and its end.

A connection is closed when its client has taken what was written, over TLS too, whose transports
drop the rest of what was written after a second. Code that waits for the client looks again after
each change (`_wake`). Used on the event loop's thread alone.
"""

import asyncio
from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import cast

from api.http.connection_state import (
    AT_WORK,
    CLOSING,
    END,
    IDLE,
    LOST,
    NEXT,
    REST,
    ConnectionState,
)
from api.http.connections import Connections
from api.http.peer import Peer, peer_of
from tms.core.errors import InvalidRequest, TmsError
from tms.security.quotas import OpenCount


class ClientWire(asyncio.Protocol, ABC):
    """The way to one client."""

    __slots__ = (
        "_is_draining",
        "_shared",
        "_state",
        "_then",
        "_transport",
        "_waiters",
        "is_of_server",
        "is_write_paused",
        "open_count",
        "peer",
    )

    _transport: asyncio.Transport
    peer: Peer

    def __init__(self, shared: Connections) -> None:
        """Begin without a request."""
        self._shared = shared
        self._state = IDLE
        self._then = NEXT
        self._waiters: list[asyncio.Future[None]] = []  # those who wait for the client
        self._is_draining = False  # whether the answer waits for the client to read
        self.is_write_paused = False
        self.is_of_server = False
        self.open_count: OpenCount | None = None

    def _become(self, state: ConnectionState) -> None:
        assert state in self._state.followers, (self._state, state)
        self._state = state

    @abstractmethod
    def refuse(self, error: TmsError) -> None:
        """Answer what is no request. It is the last answer."""

    @abstractmethod
    def fail_body(self, error: InvalidRequest) -> None:
        """Have whoever receives the body get `error`: no more of it is taken."""

    # What the transport tells.

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Take a new connection."""
        self._transport = cast("asyncio.Transport", transport)
        self.peer = peer_of(transport)

    def connection_lost(self, exc: Exception | None) -> None:  # noqa: ARG002  asyncio's
        """Wake whoever waits for the client: it is gone."""
        self._become(LOST)
        self._shared.left(self)
        if self.open_count is not None:
            self.open_count.leave()
        self._wake()

    def pause_writing(self) -> None:
        """Take note that the client does not read what is written. It has to, in time."""
        self.is_write_paused = True
        self._shared.unread.enter(self)

    def resume_writing(self) -> None:
        """Let answers go on, or end the connection if they were all."""
        self.is_write_paused = False
        self._shared.unread.leave(self)
        if self._state is CLOSING:
            self._shared.loop.call_soon(self._transport.close)
        self._wake()

    def _write(self, data: bytes) -> None:
        if self._state is not LOST:
            self._transport.write(data)

    # Waiting for the client.

    async def drained(self) -> None:
        """Return when the client has read enough of what was written, or is gone."""
        self._is_draining = True
        try:
            await self._wait_until(lambda: not self.is_write_paused or self.is_lost)
        finally:
            self._is_draining = False

    async def closed(self) -> None:
        """Return when the client is gone."""
        await self._wait_until(lambda: self.is_lost)

    async def ended(self) -> None:
        """Return when the client has ended its side, or is gone."""
        await self._wait_until(lambda: self._then is REST or self.is_lost)

    async def _wait_until(self, is_so: Callable[[], bool]) -> None:
        while not is_so():
            waiter = self._shared.loop.create_future()
            self._waiters.append(waiter)
            await waiter

    def _wake(self) -> None:
        """Have those who wait for the client look again."""
        waiters, self._waiters = self._waiters, []
        for waiter in waiters:
            if not waiter.done():
                waiter.set_result(None)

    # The end.

    @property
    def is_lost(self) -> bool:
        """Whether the client is gone."""
        return self._state is LOST

    @property
    def address(self) -> str:
        """The IP address of the client."""
        return self.peer.address

    @property
    def unread_bytes(self) -> int:
        """How much of what was written the client has not taken."""
        return self._transport.get_write_buffer_size()

    @property
    def is_at_work(self) -> bool:
        """Whether a request is at work that does not wait for the client to read."""
        return self._state in AT_WORK and not self._is_draining

    @property
    def is_idle(self) -> bool:
        """Whether no request is at work."""
        return self._state not in AT_WORK

    def finish(self) -> None:
        """Close now if no request is at work, else behind its answer."""
        self._then = END
        if self.is_idle:
            self.close()

    def close(self) -> None:
        """Close the connection behind what was written. Closing twice is the same as once."""
        if self._state in (CLOSING, LOST):
            return
        self._become(CLOSING)
        if self._transport.get_write_buffer_size():
            self._shared.unread.enter(self)
            self._transport.set_write_buffer_limits(0)  # `resume_writing` tells of the end
        else:
            self._transport.close()

    def abort(self) -> None:
        """Cut the connection off."""
        self._transport.abort()

    def pause_reading(self) -> None:
        """Read no more for now."""
        if self._state is not LOST:
            self._transport.pause_reading()

    def resume_reading(self) -> None:
        """Read on, unless the client has ended its side."""
        if self._state is not LOST and self._then is not REST:
            self._transport.resume_reading()
