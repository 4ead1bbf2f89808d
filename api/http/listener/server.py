"""Listens, and serves applications over HTTP until it is stopped; then lets requests finish.

The order of a stop: no new connections; `on_stopping`, so that waiting polls answer; idle
connections are closed, busy ones after their answer; the rest is cut off after the grace period, or
at a second signal. A client that is cut off gets no answer, so it must treat the outcome of its
request as unknown. When `serve` returns, no request is at work.

With TLS, the certificate is read again on SIGHUP, and when its files are found to have changed.
"""

import asyncio
import contextlib
import errno
import resource
import signal
import socket
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial

from api.http.application import Application
from api.http.listener.connection import HttpConnection
from api.http.listener.tls import ServerTls
from api.http.listener.tls_listener import TlsListener
from api.http.protocol.connections import SURPLUS_MAX, Connections
from tms.core.limits import Limits

GRACE_S = 10.0

_BACKLOG = 2048
_STOP_POLL_S = 0.01
_DATE_INTERVAL_S = 1.0
_LOOK_TURNS = 3
"""The certificate files are checked once in this number of updates of the date."""
_ABSENT = (errno.EADDRNOTAVAIL, errno.EAFNOSUPPORT)
"""`localhost` often resolves to ::1 even if there is no IPv6."""
_SIGNALS = (signal.SIGINT, signal.SIGTERM)
_DESCRIPTORS_KEPT = 64
_STORES_SHARE = 5
"""LevelDB keeps at most a fifth of the process's descriptors open."""


@dataclass(frozen=True, slots=True)
class ListeningAddress:
    """An address, and the application that answers requests there."""

    app: Application
    host: str
    port: int
    """0 selects any free port."""


async def serve(
    listeners: Sequence[ListeningAddress],
    *,
    limits: Limits,
    on_started: Callable[[str], None],
    on_stopping: Callable[[], None],
    stop: asyncio.Event | None = None,
    grace_s: float = GRACE_S,
    tls: ServerTls | None = None,
) -> None:
    """Serve until SIGTERM, SIGINT or `stop`.

    With `tls`, only TLS is accepted. `on_started` gets the URL of each listener. Signals have an
    effect in the main thread only. Raises `OSError`, naming the address, if it cannot listen.
    """
    shared = Connections(limits, connections_max(limits.connections_max))
    server = _Server(shared, stop, grace_s, tls)
    try:
        urls = [await server.listen(listener) for listener in listeners]
        with server.heeding_signals():
            for url in urls:
                on_started(url)
            await server.wait_for_stop()
            server.close()
            on_stopping()
            await server.finish()
    finally:
        server.close()


def connections_max(requested: int) -> int:
    """Return the number of connections, at most `wanted`, for which there are descriptors.

    The store's descriptors are reserved. The process's limit is raised as far as possible.
    """
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    needed = (requested + SURPLUS_MAX + _DESCRIPTORS_KEPT) * _STORES_SHARE // (
        _STORES_SHARE - 1
    ) + 1
    if soft < needed:
        soft = min(needed, hard)
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    return max(1, min(requested, soft - soft // _STORES_SHARE - _DESCRIPTORS_KEPT))


class _Server:
    """The listening sockets and the connections that were made to them."""

    def __init__(
        self,
        shared: Connections,
        stop: asyncio.Event | None,
        grace_s: float,
        tls: ServerTls | None,
    ) -> None:
        self._tls = tls
        self._shared = shared
        self._stop = stop or asyncio.Event()
        self._hurry = False
        self._grace_s = grace_s
        self._servers: list[asyncio.Server | TlsListener] = []

    async def listen(self, listener: ListeningAddress) -> str:
        """Listen, and return the URL. Raises `OSError`, naming the address."""
        sockets = await _listening(listener.host, listener.port)
        make = partial(HttpConnection, listener.app, self._shared)
        for bound in sockets:
            if self._tls is not None:
                self._servers.append(TlsListener(bound, make, self._shared, self._tls))
                continue
            server = await self._shared.loop.create_server(make, sock=bound, backlog=_BACKLOG)
            self._servers.append(server)
        scheme = "http" if self._tls is None else "https"
        host = f"[{listener.host}]" if ":" in listener.host else listener.host
        return f"{scheme}://{host}:{sockets[0].getsockname()[1]}"

    async def wait_for_stop(self) -> None:
        """Return when the server is to stop; keep the date of answers current until then."""
        turn = 0
        while not self._stop.is_set():
            self._shared.update_date()
            turn += 1
            if self._tls is not None and turn % _LOOK_TURNS == 0:
                self._tls.look()
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(_DATE_INTERVAL_S):
                    await self._stop.wait()

    def close(self) -> None:
        """Accept no new connections."""
        for server in self._servers:
            server.close()

    async def finish(self) -> None:
        """Let requests at work end for the grace period, then cut them off."""
        shared = self._shared
        shared.is_stopping = True
        for connection in list(shared.open):
            connection.finish()
        deadline_s = shared.loop.time() + self._grace_s
        # Polling is good enough: this is the end of the process.
        while shared.open and shared.loop.time() < deadline_s and not self._hurry:  # noqa: ASYNC110
            await asyncio.sleep(_STOP_POLL_S)
        for connection in list(shared.open):
            connection.abort()
        for call in list(shared.calls):
            call.take_task()
        await asyncio.sleep(0)
        # Requests that wait for their client now see that it is gone; the others are cancelled.
        if shared.tasks:
            await asyncio.wait(list(shared.tasks), timeout=_STOP_POLL_S)
        tasks = list(shared.tasks)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    @contextlib.contextmanager
    def heeding_signals(self) -> Iterator[None]:
        """Stop at the first signal, at once at the second."""
        loop = self._shared.loop
        heeded: list[signal.Signals] = []
        # Only the main thread gets signals.
        with contextlib.suppress(RuntimeError, ValueError):
            for number in _SIGNALS:
                loop.add_signal_handler(number, self._heed_signal)
                heeded.append(number)
            if self._tls is not None:
                loop.add_signal_handler(signal.SIGHUP, self._tls.reload)
                heeded.append(signal.SIGHUP)
        try:
            yield
        finally:
            for number in heeded:
                loop.remove_signal_handler(number)

    def _heed_signal(self) -> None:
        self._hurry = self._stop.is_set()
        self._stop.set()


async def _listening(host: str, port: int) -> list[socket.socket]:
    """Return a socket for each address of `host` that this machine has, all on one port."""
    loop = asyncio.get_running_loop()
    listening: list[socket.socket] = []
    absent: OSError | None = None
    try:
        addresses = await loop.getaddrinfo(
            host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )
        for family, address in dict.fromkeys(
            (family, addresses[0]) for family, *_, addresses in addresses
        ):
            try:
                each = socket.create_server((str(address), port), family=family, backlog=_BACKLOG)
            except OSError as error:
                if error.errno not in _ABSENT:
                    raise
                absent = error
                continue
            listening.append(each)
            port = each.getsockname()[1]
        if not listening and absent is not None:
            raise absent
    except OSError as error:
        for server in listening:
            server.close()
        reason = error.strerror or str(error)
        raise OSError(error.errno, f"cannot listen on {host}:{port}: {reason}") from None
    return listening
