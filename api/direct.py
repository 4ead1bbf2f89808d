"""Answers small requests of the hot endpoints without the detour through ASGI.

For each request uvicorn makes a task, a scope, an event, and messages for its parts and those of
its answer: about half of what a small publish costs. Here a request whose body comes with its head
goes to its endpoint while the socket is read, and its answer to the socket in one piece. Whatever
is not as simple as that goes uvicorn's way: a poll that waits, a body that is large, encoded or
still under way, a client that expects a 100, an answer that is to be compressed. Endpoints, errors,
metrics and what is sent are the same either way. A head that came before is not even parsed
(`api.known_heads`).

An endpoint runs without a task while it can (`api.runs`), so it must not ask for its task before it
waits a second time.
"""

import asyncio
import math
from collections.abc import Callable, Iterable
from functools import lru_cache
from typing import Any, NamedTuple, Protocol

from starlette.types import ASGIApp, Receive, Scope, Send
from uvicorn.protocols.http.httptools_impl import STATUS_LINE, RequestResponseCycle

from api.content import takes_gzip
from api.deadlines import Timeouts
from api.endpoint import Endpoint
from api.errors import error_body
from api.exchange import JSON_TYPE, Exchange
from api.joined_writes import JoinedWritesProtocol
from api.known_heads import (
    HEAD_BYTES_MAX,
    HEAD_END,
    Fields,
    KnownHeads,
    SimpleHead,
    Target,
)
from api.runs import Run
from tms.core.errors import InvalidRequest, TmsError, TooLarge

_BODY_BYTES_MAX = 64 * 1024
_NOT_SIMPLE = frozenset((b"transfer-encoding", b"content-encoding", b"expect", b"upgrade"))
_WAITS = b"wait"
"""Names the query's value that makes a poll wait, for which it needs a task."""
_HEADS_KEPT = 64


class HotEndpoint(NamedTuple):
    """An endpoint that a path leads to without the router."""

    endpoint: Endpoint
    app: ASGIApp
    """The same, where its answers may have to be compressed."""
    path_params: dict[str, str]


class HotApp(Protocol):
    """An application whose hot endpoints can be found."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        ...

    def find(self, path: str) -> HotEndpoint | None:
        """Return the endpoint that a POST to `path` goes to, None where the router is to say."""
        ...


class DirectProtocol(JoinedWritesProtocol):
    """uvicorn's HTTP/1.1, with the short way for what is simple."""

    def __init__(
        self,
        *args: Any,
        idle: "Timeouts[DirectProtocol]",
        head_bytes_max: int,
        runs: set[Run],
        known_heads: KnownHeads,
        **kwargs: Any,
    ) -> None:
        """Take part in `idle` while no request is under way; refuse heads over a size.

        Requests that wait without a task are in `runs` meanwhile.
        """
        super().__init__(*args, **kwargs)
        self._idle = idle
        self._runs = runs
        self._known_heads = known_heads
        self._head_bytes_max = head_bytes_max
        self._known_bytes_max = min(head_bytes_max, HEAD_BYTES_MAX)
        self._find_hot: Callable[[str], HotEndpoint | None] = getattr(self.app, "find", _nowhere)
        self._is_between = True
        """Whether what comes next begins a request."""
        self._head: SimpleHead | None = None
        """Of the request whose body is being read, if it is a simple one."""
        self._body = b""
        self._answered: SimpleHead | None = None
        """Of the last request that went the short way."""
        self._defaults: list[tuple[bytes, bytes]] | None = None
        self._defaults_head = b""
        self._head_bytes: float = 0
        """Of a head that is under way; far below where there is none."""
        self._arrived_bytes = 0
        """What came last."""
        self._refusal: TmsError | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Take a new connection, on which there is to be a request in time."""
        super().connection_made(transport)
        self._idle.enter(self, self.loop)

    @property
    def defaults_head(self) -> bytes:
        """The headers that all answers have; uvicorn makes a new list of them each second."""
        defaults = self.server_state.default_headers
        if defaults is not self._defaults:
            self._defaults = defaults
            self._defaults_head = b"".join([b"%s: %s\r\n" % field for field in defaults])
        return self._defaults_head

    def end(self) -> None:
        """End a connection that had no request for too long."""
        self.transport.close()

    def connection_lost(self, exc: Exception | None) -> None:
        """Take no more part."""
        self._idle.leave(self)
        super().connection_lost(exc)

    def on_response_complete(self) -> None:
        """Go on with the next request, or wait for one. As uvicorn, but for the timer."""
        self.server_state.total_requests += 1
        if self.transport.is_closing():
            return
        if self.flow.read_paused:
            self.flow.resume_reading()
        if self.pipeline:
            self._start_asgi_task(*self.pipeline.pop())
        else:
            self._idle.enter(self, self.loop)

    def data_received(self, data: bytes) -> None:
        """Take in what has come."""
        end = data.find(HEAD_END, 0, self._known_bytes_max) if self._is_between else -1
        if end < 0:
            self._parse(data)
            return
        behind = end + len(HEAD_END)
        body_bytes = len(data) - behind
        known = self._known_heads.find(data, end)
        if known is not None and known[1].body_bytes == body_bytes and not self._is_busy():
            self._idle.leave(self)
            self._answer(known, data[behind:])
            return
        self._answered = None
        self._parse(data)
        answered = self._answered
        # Where it is so long, nothing else was in the data.
        if answered is not None and answered[1].body_bytes == body_bytes:
            self._known_heads.keep(data[:end], self.url, answered)

    def _parse(self, data: bytes) -> None:
        self._arrived_bytes = len(data)
        self._head_bytes += len(data)
        super().data_received(data)
        if self._head_bytes > self._head_bytes_max and not self.transport.is_closing():
            self._refuse(self._head_too_large())
        if self._head is not None:
            self._head = None
            self._go_by_asgi()
            if self._body:
                super().on_body(self._body)

    def send_400_response(self, msg: str) -> None:
        """Refuse what the parser, or a callback of it, did not take."""
        self._refuse(self._refusal or InvalidRequest("malformed_request", reason=msg))

    def _head_too_large(self) -> TmsError:
        return TooLarge("head_too_large", request_head_bytes_max=self._head_bytes_max)

    def _refuse(self, error: TmsError) -> None:
        body = error_body(error)
        head = _head(error.status, self.defaults_head, JSON_TYPE, False)
        self.write_whole(b"%scontent-length: %d\r\n\r\n%s" % (head, len(body), body))
        self.transport.close()

    def on_message_begin(self) -> None:
        """Begin with a head. Its scope is made where it is known to be wanted."""
        self._is_between = False
        self.url = b""
        self.headers = []
        self._head_bytes = 0

    def on_headers_complete(self) -> None:
        """Look where the request goes."""
        self._idle.leave(self)
        if max(self._arrived_bytes, self._head_bytes) > self._head_bytes_max:
            self._check_head()
        self._head_bytes = -math.inf
        self._head = self._simple_head()
        if self._head is None:
            self._go_by_asgi()
        else:
            self._body = b""

    def _check_head(self) -> None:
        """Refuse a head that came whole, with its body or others' requests, and is too large."""
        fields = sum(len(name) + len(value) for name, value in self.headers)
        if len(self.url) + fields > self._head_bytes_max:
            self._refusal = self._head_too_large()
            raise self._refusal

    def _go_by_asgi(self) -> None:
        url, headers = self.url, self.headers
        super().on_message_begin()
        self.url = url
        for name, value in headers:
            super().on_header(name, value)
        super().on_headers_complete()

    def on_header(self, name: bytes, value: bytes) -> None:
        """Take in a header."""
        self.headers.append((name.lower(), value))

    def _is_busy(self) -> bool:
        return self.cycle is not None and not self.cycle.response_complete

    def _simple_head(self) -> SimpleHead | None:
        parser, url = self.parser, self.url
        if self._is_busy() or parser.get_method() != b"POST" or b"%" in url or b"#" in url:
            return None
        raw_path, _, query = url.partition(b"?")
        if _WAITS in query:
            return None
        path = raw_path.decode("latin-1")
        found = self._find_hot(path)
        if found is None or parser.get_http_version() != "1.1":
            return None
        values = dict(self.headers)
        fields = Fields(
            values,
            int(values.get(b"content-length", b"0")),
            parser.should_keep_alive(),
            takes_gzip(values.get(b"accept-encoding", b"")),
        )
        may_compress = found.app is not found.endpoint
        if (
            fields.body_bytes > _BODY_BYTES_MAX
            or not values.keys().isdisjoint(_NOT_SIMPLE)
            or (may_compress and fields.takes_gzip)
        ):
            return None
        scope = {
            "method": "POST",
            "path": path,
            "path_params": found.path_params,
            "query_string": query,
        }
        return Target(found.endpoint, scope, may_compress), fields

    def on_body(self, body: bytes) -> None:
        """Take in a part of the body."""
        if self._head is None:
            super().on_body(body)
        else:
            self._body += body

    def on_message_complete(self) -> None:
        """Have the request answered."""
        self._is_between = True
        head, self._head = self._head, None
        if head is None:
            super().on_message_complete()
        else:
            self._answered = head
            self._answer(head, self._body)

    def _answer(self, head: SimpleHead, body: bytes) -> None:
        target, fields = head
        exchange = DirectExchange(self, target, fields, body)
        self.cycle = exchange  # type: ignore[assignment]  # it has what uvicorn asks of one here
        Run(exchange.run(target.endpoint), self.loop, self.tasks, self._runs).start()


def _nowhere(_: str) -> HotEndpoint | None:
    return None


class _Nobody:
    """Who waits for more of a request that is there."""

    def set(self) -> None:
        """Wake nobody."""


class DirectExchange(Exchange):
    """A request that is there, and its answer, which is written at once.

    It stands where uvicorn keeps the cycle of a connection's request, until the answer turns out to
    be a stream: that is left to a cycle.
    """

    __slots__ = ("_cycle", "_protocol", "disconnected", "keep_alive", "response_complete")

    message_event = _Nobody()

    def __init__(
        self, protocol: DirectProtocol, target: Target, fields: Fields, body: bytes
    ) -> None:
        super().__init__(
            target.endpoint.context,
            target.scope,
            _no_more,
            _no_message,
            fields.values,
            whole_body=body,
        )
        self._protocol = protocol
        self._cycle: RequestResponseCycle | None = None
        self.disconnected = False
        self.response_complete = False
        self.keep_alive = fields.keep_alive

    async def run(self, endpoint: Endpoint) -> None:
        """Have the endpoint answer; where it does not, end the connection."""
        transport = self._protocol.transport
        try:
            await endpoint.serve(self)
        except BaseException as error:
            transport.close()
            if isinstance(error, Exception):
                self._protocol.logger.exception("an answer was broken off")
                return
            raise
        state = self._cycle or self
        if not (state.response_complete or state.disconnected):
            transport.close()

    async def answer(
        self,
        status: int,
        body: bytes = b"",
        content_type: bytes | None = None,
        headers: Iterable[tuple[bytes, bytes]] = (),
    ) -> None:
        """Send the whole answer."""
        protocol = self._protocol
        if protocol.flow.write_paused:
            await protocol.flow.drain()
        self.status = status
        self.bytes_out += len(body)
        if self.disconnected:
            return
        head = _head(status, protocol.defaults_head, content_type, self.keep_alive)
        more = b"".join([b"%s: %s\r\n" % field for field in headers]) if headers else b""
        protocol.write_whole(b"%s%scontent-length: %d\r\n\r\n%s" % (head, more, len(body), body))
        self.response_complete = True
        if not self.keep_alive:
            protocol.transport.close()
        protocol.on_response_complete()

    async def start_stream(self, content_type: bytes) -> None:
        """Start an answer of unknown length, by uvicorn."""
        protocol = self._protocol
        self._cycle = cycle = RequestResponseCycle(
            scope=self.scope,  # type: ignore[arg-type]  # the method is all that is asked of it
            transport=protocol.transport,
            flow=protocol.flow,
            logger=protocol.logger,
            access_logger=protocol.access_logger,
            access_log=False,
            default_headers=protocol.server_state.default_headers,
            message_event=asyncio.Event(),
            expect_100_continue=False,
            keep_alive=self.keep_alive,
            on_response=protocol.on_response_complete,
        )
        cycle.more_body = False
        cycle.disconnected = self.disconnected
        # Behind it there may be the next one already, which waits for this.
        if protocol.cycle is self:  # type: ignore[comparison-overlap]
            protocol.cycle = cycle
        self.receive, self._send = cycle.receive, cycle.send  # type: ignore[assignment]
        await super().start_stream(content_type)


@lru_cache(_HEADS_KEPT)
def _head(status: int, defaults: bytes, content_type: bytes | None, keep_alive: bool) -> bytes:  # noqa: FBT001  a key
    head = STATUS_LINE[status] + defaults
    if content_type is not None:
        head += b"content-type: %s\r\n" % content_type
    return head if keep_alive else head + b"connection: close\r\n"


async def _no_more() -> Any:
    raise AssertionError("the whole request has been read")


async def _no_message(_: Any) -> None:
    raise AssertionError("an answer is written, not told of")
