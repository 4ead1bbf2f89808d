"""A connection as a way for bytes: its state, its flow in both directions, and its end.

It is what an exchange knows of its connection; `api.http.listener.connection` makes exchanges.

A connection is closed when its client has taken what was written, over TLS too, whose transports
drop the rest of what was written after a second. Code that waits for the client looks again after
each change (`_wake`). Used on the event loop's thread alone.
"""

import asyncio
from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import cast

from api.http.protocol.answer import head_start
from api.http.protocol.connection_state import (
    AT_WORK,
    CLOSING,
    END,
    IDLE,
    LOST,
    NEXT,
    REST,
    STREAMING,
    ConnectionState,
)
from api.http.protocol.connections import Connections
from api.http.protocol.incoming_body import IncomingBody
from api.http.protocol.peer import Peer, peer_of
from tms.core.errors import InvalidRequest, TmsError
from tms.security.quotas import OpenCount


class ClientWire(asyncio.Protocol, ABC):
    """The way to one client."""

    __slots__ = (
        "_body",
        "_head_written",
        "_is_draining",
        "_open_count",
        "_shared",
        "_state",
        "_then",
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
        """Begin without a request."""
        self._shared = shared
        self._state = IDLE
        self._then = NEXT
        self._body: IncomingBody | None = None  # of the request at work, if more of it is to come
        self._head_written = b""  # of an answer; it waits for the first part of the body
        self._waiters: list[asyncio.Future[None]] = []  # those who wait for the client
        self.on_change: Callable[[], None] | None = None  # is told as they are
        self._is_draining = False  # whether the answer waits for the client to read
        self.is_write_paused = False
        self.is_of_server = False
        self._open_count: OpenCount | None = None  # where it is counted, if it is

    def _become(self, state: ConnectionState) -> None:
        assert state in self._state.followers, (self._state, state)
        self._state = state

    @abstractmethod
    def refuse(self, error: TmsError) -> None:
        """Answer what is no request. It is the last answer."""

    @abstractmethod
    def fail_body(self, error: InvalidRequest) -> None:
        """Have whoever receives the body get `error`: no more of it is taken."""

    @abstractmethod
    def write_last(self, data: bytes) -> None:
        """Write the end of an answer, and go on with the next request."""

    # What the transport tells.

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Take a new connection."""
        self._transport = cast("asyncio.Transport", transport)
        self.peer = peer_of(transport)

    def connection_lost(self, exc: Exception | None) -> None:  # noqa: ARG002  asyncio's
        """Wake whoever waits for the client: it is gone."""
        self._become(LOST)
        self._shared.left(self)
        if self._open_count is not None:
            self._open_count.leave()
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

    def count_among(self, count: OpenCount) -> None:
        """Count it among the connections of who asks now. Raises `RateExceeded`."""
        before = self._open_count
        if before is None or before.principal != count.principal:
            count.enter()
            if before is not None:
                before.leave()
            self._open_count = count

    @property
    def open_connections(self) -> int:
        """How many connections the server has open."""
        return len(self._shared.open)

    # The request at work.

    @property
    def is_body_read(self) -> bool:
        """Whether all of the body has been received."""
        return self._body is None or self._body.is_received

    async def receive(self) -> bytes | None:
        """Return the next part of the body, nothing behind its end; None if the client is gone.

        Raises `InvalidRequest` (body_too_slow, malformed_request).
        """
        return b"" if self._body is None else await self._body.receive()

    # Its answer.

    def head_start(self, status: int, content_type: bytes | None, more: bytes) -> bytes:
        """Return the head of an answer as far as it does not depend on the body."""
        goes_on = self._then is not END and (self._body is None or self._body.is_complete)
        return head_start(status, self._shared.date, content_type, goes_on) + more

    def start_stream(self) -> bool:
        """Begin an answer of unknown length; return whether the client is there to get it."""
        if self._then is REST or self._state is LOST:
            return False
        self._become(STREAMING)
        return True

    def close_after(self) -> None:
        """Close the connection behind the answer."""
        self._then = END

    def write_later(self, head: bytes) -> None:
        """Write the head of an answer together with what is written next."""
        self._head_written = head

    def write(self, data: bytes) -> None:
        """Write a part of an answer."""
        if self._head_written:
            data, self._head_written = self._head_written + data, b""
        if data:
            self._write(data)

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
        """Have those who wait for the client look again."""
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
        return self._then is REST or self.is_lost

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
