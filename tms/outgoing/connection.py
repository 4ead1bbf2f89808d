"""One connection to another server: requests are written to it, and their answers read.

An answer that is not exactly as long as it announces is broken, and so is one that announces no
length, because its end cannot be distinguished from a cut. Bytes after an answer, or too many that
are not part of its body, close the connection.

A request may say how long it waits. With `Patience` for a whole answer, at least `bytes_min` bytes
of the request or of the answer must move in each period of `within_s`, so that a server that sends
a byte a second does not hold the caller. For an answer in parts, the limit applies to each part
that the caller waits for.
"""

import asyncio
import select
from collections.abc import Callable
from contextlib import suppress
from typing import NamedTuple, Protocol, cast

from httptools import HttpParserError, HttpParserUpgrade, HttpResponseParser

from tms.outgoing.answer import Answer, BrokenAnswer, reason_of

BESIDES_BYTES_MAX = 64 * 1024
"""The most bytes of an answer in a row that are not part of its body: the head, for example."""
CLOSED = "the server closed the connection"
UNFRAMED = "the answer is not valid: it does not say how long it is"
PROGRESS_BYTES = 64 * 1024

_HELD_BYTES_MAX = 64 * 1024
_SLOW = f"less than {PROGRESS_BYTES} bytes of it arrived in time"
_FINAL = 200
_WITHOUT_BODY = (204, 304)


OnWrite = Callable[[bool], object]
"""Called before a part of a request is written, with whether it is the last one."""


class Patience(NamedTuple):
    """How long a request waits for its answer."""

    within_s: float
    bytes_min: int = PROGRESS_BYTES
    """0 if the answer comes in parts, each of which may take `within_s` from its request on."""


class Pool(Protocol):
    """The owner of connections."""

    loop: asyncio.AbstractEventLoop
    takes_unframed: bool
    """Whether the body of an answer without a length is passed on, though it ends as broken."""

    def give_back(self, connection: "UpstreamConnection") -> None:
        """Keep a connection for the next request."""
        ...

    def left(self, connection: "UpstreamConnection") -> None:
        """Remove a connection that is no longer used."""
        ...


class UpstreamConnection(asyncio.Protocol):
    """A connection. There is one request on it at a time."""

    _transport: asyncio.Transport
    _parser: HttpResponseParser | None

    def __init__(self, pool: Pool) -> None:
        """Create a connection that `pool` owns."""
        self._pool = pool
        self._answer: Answer | None = None
        self._is_head = False
        self._is_sent = False
        self._is_kept = False
        self._is_ended = False
        """Whether the parser has reached the end of the answer."""
        self._besides = 0
        self._is_read_paused = False
        self.is_write_paused = False
        self.is_lost = False
        """Whether it can no longer be used."""
        self._readable: select.poll | None = None
        self._patience: Patience | None = None
        self._until_s = 0.0
        self._timer: asyncio.TimerHandle | None = None
        self._arrived = self._unsent = 0
        """Bytes received in the current period, and bytes not yet sent when it began."""
        self.idle_since_s: float | None = None
        """None while there is a request."""
        self.on_write: OnWrite | None = None
        """Called before each part of the current request is written."""

    @property
    def is_closing(self) -> bool:
        """Whether its end has been seen."""
        return self.is_lost or self._transport.is_closing()

    @property
    def is_usable(self) -> bool:
        """Whether nothing has arrived while it was idle: an end that the loop did not see yet."""
        try:
            return not self.is_closing and not (self._readable and self._readable.poll(0))
        except Exception:  # whatever it is, the connection is broken
            return False

    def begin(self, method: str, patience: Patience | None = None) -> Answer:
        """Begin a request; nothing of it has been written."""
        self._is_head = method == "HEAD"
        self._is_sent = self._is_ended = False
        self._besides = self._arrived = self._unsent = 0
        self._answer = Answer(self, self._pool.loop)
        self._patience = patience
        if patience is not None:
            self._allow(patience)
        return self._answer

    def _allow(self, patience: Patience) -> None:
        """Begin a period in which the answer must make progress."""
        self._until_s = until_s = self._pool.loop.time() + patience.within_s
        if self._timer is None or self._timer.when() > until_s:
            if self._timer is not None:
                self._timer.cancel()
            self._timer = self._pool.loop.call_at(until_s, self._look)

    def note_wait(self) -> None:
        """Record that the caller waits for the next part of the answer from now on."""
        if self._patience is not None and not self._patience.bytes_min:
            self._allow(self._patience)

    def _look(self) -> None:
        """Cut the connection if the answer takes too long."""
        self._timer = None
        patience, answer, loop = self._patience, self._answer, self._pool.loop
        if patience is None or answer is None or self.is_lost:
            return
        if loop.time() < self._until_s:
            self._timer = loop.call_at(self._until_s, self._look)
            return
        unsent = self._transport.get_write_buffer_size()
        if not answer.has_waiter:
            self._allow(patience)
        elif patience.bytes_min and self._arrived + self._unsent - unsent >= patience.bytes_min:
            self._arrived, self._unsent = 0, unsent
            self._allow(patience)
        else:
            answer.is_late = True
            silent = f"nothing of the answer arrived within {patience.within_s:g} s"
            self.cut(_SLOW if self._arrived else silent)

    def write(self, data: bytes, *, is_last: bool) -> None:
        """Write a part of the request."""
        if not self.is_lost:
            self._is_sent = is_last
            if self.on_write is not None:
                self.on_write(is_last)
                self.on_write = None if is_last else self.on_write
            self._transport.write(data)
            self._unsent += len(data)

    def read_on(self) -> None:
        """Read on, if reading was paused."""
        if self._is_read_paused and not self.is_lost:
            self._is_read_paused = False
            self._transport.resume_reading()

    def cut(self, reason: str) -> None:
        """Close it; a request without its whole answer fails."""
        if not self.is_lost:
            self._leave(reason)
            with suppress(Exception):  # whatever it is, the connection is given up
                self._transport.abort()

    def _leave(self, reason: str) -> None:
        self.is_lost = True
        self._pool.left(self)
        self._parser = self.on_write = None  # they refer to the connection, and to the request
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        answer, self._answer = self._answer, None
        if answer is not None:
            answer.end(reason)

    # Called by the transport.

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Prepare for requests."""
        self._transport = cast("asyncio.Transport", transport)
        self._parser = HttpResponseParser(self)
        socket = transport.get_extra_info("socket")
        if socket is not None and hasattr(select, "poll"):  # not on Windows
            self._readable = select.poll()
            self._readable.register(socket, select.POLLIN)

    def connection_lost(self, exc: Exception | None) -> None:
        """Fail a request without its whole answer."""
        if not self.is_lost:
            is_unframed = self._answer is not None and self._answer.is_unframed
            closed = UNFRAMED if is_unframed else CLOSED
            self._leave(closed if exc is None else reason_of(exc))

    def pause_writing(self) -> None:
        """Make the request wait."""
        self.is_write_paused = True

    def resume_writing(self) -> None:
        """Let the request continue."""
        self.is_write_paused = False
        if self._answer is not None:
            self._answer.wake()

    def data_received(self, data: bytes) -> None:
        """Parse the bytes received."""
        answer = self._answer
        if answer is None or self._parser is None:
            self.cut("it sent data without a request")
            return
        self._besides += len(data)
        self._arrived += len(data)
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
            self.cut(f"the answer has over {BESIDES_BYTES_MAX} bytes that are not part of its body")
        elif answer.status_code:
            if answer.held_bytes > _HELD_BYTES_MAX and not self._is_read_paused:
                self._is_read_paused = True
                self._transport.pause_reading()
            answer.wake()

    # Called by the parser. An exception there stops it.

    def on_message_begin(self) -> None:
        """Accept nothing after the answer."""
        if self._is_ended:
            raise BrokenAnswer("bytes follow it")

    def on_header(self, name: bytes, value: bytes) -> None:
        """Store a header. Trailers, after the body, are ignored."""
        answer = self._answer
        if answer is not None and not answer.status_code:
            answer.headers.append((name, value))

    def on_headers_complete(self) -> None:
        """Store the head, unless it is an informational one (1xx)."""
        answer, parser = self._answer, self._parser
        assert answer is not None
        assert parser is not None
        status = parser.get_status_code()
        if status < _FINAL:
            answer.forget_head()
            return
        is_without_body = self._is_head or status in _WITHOUT_BODY
        if not is_without_body and answer.value(b"content-length") is None:
            encoding = answer.value(b"transfer-encoding")
            if encoding is None or encoding.strip().lower() != b"chunked":
                if not self._pool.takes_unframed or encoding is not None:
                    raise BrokenAnswer("it does not say how long it is")
                answer.is_unframed = True
        answer.status_code = status
        self._besides = 0
        self._is_ended = is_without_body
        # The parser would wait for a body after an answer to HEAD.
        self._is_kept = not self._is_head and parser.should_keep_alive()

    def on_body(self, part: bytes) -> None:
        """Append a part of the body."""
        if self._is_ended or self._answer is None:
            raise BrokenAnswer("it has a body, which it must not have")
        self._besides = 0
        self._answer.take(part)

    def on_message_complete(self) -> None:
        """Record the end, unless it is that of an informational head (1xx)."""
        if self._answer is not None and self._answer.status_code:
            self._is_ended = True
