"""One connection: reads requests, has each answered, and writes the answers in order.

One request is at work at a time. What comes behind it is held until it is answered, so an error
answer never stands before or within another's. Reading is paused while much is held, or while more
of a body has come than its handler has taken.

A request begins when its head is there; its handler receives the body as that comes. An answer
that does not wait for the end of the body ends the connection: it says `connection: close`, and the
client's side is read for a moment longer, so that a reset does not lose the answer.
Used on the event loop's thread alone.
"""

import asyncio
import logging
from typing import cast

from api.http.answer import CONTINUE, head_start, lines
from api.http.app import App
from api.http.connections import Connections
from api.http.endpoint import Endpoint
from api.http.exchange import Exchange
from api.http.framing import framing_of
from api.http.head import HEAD_END, Head, PartialHead
from api.http.incoming_body import IncomingBody
from api.http.peer import Peer, peer_of
from api.http.taskless import TasklessCall
from tms.core.errors import InvalidRequest, TmsError, TooLarge
from tms.security.quotas import OpenCount

_HELD_BYTES_MAX = 64 * 1024
"""Of what comes behind the request at work, before reading is paused."""
_REQUESTS_A_TURN = 16
"""So many of one connection begin before others have their turn."""
_SWITCHING = 101

_log = logging.getLogger("tms.api")


class HttpConnection(asyncio.Protocol):
    """HTTP/1.1 on one connection."""

    __slots__ = (
        "_app",
        "_body",
        "_exchange",
        "_gone",
        "_head_written",
        "_held",
        "_is_ending",
        "_is_read_paused",
        "_keep_alive",
        "_partial",
        "_shared",
        "_transport",
        "_upgraded",
        "_writable",
        "is_lost",
        "is_write_paused",
        "open_count",
        "peer",
    )

    _transport: asyncio.Transport
    peer: Peer

    def __init__(self, app: App, shared: Connections) -> None:
        """Answer by `app`."""
        self._app = app
        self._shared = shared
        self._partial: PartialHead | None = None  # the head that is coming, if part of it has come
        self._exchange: Exchange | None = None  # the request that is at work
        self._body: IncomingBody | None = None  # of that request, if more of it is to come
        self._held = b""  # what has come behind the request that is at work
        self._keep_alive = True
        self._is_ending = False  # whether the last answer has been written
        self.is_lost = False
        self.open_count: OpenCount | None = None
        self._is_read_paused = False
        self.is_write_paused = False
        self._head_written = b""  # of an answer; it waits for the first part of the body
        self._writable = asyncio.Event()
        self._gone = asyncio.Event()
        self._upgraded: asyncio.Protocol | None = None

    # What the transport tells.

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Take a new connection, on which there is to be a request in time."""
        self._transport = cast("asyncio.Transport", transport)
        self.peer = peer_of(transport)
        self._shared.entered(self)

    def connection_lost(self, exc: Exception | None) -> None:
        """Wake whoever waits for the client: it is gone."""
        self.is_lost = True
        self._shared.left(self)
        if self.open_count is not None:
            self.open_count.leave()
        if self._body is not None:
            self._body.lose()
        self._gone.set()
        self._writable.set()
        if self._upgraded is not None:
            self._upgraded.connection_lost(exc)

    def pause_writing(self) -> None:
        """Take note that the client does not read what is written."""
        self.is_write_paused = True
        self._writable.clear()
        if self._upgraded is not None:
            self._upgraded.pause_writing()

    def resume_writing(self) -> None:
        """Let answers go on."""
        self.is_write_paused = False
        self._writable.set()
        if self._upgraded is not None:
            self._upgraded.resume_writing()

    def data_received(self, data: bytes) -> None:
        """Take in what has come."""
        if self._upgraded is not None:
            self._upgraded.data_received(data)
        elif self._body is not None:
            self._take(self._body, data)
        elif self._exchange is not None or self._held:
            self._hold(data)
        elif not self._is_ending:
            self._begin(data)

    # Requests.

    def _begin(self, data: bytes) -> None:
        """Begin with the requests that have come, until one is at work or others have a turn."""
        begun = 0
        try:
            while data and self._exchange is None and not self._is_ending:
                if begun == _REQUESTS_A_TURN:
                    self._shared.loop.call_soon(self._go_on)
                    break
                read = self._read_head(data)
                if read is None:
                    return
                data = self._start(*read)
                begun += 1
        except TmsError as error:
            self.refuse(error)
        else:
            if data and not self._is_ending:
                self._hold(data)

    def _go_on(self) -> None:
        """Begin with what was held."""
        if self._held and self._exchange is None:
            data, self._held = self._held, b""
            self.resume_reading()
            self._begin(data)

    def _read_head(self, data: bytes) -> tuple[Head, bytes] | None:
        """Return a head and what comes behind it; None until its end has come."""
        if self._partial is None:
            if data[:1] in b"\r\n":
                data = data.lstrip(b"\r\n")  # empty lines before a request are passed over
                if not data:
                    return None
            end = data.find(HEAD_END) + len(HEAD_END)
            bytes_max = self._shared.head_bytes_max
            if len(HEAD_END) <= end:
                if end > bytes_max:
                    raise TooLarge("head_too_large", request_head_bytes_max=bytes_max)
                return self._shared.heads.parse(data, end), data[end:]
            self._partial = PartialHead(bytes_max)
        read = self._partial.feed(data)
        if read is not None:
            self._partial = None
        return read

    def _start(self, head: Head, data: bytes) -> bytes:
        """Have a request answered; return what comes behind it."""
        shared = self._shared
        method, target, fields, authorization = head
        shared.idle.leave(self)
        self._keep_alive = fields.keep_alive and not shared.is_stopping
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
        target, _, query = target.partition(b"?")
        path = target.decode("latin-1")
        endpoint, names = self._app.find(method, path)
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
        self._exchange = exchange
        running = self._run(exchange, endpoint)
        if whole is not None and endpoint.is_taskless:
            TasklessCall(running, shared.loop, shared.tasks, shared.calls).start()
        else:
            task = shared.loop.create_task(running)
            shared.tasks.add(task)
            task.add_done_callback(shared.tasks.discard)
        return data

    async def _run(self, exchange: Exchange, endpoint: Endpoint) -> None:
        """Have the endpoint answer; if it does not, close the connection."""
        try:
            await endpoint.serve(exchange)
        except Exception:
            _log.exception("an answer was broken off")
        finally:
            if not exchange.is_answered:
                self._exchange, self._is_ending = None, True
                self._transport.close()

    def refuse(self, error: TmsError) -> None:
        """Answer what is no request. It is the last answer."""
        self._shared.idle.leave(self)
        self._shared.malformed.add(error)
        self._partial, self._keep_alive = None, False
        status, body, content_type, headers, _ = self._app.error(error)
        head = self.head_start(status, content_type, lines(headers))
        self._write(b"%scontent-length: %d\r\n\r\n%s" % (head, len(body), body))
        self._linger()

    def _hold(self, data: bytes) -> None:
        """Keep what comes behind the request that is at work."""
        self._held += data
        if len(self._held) > _HELD_BYTES_MAX:
            self.pause_reading()

    # The body of the request that is at work.

    def _take(self, body: IncomingBody, data: bytes) -> None:
        """Take in a part of the body."""
        try:
            behind = data if body.is_complete else body.feed(data)
        except InvalidRequest as error:
            self.fail_body(error)
            return
        if body.is_complete:
            self._shared.bodies.leave(self)
            if self._is_ending:
                self.close()
            elif behind:
                self._hold(behind)

    def fail_body(self, error: InvalidRequest) -> None:
        """Have whoever receives the body get `error`: no more of it is taken."""
        self._shared.bodies.leave(self)
        if self._is_ending:
            self.close()
        elif self._body is not None:
            self._body.fail(error)

    def write_continue(self) -> None:
        """Tell the client to send the body."""
        self._write(CONTINUE)

    @property
    def is_body_read(self) -> bool:
        """Whether all of the body has been received."""
        return self._body is None or self._body.is_received

    async def receive(self) -> bytes | None:
        """Return the next part of the body, nothing behind its end; None if the client is gone.

        Raises `InvalidRequest` (body_too_slow, malformed_request).
        """
        return b"" if self._body is None else await self._body.receive()

    # Answers.

    def head_start(self, status: int, content_type: bytes | None, more: bytes) -> bytes:
        """Return the head of an answer as far as it does not depend on the body."""
        keep_alive = self._keep_alive and (self._body is None or self._body.is_complete)
        return head_start(status, self._shared.date, content_type, keep_alive) + more

    def close_after(self) -> None:
        """Close the connection behind the answer."""
        self._keep_alive = False

    def write_later(self, head: bytes) -> None:
        """Write the head of an answer together with what is written next."""
        self._head_written = head

    def write(self, data: bytes) -> None:
        """Write a part of an answer."""
        if self._head_written:
            data, self._head_written = self._head_written + data, b""
        if data:
            self._write(data)

    def _write(self, data: bytes) -> None:
        if not self.is_lost:
            self._transport.write(data)

    def write_last(self, data: bytes) -> None:
        """Write the end of an answer, and go on with the next request."""
        if self._head_written:
            data, self._head_written = self._head_written + data, b""
        if data and not self.is_lost:
            self._transport.write(data)
        self._exchange = None
        self._shared.requests += 1
        if self.is_lost or self._transport.is_closing():
            return
        body = self._body
        if body is not None and body.is_complete:
            self._body = body = None
        if body is not None or (self._held and not self._keep_alive):
            self._linger()
            return
        if not self._keep_alive:
            self._is_ending = True
            self._transport.close()
            return
        self._shared.idle.enter(self, self._shared.loop)
        if self._held:
            self._go_on()

    def _linger(self) -> None:
        """End the connection once the client has closed its side, or some time has passed."""
        self._is_ending = True
        self._held = b""
        if self._body is not None:
            self._body.discard()
        self._shared.bodies.leave(self)
        self.resume_reading()
        if self._transport.can_write_eof():
            self._transport.write_eof()
        self._shared.lingering.enter(self, self._shared.loop)

    async def drained(self) -> None:
        """Return when the client has read enough of what was written, or is gone."""
        if not self.is_lost:
            await self._writable.wait()

    async def closed(self) -> None:
        """Return when the client is gone."""
        await self._gone.wait()

    def hand_over(self, protocol: asyncio.Protocol, more: bytes) -> None:
        """Answer 101, and let `protocol` have the connection from now on."""
        self._write(head_start(_SWITCHING, self._shared.date, None, True) + more + b"\r\n")
        self._exchange = None
        self._upgraded = protocol
        protocol.connection_made(self._transport)
        if self._held:
            data, self._held = self._held, b""
            protocol.data_received(data)

    # The end.

    @property
    def is_idle(self) -> bool:
        """Whether no request is at work."""
        return self._exchange is None

    def finish(self) -> None:
        """Close now if no request is at work, else behind its answer."""
        self._keep_alive = False
        if self._exchange is None:
            self._transport.close()

    def close(self) -> None:
        """Close the connection behind what was written."""
        self._transport.close()

    def abort(self) -> None:
        """Cut the connection off."""
        self._transport.abort()

    def pause_reading(self) -> None:
        """Read no more for now."""
        if not self._is_read_paused and not self.is_lost:
            self._is_read_paused = True
            self._transport.pause_reading()

    def resume_reading(self) -> None:
        """Read on."""
        if self._is_read_paused and not self.is_lost:
            self._is_read_paused = False
            self._transport.resume_reading()
