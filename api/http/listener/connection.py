"""One connection: reads requests, passes each to its endpoint, and writes the answers in order.

One request is at work at a time. Bytes after it are held until it is answered, so an error answer
is never written before or within another one. Reading is paused while many bytes are held, or while
more of a body has arrived than its handler has taken.

A request starts when its head is complete; its handler receives the body as it arrives. An answer
that does not wait for the end of the body ends the connection: it says `connection: close`, and the
client's side is read for a moment longer, so that a reset does not lose the answer.

A client that ends only its own side gets the answers to all whole requests that it sent. Every wait
for a client is bounded (`api.http.protocol.connections`). `api.http.protocol.connection_state` has
the states and their order. Used on the event loop's thread alone.
"""

import asyncio
import logging

from api.http.application import Application
from api.http.endpoint import Endpoint
from api.http.exchange import Exchange
from api.http.protocol.answer import CONTINUE, lines
from api.http.protocol.client_wire import ClientWire
from api.http.protocol.connection_state import (
    CLOSING,
    ENDING,
    IDLE,
    LINGERING,
    LOST,
    RECEIVING,
    STREAMING,
    WORKING,
)
from api.http.protocol.connections import Connections
from api.http.protocol.framing import framing_of
from api.http.protocol.head import Head
from api.http.protocol.head_cache import HeadReader
from api.http.protocol.incoming_body import IncomingBody
from api.http.protocol.taskless import TasklessCall
from tms.core.errors import InternalError, InvalidRequest, TmsError
from tms.core.runtime.rare_log import RareLog

_HELD_BYTES_MAX = 64 * 1024
"""The most bytes after the running request before reading is paused."""
_REQUESTS_A_TURN = 16
"""The requests of one connection that begin before others get their turn."""

_PATH_CHARS_LOGGED = 200

_broken_off = RareLog(logging.getLogger("tms.api"), "answers broken off", logging.ERROR)


class HttpConnection(ClientWire):
    """HTTP/1.1 on one connection."""

    __slots__ = (
        "_app",
        "_heads",
        "_held",
    )

    def __init__(self, app: Application, shared: Connections) -> None:
        """Answer with `app`."""
        super().__init__(shared)
        self._app = app
        self._heads = HeadReader(shared.heads, shared.head_bytes_max)
        self._held = b""  # bytes after the request that is at work

    # Called by the transport.

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Take a new connection, on which a request must arrive in time."""
        super().connection_made(transport)
        self._shared.entered(self)

    def connection_lost(self, exc: Exception | None) -> None:
        """Wake the code that waits for the client: it is gone."""
        is_at_work = not self.is_idle
        super().connection_lost(exc)
        if self._body is not None:
            self._body.lose()
            self._body = self._body if is_at_work else None

    def eof_received(self) -> bool:
        """Record that the client has ended its side; return whether the connection stays."""
        if self._state is WORKING or (self._state is IDLE and self._held):
            self._is_side_ended = True
            self._wake()
            return True
        if self._state is STREAMING:
            self.abort()
        return self._state is CLOSING

    def data_received(self, data: bytes) -> None:
        """Process received bytes."""
        if self._body is not None:
            self._take(self._body, data)
        elif self._state is IDLE and not self._held:
            self._begin(data)
        elif self._state not in ENDING:
            self._hold(data)

    # Requests.

    def _begin(self, data: bytes) -> None:
        """Begin with the received requests, until one is at work or others get a turn."""
        begun = 0
        try:
            while data and self._state is IDLE:
                if begun == _REQUESTS_A_TURN:
                    self._shared.loop.call_soon(self._go_on)
                    break
                read = self._heads.read(data)
                if read is None:
                    return
                data = self._start(*read)
                begun += 1
        except TmsError as error:
            self.refuse(error)
        except Exception as error:
            _broken_off.add("the head of a request", error)
            self.refuse(InternalError())
        else:
            if data and self._state not in ENDING:
                self._hold(data)

    def _go_on(self) -> None:
        """Continue with the held bytes; end the connection if nothing more can follow them."""
        if self._held and self._state is IDLE:
            data, self._held = self._held, b""
            self.resume_reading()
            self._begin(data)
        if self._is_side_ended and self._state is IDLE and not self._held:
            self.close()

    def _start(self, head: Head, data: bytes) -> bytes:
        """Start a request; return the bytes after it."""
        shared = self._shared
        method, target, fields, authorization = head
        target, _, query = target.partition(b"?")
        path = target.decode("latin-1")
        endpoint, names = self._app.routes.find(method, path)
        is_surplus = bool(shared.surplus) and shared.is_surplus(self, is_probe=endpoint.is_probe)
        shared.idle.leave(self)
        if not fields.keep_alive or shared.is_stopping or is_surplus:
            self._is_last = True
        size = fields.body_bytes
        whole: bytes | None = data[:size]
        if len(data) >= size and not fields.is_chunked:
            data = data[size:]
        else:
            framing = framing_of(fields)
            part, data = framing.feed(data)
            if framing.is_done:
                whole = part
            else:
                whole, expected = None, fields.expects_continue and not part
                self._body = IncomingBody(framing, part, self, expected=expected)
                shared.bodies.enter(self, shared.loop)
                if self._is_side_ended:
                    self._body.lose()
        exchange = Exchange(
            self,
            endpoint,
            method=method,
            path=path,
            query=query,
            names=names,
            fields=fields,
            authorization=authorization,
            whole_body=whole,
        )
        self._become(RECEIVING if whole is None else WORKING)
        running = self._run(exchange, endpoint)
        if whole is not None and endpoint.is_taskless:
            TasklessCall(running, shared.loop, shared.tasks, shared.calls).start()
        else:
            task = shared.loop.create_task(running)
            shared.tasks.add(task)
            task.add_done_callback(shared.tasks.discard)
        return data

    async def _run(self, exchange: Exchange, endpoint: Endpoint) -> None:
        """Call the endpoint; if it does not answer, close the connection."""
        try:
            await endpoint.serve(exchange)
        except Exception as error:
            _broken_off.add(exchange.path[:_PATH_CHARS_LOGGED], error)
        finally:
            if not exchange.is_answered:
                self.close()
            if self.is_lost:
                self._body = None  # which refers to the connection

    def refuse(self, error: TmsError) -> None:
        """Answer bytes that are not a valid request. It is the last answer."""
        self._shared.awaits_no_head(self)
        self._shared.malformed.add(error)
        self._heads.forget()
        self._is_last = True
        status, body, content_type, headers, _ = self._app.error(error)
        head = self.head_start(status, content_type, lines(headers))
        self._write(b"%scontent-length: %d\r\n\r\n%s" % (head, len(body), body))
        self._linger()

    def _hold(self, data: bytes) -> None:
        """Keep bytes after the request that is at work."""
        self._held += data
        if len(self._held) > _HELD_BYTES_MAX:
            self.pause_reading()

    # The body of the request that is at work.

    def _take(self, body: IncomingBody, data: bytes) -> None:
        """Process a part of the body."""
        try:
            rest = data if body.is_complete else body.feed(data)
        except InvalidRequest as error:
            self.fail_body(error)
            return
        if body.is_complete:
            self._shared.bodies.leave(self)
            if self._state is RECEIVING:
                self._become(WORKING)
            if self._state in ENDING:
                self.close()
            elif rest:
                self._hold(rest)

    def fail_body(self, error: InvalidRequest) -> None:
        """Raise `error` in the receiver of the body: no more of it is read."""
        self._shared.bodies.leave(self)
        if self._state in ENDING:
            self.close()
        elif self._body is not None:
            self._body.fail(error)

    def write_continue(self) -> None:
        """Ask the client to send the body."""
        self._write(CONTINUE)

    # Answers.

    def write_last(self, data: bytes) -> None:
        """Write the end of an answer, and continue with the next request."""
        if self._head_written:
            data, self._head_written = self._head_written + data, b""
        if data and self._state is not LOST:
            self._transport.write(data)
        self._shared.requests += 1
        if self._state in ENDING or self._transport.is_closing():
            return
        body = self._body
        if body is not None and body.is_complete:
            if not body.is_received:
                body.discard()  # it may have paused reading, which the next request needs
            self._body = body = None
        if body is not None or (self._held and self._is_last):
            self._linger()
            return
        if self._is_last:
            self.close()
            return
        self._become(IDLE)
        self._shared.idle.enter(self, self._shared.loop)
        if self._held:
            self._go_on()
        elif self._is_side_ended:
            self._shared.loop.call_soon(self._go_on)

    def _linger(self) -> None:
        """End the connection once the client has closed its side, or some time has passed."""
        self._become(LINGERING)
        self._held = b""
        if self._body is not None:
            self._body.discard()
        self._shared.bodies.leave(self)
        self.resume_reading()
        if self._transport.can_write_eof():
            self._transport.write_eof()
        self._shared.lingering.enter(self, self._shared.loop)
