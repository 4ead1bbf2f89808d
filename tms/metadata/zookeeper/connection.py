"""kazoo's session with ZooKeeper, as the event loop sees it.

kazoo has a thread that reads and writes the socket. It posts answers, events of watches and changes
of state into one queue, from which the event loop takes them in ZooKeeper's order. kazoo keeps its
own watches by path and drops them when they have fired; the watch here covers everything below a
node, so its events are taken before kazoo sees them.
"""

import asyncio
import logging
import socket
import ssl
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import Any, Protocol

from kazoo.client import KazooClient, KazooState
from kazoo.exceptions import ConnectionLoss
from kazoo.handlers.threading import SequentialThreadingHandler
from kazoo.protocol.connection import CLOSE_RESPONSE, ConnectionHandler
from kazoo.protocol.serialization import Watch
from kazoo.retry import KazooRetry

from tms.core.errors import MetadataUnavailable
from tms.metadata.address import Address

_log = logging.getLogger(__name__)

_RETRY_S = 0.05
_RETRY_S_MAX = 1.0
_FOREVER = -1
_RECEIVE_BYTES = 64 * 1024
_READ_TO_SESSION = 3 / 2
"""kazoo waits for an answer two thirds of the session timeout that the server granted."""


class _BufferedSocket:
    """A buffered socket, because kazoo reads the length of each message, then the message.

    kazoo checks `pending` before it waits for a socket, because of TLS.
    """

    def __init__(self, inner: Any) -> None:
        self._inner = inner
        self._received = b""
        self._taken = 0

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)

    def pending(self) -> int:
        """Return how many bytes can be read without waiting."""
        inside: Callable[[], int] = getattr(self._inner, "pending", int)
        return len(self._received) - self._taken + inside()

    def recv(self, size: int) -> bytes:
        """Return at most `size` bytes, as a socket does."""
        if self._taken == len(self._received):
            self._received, self._taken = self._inner.recv(_RECEIVE_BYTES), 0
        part: bytes = self._received[self._taken : self._taken + size]
        self._taken += len(part)
        return part


class _Threads(SequentialThreadingHandler):  # type: ignore[misc]  # kazoo has no types
    """kazoo's threads, with buffered sockets. kazoo's TLS would trust the system's authorities."""

    def __init__(self, context: ssl.SSLContext | None) -> None:
        super().__init__()
        self._context = context

    def create_connection(
        self, address: tuple[str, int], hostname: str, timeout: float, **_: Any
    ) -> Any:
        """Return a connected socket. Raises `OSError`."""
        connected = socket.create_connection(address, timeout)
        connected.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        if self._context is not None:
            connected = self._context.wrap_socket(connected, server_hostname=hostname)
        return _BufferedSocket(connected)


class _Handler(ConnectionHandler):  # type: ignore[misc]  # kazoo has no types
    """Passes on, in kazoo's thread, events that kazoo does not expose."""

    on_watch: Callable[[int, str], None]
    on_granted: Callable[[float], None]

    def _read_watch_event(self, buffer: bytes, offset: int) -> None:
        event, _ = Watch.deserialize(buffer, offset)
        self.on_watch(event.type, event.path)

    def _read_socket(self, read_timeout: float) -> Any:
        response = super()._read_socket(read_timeout)
        while response is not CLOSE_RESPONSE and self._socket.pending():
            response = super()._read_socket(read_timeout)
        return response

    def _connect(self, host: str, hostip: str, port: int) -> tuple[float, float]:
        read_ms, connect_ms = super()._connect(host, hostip, port)
        self.on_granted(read_ms * _READ_TO_SESSION)
        return read_ms, connect_ms


class _Reply:
    """Receives an answer from kazoo's thread."""

    def __init__(self, post: Callable[..., None], future: "asyncio.Future[Any]") -> None:
        self._post = post
        self._future = future

    def set(self, value: Any = None) -> None:
        """Take the answer."""
        self._post(self._answer, value, None)

    def set_exception(self, error: Exception) -> None:
        """Take the error."""
        self._post(self._answer, None, error)

    def _answer(self, value: Any, error: Exception | None) -> None:
        if self._future.done():
            return  # its caller was cancelled, or kazoo reports an error twice
        if error is None:
            self._future.set_result(value)
        else:
            self._future.set_exception(error)


class SessionListener(Protocol):
    """The listener of a session's events, in the event loop."""

    def on_state(self, state: str, session: int) -> None:
        """Receive a state of kazoo's, and the number of the session."""
        ...

    def on_granted(self, timeout_ms: float) -> None:
        """Receive the session timeout that the server has granted."""
        ...

    def on_change(self, kind: int, node: str) -> None:
        """Receive an event: ZooKeeper's number for it, and the node."""
        ...


class ZooKeeperConnection:
    """A session, and requests in it. Used from the event loop that made it."""

    def __init__(self, address: Address, listener: SessionListener) -> None:
        """Prepare a session."""
        self._loop = asyncio.get_running_loop()
        self._posted: deque[tuple[Callable[..., None], tuple[Any, ...]]] = deque()
        self._is_woken = False
        self._is_up = False
        self._unanswered: set[asyncio.Future[Any]] = set()
        self._client = _client(address)
        self._timeout_s = address.session_timeout_s
        handler = self._client._connection  # noqa: SLF001  kazoo offers no other way
        handler.__class__ = _Handler
        handler.on_watch = partial(self._post, listener.on_change)
        handler.on_granted = partial(self._post, listener.on_granted)

        def on_state(state: str) -> None:
            session, _ = self._client.client_id or (0, b"")
            self._post(self._hear, listener, state, session)

        self._client.add_listener(on_state)

    def start(self) -> None:
        """Begin to connect."""
        self._client.start_async()

    def _post(self, call: Callable[..., None], *arguments: Any) -> None:
        """Make a call in the event loop; from any thread."""
        self._posted.append((call, arguments))
        if not self._is_woken:
            self._is_woken = True
            with suppress(RuntimeError):  # the loop is closed
                self._loop.call_soon_threadsafe(self._take_posted)

    def _take_posted(self) -> None:
        self._is_woken = False  # first: items posted from now on may be missed below
        while self._posted:
            call, arguments = self._posted.popleft()
            call(*arguments)

    def send(self, request: Any) -> "asyncio.Future[Any]":
        """Send a request; return the future of its answer. Answers keep the order of requests."""
        future: asyncio.Future[Any] = self._loop.create_future()
        if not self._is_up:
            future.set_exception(ConnectionLoss())  # kazoo would keep it until it reconnects
            return future
        self._unanswered.add(future)
        future.add_done_callback(self._unanswered.discard)
        self._client._call(request, _Reply(self._post, future))  # noqa: SLF001  as above
        return future

    def _hear(self, listener: SessionListener, state: str, session: int) -> None:
        self._is_up = state == CONNECTED
        listener.on_state(state, session)
        if not self._is_up:
            # kazoo does that too, but not for requests sent before its state was known here.
            for future in list(self._unanswered):
                if not future.done():
                    future.set_exception(ConnectionLoss())

    async def answer(self, request: Any) -> Any:
        """Return the answer to a request.

        Raises kazoo's errors, and `MetadataUnavailable` if no answer comes in time.
        """
        try:
            async with asyncio.timeout(self._timeout_s):
                return await self.send(request)
        except TimeoutError:
            reason = f"no answer within {self._timeout_s} s"
            raise MetadataUnavailable(reason=reason) from None

    async def close(self) -> None:
        """End the session, and kazoo's thread."""
        await asyncio.to_thread(self._close)

    def _close(self) -> None:
        try:
            self._client.stop()
            self._client.close()
        except Exception as error:  # whatever it is, the session expires
            _log.warning("the session with ZooKeeper was not closed cleanly: %s", error)


def _client(address: Address) -> KazooClient:
    user = address.user
    return KazooClient(
        hosts=",".join(address.hosts),
        timeout=address.session_timeout_s,
        handler=_Threads(_tls(address)),
        connection_retry=KazooRetry(
            max_tries=_FOREVER, delay=_RETRY_S, backoff=2, max_delay=_RETRY_S_MAX
        ),
        auth_data=None if user is None else [("digest", f"{user}:{address.password}")],
    )


def _tls(address: Address) -> ssl.SSLContext | None:
    if address.ca is None:
        return None
    try:
        context = ssl.create_default_context(cafile=address.ca)
        if address.cert is not None:
            context.load_cert_chain(address.cert, address.key)
    except OSError as error:
        raise MetadataUnavailable(reason=f"cannot set up TLS: {error}") from None
    return context


LOST = KazooState.LOST
CONNECTED = KazooState.CONNECTED
