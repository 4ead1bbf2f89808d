"""A connection as a stream of bytes: its state, its flow in both directions, and its end.

It is the part of a connection that exchanges use; `api.http.listener.connection` creates exchanges.

A connection is closed when its client has read everything written, over TLS too, whose transports
would drop the rest after a second. Code that waits for the client checks again after each change
(`_wake`). Used on the event loop's thread alone.
"""

import asyncio
from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import cast

from api.http.protocol.answer import head_start
from api.http.protocol.connection_state import (
    AT_WORK,
    CLOSING,
    IDLE,
    LOST,
    STREAMING,
    ConnectionState,
)
from api.http.protocol.connections import Connections
from api.http.protocol.incoming_body import IncomingBody
from api.http.protocol.peer import Peer, peer_of
from tms.core.errors import InvalidRequest, TmsError
from tms.security.quotas import OpenCount


class ClientWire(asyncio.Protocol, ABC):
    """The connection to one client."""

    __slots__ = (
        "_body",
        "_head_written",
        "_is_draining",
        "_is_last",
        "_is_side_ended",
        "_open_count",
        "_shared",
        "_state",
        "_transport",
        "_waiters",
        "is_of_server",
        "is_write_paused",
        "on_change",
        "peer",
    )

    _transport: asyncio.Transport
    peer: Peer

    def __init__(self, shared: Connections) -> None:
        """Start without a request."""
        self._shared = shared
        self._state = IDLE
        self._is_last = False  # whether the connection ends after the answer at work
        self._is_side_ended = False  # whether the client has ended its side
        self._body: IncomingBody | None = None  # of the request at work, if it is not complete
        self._head_written = b""  # of an answer; it waits for the first part of the body
        self._waiters: list[asyncio.Future[None]] = []  # of code that waits for the client
        self.on_change: Callable[[], None] | None = None  # is called when they are woken
        self._is_draining = False  # whether the answer waits for the client to read
        self.is_write_paused = False
        self.is_of_server = False
        self._open_count: OpenCount | None = None  # where it is counted, if it is

    def _become(self, state: ConnectionState) -> None:
        assert state in self._state.followers, (self._state, state)
        self._state = state

    @abstractmethod
    def refuse(self, error: TmsError) -> None:
        """Answer bytes that are not a valid request. It is the last answer."""

    @abstractmethod
    def fail_body(self, error: InvalidRequest) -> None:
        """Raise `error` in the receiver of the body: no more of it is read."""

    @abstractmethod
    def write_last(self, data: bytes) -> None:
        """Write the end of an answer, and continue with the next request."""

    # Called by the transport.

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Take a new connection."""
        self._transport = cast("asyncio.Transport", transport)
        self.peer = peer_of(transport)

    def connection_lost(self, exc: Exception | None) -> None:  # noqa: ARG002  asyncio's
        """Wake the code that waits for the client: it is gone."""
        self._become(LOST)
        self._shared.left(self)
        if self._open_count is not None:
            self._open_count.leave()
        self._wake()

    def pause_writing(self) -> None:
        """Record that the client does not read. It must do so in time."""
        self.is_write_paused = True
        self._shared.unread.enter(self)

    def resume_writing(self) -> None:
        """Continue with answers, or end the connection if there are no more."""
        self.is_write_paused = False
        self._shared.unread.leave(self)
        if self._state is CLOSING:
            self._shared.loop.call_soon(self._transport.close)
        self._wake()

    def _write(self, data: bytes) -> None:
        if self._state is not LOST:
            self._transport.write(data)

    def count_among(self, count: OpenCount) -> None:
        """Count it among the current caller's connections. Raises `RateExceeded`."""
        before = self._open_count
        if before is None or before.principal != count.principal:
            count.enter()
            if before is not None:
                before.leave()
            self._open_count = count

    @property
    def open_connections(self) -> int:
        """The number of the server's open connections."""
        return len(self._shared.open)

    # The request at work.

    @property
    def is_body_read(self) -> bool:
        """Whether all of the body has been received."""
        return self._body is None or self._body.is_received

    async def receive(self) -> bytes | None:
        """Return the next part of the body, empty after its end; None if the client is gone.

        Raises `InvalidRequest` (body_too_slow, malformed_request).
        """
        return b"" if self._body is None else await self._body.receive()

    # Its answer.

    def head_start(self, status: int, content_type: bytes | None, more: bytes) -> bytes:
        """Return the head of an answer as far as it does not depend on the body."""
        goes_on = not self._is_last and (self._body is None or self._body.is_complete)
        return head_start(status, self._shared.date, content_type, goes_on) + more

    def start_stream(self) -> bool:
        """Begin an answer of unknown length; return whether the client can still get it."""
        if self._is_side_ended or self._state is LOST:
            return False
        self._become(STREAMING)
        return True

    def close_after(self) -> None:
        """Close the connection after the answer."""
        self._is_last = True

    def write_later(self, head: bytes) -> None:
        """Write the head of an answer together with the next write."""
        self._head_written = head

    def write(self, data: bytes) -> None:
        """Write a part of an answer."""
        if self._head_written:
            data, self._head_written = self._head_written + data, b""
        if data:
            self._write(data)

    # Waiting for the client.

    async def drained(self) -> None:
        """Return when the client has read enough of the output, or is gone."""
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
        await self._wait_until(lambda: self.is_ended)

    async def _wait_until(self, is_so: Callable[[], bool]) -> None:
        while not is_so():
            waiter = self._shared.loop.create_future()
            self._waiters.append(waiter)
            try:
                await waiter
            finally:
                if waiter in self._waiters:  # it was cancelled
                    self._waiters.remove(waiter)

    def _wake(self) -> None:
        """Make the code that waits for the client check again."""
        waiters, self._waiters = self._waiters, []
        for waiter in waiters:
            if not waiter.done():
                waiter.set_result(None)
        if self.on_change is not None:
            self.on_change()

    # The end.

    @property
    def is_ended(self) -> bool:
        """Whether the client has ended its side, or is gone."""
        return self._is_side_ended or self.is_lost

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
        """The bytes written that the client has not read."""
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
        """Close now if no request is at work, else after its answer."""
        self._is_last = True
        if self.is_idle:
            self.close()

    def close(self) -> None:
        """Close the connection after the pending output. Closing twice is the same as once."""
        if self._state in (CLOSING, LOST):
            return
        self._become(CLOSING)
        if self._transport.get_write_buffer_size():
            self._shared.unread.enter(self)
            self._transport.set_write_buffer_limits(0)  # `resume_writing` is called at the end
        else:
            self._transport.close()

    def abort(self) -> None:
        """Cut the connection off."""
        self._transport.abort()

    def pause_reading(self) -> None:
        """Stop reading for now."""
        if self._state is not LOST:
            self._transport.pause_reading()

    def resume_reading(self) -> None:
        """Continue reading, unless the client has ended its side."""
        if self._state is not LOST and not self._is_side_ended:
            self._transport.resume_reading()
