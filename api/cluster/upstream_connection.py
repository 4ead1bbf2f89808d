"""One connection to another server: requests are written to it, and their answers read.

An answer that is not exactly as long as it announces is broken, and so is one that announces
nothing, because its end cannot be told from a cut. What comes behind an answer, or besides its body
without an end, ends the connection.
"""

import asyncio
from collections.abc import AsyncIterator, Callable
from typing import Protocol, cast

from httptools import HttpParserError, HttpParserUpgrade, HttpResponseParser

from tms.core.runtime.http_connections import reason_of

BESIDES_BYTES_MAX = 64 * 1024
"""The most bytes of an answer that are none of its body, in a row: its head, to begin with."""
CLOSED = "the other server has closed the connection"

_HELD_BYTES_MAX = 64 * 1024
_FINAL = 200
_WITHOUT_BODY = (204, 304)


OnWrite = Callable[[bool], object]
"""Is told before a part of a request is written, with whether that is the last one."""


class BrokenAnswer(Exception):
    """Raised where the answer, or the rest of it, does not come."""


class Pool(Protocol):
    """Where connections belong."""

    loop: asyncio.AbstractEventLoop

    def give_back(self, connection: "UpstreamConnection") -> None:
        """Keep a connection for the next request."""
        ...

    def left(self, connection: "UpstreamConnection") -> None:
        """Count a connection out: it is not used any more."""
        ...


class Answer:
    """An answer, of which the body may still be on its way."""

    def __init__(self, connection: "UpstreamConnection", loop: asyncio.AbstractEventLoop) -> None:
        """Wait for all of it."""
        self._loop = loop
        self.status_code = 0
        """0 until the whole head is there."""
        self.headers: list[tuple[bytes, bytes]] = []
        """As they came."""
        self.is_complete = False
        """Whether all of it has come."""
        self.held_bytes = 0
        """How much of the body has come, and was not taken."""
        self._connection: UpstreamConnection | None = connection
        self._parts: list[bytes] = []
        self._broken_by: str | None = None
        self._waiter: asyncio.Future[None] | None = None

    def value(self, name: bytes) -> bytes | None:
        """Return the value of the first header of a name in lower case; None if there is none."""
        for key, value in self.headers:
            if key.lower() == name:
                return value
        return None

    @property
    def is_read(self) -> bool:
        """Whether all of it has come and was taken."""
        return self.is_complete and not self._parts

    def aiter_raw(self) -> AsyncIterator[bytes]:
        """Return the body in parts, as they come; the next one may raise `BrokenAnswer`."""
        return self

    def __aiter__(self) -> AsyncIterator[bytes]:
        """Return the body in parts."""
        return self

    async def __anext__(self) -> bytes:
        """Return the next part of the body. Raises `BrokenAnswer`."""
        while not self._parts:
            if self.is_complete:
                raise StopAsyncIteration
            await self.changed()
        part = self._parts[0] if len(self._parts) == 1 else b"".join(self._parts)
        self._parts, self.held_bytes = [], 0
        if self._connection is not None:
            self._connection.read_on()
        return part

    async def aclose(self) -> None:
        """Cut the connection if there is more to come."""
        if self._connection is not None:
            self._connection.cut("the answer was given up")

    async def changed(self) -> None:
        """Return when more has come, or more of the request can be sent. Raises `BrokenAnswer`."""
        if self._broken_by is None:
            self._waiter = self._loop.create_future()
            await self._waiter
        if self._broken_by is not None and not self._parts:
            raise BrokenAnswer(self._broken_by)

    # What its connection tells.

    def take(self, part: bytes) -> None:
        """Take in a part of the body."""
        self._parts.append(part)
        self.held_bytes += len(part)

    def end(self, broken_by: str | None) -> None:
        """Take note that no more comes: it is complete (None), or why it is not."""
        self.is_complete = broken_by is None
        self._broken_by = broken_by
        self._connection = None
        self.wake()

    def wake(self) -> None:
        """Have whoever waits look again."""
        waiter, self._waiter = self._waiter, None
        if waiter is not None and not waiter.done():
            waiter.set_result(None)


class UpstreamConnection(asyncio.Protocol):
    """A connection. There is one request on it at a time."""

    _transport: asyncio.Transport
    _parser: HttpResponseParser | None

    def __init__(self, pool: Pool) -> None:
        """Belong to a pool."""
        self._pool = pool
        self._answer: Answer | None = None
        self._is_head = False
        self._is_sent = False
        self._is_kept = False
        self._is_ended = False
        """Whether the parser has come to the end of the answer."""
        self._besides = 0
        self._is_read_paused = False
        self.is_write_paused = False
        self.is_lost = False
        """Whether it is of no use any more."""
        self.idle_since_s: float | None = None
        """None while there is a request."""
        self.on_write: OnWrite | None = None
        """Is told of what is written of the present request."""

    @property
    def is_closing(self) -> bool:
        """Whether its end has been seen."""
        return self.is_lost or self._transport.is_closing()

    def begin(self, method: str) -> Answer:
        """Begin with a request, of which nothing was written."""
        self._is_head = method == "HEAD"
        self._is_sent = self._is_ended = False
        self._besides = 0
        self._answer = Answer(self, self._pool.loop)
        return self._answer

    def write(self, data: bytes, *, is_last: bool) -> None:
        """Write a part of the request."""
        if not self.is_lost:
            self._is_sent = is_last
            if self.on_write is not None:
                self.on_write(is_last)
                self.on_write = None if is_last else self.on_write
            self._transport.write(data)

    def read_on(self) -> None:
        """Read on, if reading was paused."""
        if self._is_read_paused and not self.is_lost:
            self._is_read_paused = False
            self._transport.resume_reading()

    def cut(self, reason: str) -> None:
        """End it, and break off what was not answered."""
        if not self.is_lost:
            self._leave(reason)
            self._transport.abort()

    def _leave(self, reason: str) -> None:
        self.is_lost = True
        self._pool.left(self)
        self._parser = self.on_write = None  # which know the connection, and the request
        answer, self._answer = self._answer, None
        if answer is not None:
            answer.end(reason)

    # What the transport tells.

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Be ready for a request."""
        self._transport = cast("asyncio.Transport", transport)
        self._parser = HttpResponseParser(self)

    def connection_lost(self, exc: Exception | None) -> None:
        """Break off what was not answered."""
        if not self.is_lost:
            self._leave(CLOSED if exc is None else reason_of(exc))

    def pause_writing(self) -> None:
        """Have the request wait."""
        self.is_write_paused = True

    def resume_writing(self) -> None:
        """Let the request go on."""
        self.is_write_paused = False
        if self._answer is not None:
            self._answer.wake()

    def data_received(self, data: bytes) -> None:
        """Take in what has come."""
        answer = self._answer
        if answer is None or self._parser is None:
            self.cut("it answers though nobody has asked")
            return
        self._besides += len(data)
        broken_by = None
        try:
            self._parser.feed_data(data)
        except (HttpParserError, HttpParserUpgrade) as error:
            broken_by = f"the answer is not valid: {reason_of(error.__context__ or error)}"
        if self._is_ended:
            self._answer = None
            answer.end(None)
            if broken_by is None and self._is_kept and self._is_sent and not self.is_closing:
                self.read_on()
                self._pool.give_back(self)
            else:
                self.cut(CLOSED)
        elif broken_by is not None:
            self.cut(broken_by)
        elif self._besides > BESIDES_BYTES_MAX:
            self.cut(f"the answer has over {BESIDES_BYTES_MAX} bytes besides its body")
        elif answer.status_code:
            if answer.held_bytes > _HELD_BYTES_MAX and not self._is_read_paused:
                self._is_read_paused = True
                self._transport.pause_reading()
            answer.wake()

    # What the parser tells. What is raised there ends its work.

    def on_message_begin(self) -> None:
        """Take nothing behind the answer."""
        if self._is_ended:
            raise BrokenAnswer("something comes behind it")

    def on_header(self, name: bytes, value: bytes) -> None:
        """Take in a header. Those behind the body are left out."""
        answer = self._answer
        if answer is not None and not answer.status_code:
            answer.headers.append((name, value))

    def on_headers_complete(self) -> None:
        """Take in the head, unless it only says that another is to come."""
        answer, parser = self._answer, self._parser
        assert answer is not None
        assert parser is not None
        status = parser.get_status_code()
        if status < _FINAL:
            answer.headers = []
            return
        is_without_body = self._is_head or status in _WITHOUT_BODY
        if not is_without_body and answer.value(b"content-length") is None:
            encoding = answer.value(b"transfer-encoding")
            if encoding is None or encoding.strip().lower() != b"chunked":
                raise BrokenAnswer("it does not say how long it is")
        answer.status_code = status
        self._besides = 0
        self._is_ended = is_without_body
        # Of an answer to HEAD the parser waits for the body.
        self._is_kept = not self._is_head and parser.should_keep_alive()

    def on_body(self, part: bytes) -> None:
        """Take in a part of the body."""
        if self._is_ended or self._answer is None:
            raise BrokenAnswer("it has a body, which it must not have")
        self._besides = 0
        self._answer.take(part)

    def on_message_complete(self) -> None:
        """Take note of the end, unless it is that of a head before the answer."""
        if self._answer is not None and self._answer.status_code:
            self._is_ended = True
