"""The connections to one other server, by HTTP/1.1.

Connections are kept, and each has one request at a time. Both bodies are streamed, and the slower
side holds back the faster one.

`NotSent` says that nothing was sent. After any other error the request may have been carried out,
and it is never sent again. So a kept connection is not reused if anything arrived on it while it
was idle, such as its end. Redirects are answers like any other.

A server may be reached by a proxy: over TLS through a tunnel, so that the proxy sees only the host;
otherwise the proxy is sent the whole URL. Used only on the event loop's thread.
"""

import asyncio
import ssl
from collections import deque
from collections.abc import AsyncIterator, Callable
from socket import SOCK_STREAM
from typing import Any, cast

from aiohappyeyeballs import start_connection

from tms.outgoing.answer import Answer, reason_of
from tms.outgoing.connection import OnWrite, Patience, UpstreamConnection
from tms.outgoing.tunnel import Tunnel
from tms.outgoing.url import Url, parse_url

CONNECTIONS_MAX = 1000
"""Further requests wait for one of this number of connections."""
CONNECT_S_MAX = 5.0
_NEXT_S = 0.25
"""How long one address of a name is tried alone."""
IDLE_S_MAX = 4.0
"""An idle connection is closed long before the other server would close it."""


class NotSent(Exception):
    """Raised if there is no connection: nothing was sent."""


class Upstream:
    """The connections to one server."""

    def __init__(
        self,
        address: str,
        tls: ssl.SSLContext | None = None,
        *,
        proxy: Url | None = None,
        connections_max: float | None = None,
        takes_unframed: bool = False,
    ) -> None:
        """Connect to the URL `address` when a request needs it. Raises `InvalidUrl`.

        An https:// server is checked against the certificates of `tls`, by default the machine's
        own. At most `connections_max` requests are in progress at a time; None means
        `CONNECTIONS_MAX`.
        """
        self._url = url = parse_url(address)
        self._tls = (tls or ssl.create_default_context()) if url.is_secured else None
        self._proxy = proxy
        self._connections_max = connections_max
        self.takes_unframed = takes_unframed
        self._before_target = b""
        self._host_line = b" HTTP/1.1\r\nhost: %s\r\n" % url.netloc.encode("ascii")
        if proxy is not None and not url.is_secured:
            self._before_target = b"http://%s" % url.netloc.encode("ascii")
            if proxy.basic:
                self._host_line += b"proxy-authorization: %s\r\n" % proxy.basic
        self.path = url.path.rstrip("/").encode("ascii")
        """The path of the address, which precedes the path of each request."""
        self.authorization = b"authorization: %s\r\n" % url.basic if url.userinfo else b""
        """The header line with the user and the password of the address, if it has them."""
        self.is_closed = False
        self.loop = asyncio.get_running_loop()
        self._open: set[UpstreamConnection] = set()
        self._connecting = 0
        self._idle: list[UpstreamConnection] = []
        """The last one is the one used most recently."""
        self._waiting: deque[asyncio.Future[UpstreamConnection | None]] = deque()
        """Requests that wait for a connection, or for room for one (None)."""
        self._sweeping: asyncio.TimerHandle | None = None

    async def send(
        self,
        method: str,
        target: bytes,
        fields: bytes,
        body: bytes | AsyncIterator[bytes] | None,
        *,
        is_counted: bool,
        on_write: OnWrite | None = None,
        patience: Patience | None = None,
    ) -> Answer:
        """Send a request; return its answer once its head has arrived.

        `fields` are the header lines except Host; `is_counted` says whether they include
        Content-Length. A streamed body without it is sent in chunks. If the answer begins before
        the end of the body, the rest is not sent. `on_write` is called before each part of the
        request is written. Raises `NotSent`, `BrokenAnswer`, and what `body` raises.
        """
        before = self._before_target
        head = b"%s %s%s%s%s" % (method.encode(), before, target, self._host_line, fields)
        rest = None
        if body is None or isinstance(body, bytes):
            first = body or b""
            if first and not is_counted:
                head += b"content-length: %d\r\n" % len(first)
        else:
            rest, first = body, await anext(body, b"")
            if not is_counted:
                head += b"transfer-encoding: chunked\r\n"
                first = _chunk(first)
        connection = self._take_idle() or await self._connection(patience)
        answer = connection.begin(method, patience)
        connection.on_write = on_write
        try:
            connection.write(b"%s\r\n%s" % (head, first), is_last=rest is None)
            if rest is not None:
                await _send_rest(connection, answer, rest, is_counted=is_counted)
            while not answer.status_code:
                await answer.changed()
        except BaseException:
            connection.cut("the request was given up")
            raise
        return answer

    def close(self) -> None:
        """Close all connections. Requests without their whole answer fail."""
        self.is_closed = True
        if self._sweeping is not None:
            self._sweeping.cancel()
        for connection in list(self._open):
            connection.cut("the connections to the server were closed")

    def _take_idle(self) -> UpstreamConnection | None:
        while self._idle:
            last = self._idle[-1]
            if last.is_usable:
                self._idle.pop()
                last.idle_since_s = None
                return last
            last.cut("")
        return None

    async def _connection(self, patience: Patience | None) -> UpstreamConnection:
        connections_max = self._connections_max or CONNECTIONS_MAX
        while len(self._open) + self._connecting >= connections_max:
            waiter: asyncio.Future[UpstreamConnection | None] = self.loop.create_future()
            self._waiting.append(waiter)
            try:
                async with asyncio.timeout(None if patience is None else patience.within_s):
                    connection = await waiter
            except (asyncio.CancelledError, TimeoutError) as error:
                if not waiter.cancelled():
                    self._return(waiter.result())
                if isinstance(error, asyncio.CancelledError):
                    raise
                reason = f"{connections_max} other requests to it were in progress all the time"
                raise NotSent(reason) from None
            if connection is not None and not connection.is_closing:
                return connection
        self._connecting += 1
        try:
            made = await self._connected()
        except BaseException:
            self._connecting -= 1
            self._give_on(None)
            raise
        self._connecting -= 1
        self._open.add(made)
        return made

    def _return(self, connection: UpstreamConnection | None) -> None:
        """Take back a connection whose waiter has stopped waiting."""
        if connection is None:
            self._give_on(None)
        elif not connection.is_lost:
            self.give_back(connection)

    async def _connected(self) -> UpstreamConnection:
        if self.is_closed:
            raise NotSent("the connections to the server were closed")
        made = UpstreamConnection(self)
        try:
            async with asyncio.timeout(CONNECT_S_MAX):
                await self._connect(made)
        except TimeoutError:
            raise NotSent(f"no connection within {CONNECT_S_MAX:g} s") from None
        except Exception as error:  # whatever it is, no connection was made
            raise NotSent(reason_of(error)) from error
        if self.is_closed or made.is_closing:
            made.cut("")
            raise NotSent("the connection was closed as soon as it was made")
        return made

    async def _connect(self, made: UpstreamConnection) -> None:
        url, proxy, loop = self._url, self._proxy, self.loop
        name = None if self._tls is None else url.host.partition("%")[0]
        if proxy is None:
            await self._dial(lambda: made, url, self._tls, name)
            return
        tls = ssl.create_default_context() if proxy.is_secured else None
        name_of_proxy = proxy.host if proxy.is_secured else None
        if self._tls is None:
            await self._dial(lambda: made, proxy, tls, name_of_proxy)
            return
        tunnel = Tunnel(loop)
        transport = await self._dial(lambda: tunnel, proxy, tls, name_of_proxy)
        try:
            await tunnel.lead_to(url, proxy.basic)
            secured = await loop.start_tls(transport, made, self._tls, server_hostname=name)
        except BaseException:
            transport.abort()
            raise
        made.connection_made(cast("asyncio.BaseTransport", secured))

    async def _dial(
        self,
        protocol: Callable[[], asyncio.Protocol],
        to: Url,
        tls: ssl.SSLContext | None,
        name: str | None,
    ) -> asyncio.Transport:
        server: dict[str, Any] = {"host": to.host, "port": to.port}
        if to.has_name:
            # asyncio loses the socket if it is cancelled as the first of several addresses answers.
            addresses = await self.loop.getaddrinfo(to.host, to.port, type=SOCK_STREAM)
            server = {"sock": await start_connection(addresses, happy_eyeballs_delay=_NEXT_S)}
        transport, _ = await self.loop.create_connection(
            protocol, **server, ssl=tls, server_hostname=name
        )
        return transport

    # Called by connections.

    def give_back(self, connection: UpstreamConnection) -> None:
        """Give a connection to the first waiter, or keep it for the next request."""
        if self._waiting and self._give_on(connection):
            return
        connection.idle_since_s = self.loop.time()
        self._idle.append(connection)
        if self._sweeping is None:
            self._sweeping = self.loop.call_later(IDLE_S_MAX, self._sweep)

    def left(self, connection: UpstreamConnection) -> None:
        """Remove a connection that is no longer used."""
        if connection not in self._open:
            return
        self._open.remove(connection)
        if connection.idle_since_s is not None:
            self._idle.remove(connection)
        self._give_on(None)

    def _give_on(self, connection: UpstreamConnection | None) -> bool:
        """Give the first waiter a connection, or (None) room for one; return whether any waited."""
        while self._waiting:
            waiter = self._waiting.popleft()
            if not waiter.done():
                waiter.set_result(connection)
                return True
        return False

    def _sweep(self) -> None:
        """Close connections that have been idle for long."""
        self._sweeping = None
        before_s = self.loop.time() - IDLE_S_MAX
        while self._idle:
            since_s = self._idle[0].idle_since_s or 0.0
            if since_s > before_s:
                self._sweeping = self.loop.call_at(since_s + IDLE_S_MAX, self._sweep)
                return
            self._idle[0].cut("")


async def _send_rest(
    connection: UpstreamConnection,
    answer: Answer,
    rest: AsyncIterator[bytes],
    *,
    is_counted: bool,
) -> None:
    """Send the rest of a body after its first part, until an answer begins."""
    async for part in rest:
        while connection.is_write_paused and not answer.status_code:
            await answer.changed()
        if answer.status_code or connection.is_lost:
            return
        connection.write(part if is_counted else _chunk(part), is_last=False)
    connection.write(b"" if is_counted else b"0\r\n\r\n", is_last=True)


def _chunk(part: bytes) -> bytes:
    return b"%x\r\n%s\r\n" % (len(part), part) if part else b""
