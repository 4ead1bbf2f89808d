"""Runs an application over HTTP until it is told to stop, and then lets it finish.

uvicorn with its own ways of starting and stopping replaced where they do not fit a database:

- it exits the process when a port is taken; here the caller gets an `OSError` that names it;
- it raises the signal that stopped it again when it is done, which would end the process before
  the store is closed; here `serve` just returns;
- it answers 500 to requests that are still at work when their time is up, although they may have
  been carried out; here their connections are cut, so that a client knows that it does not know.

The order of a stop: no new connections; `on_stopping`, so that waiting polls answer; idle
connections are closed, busy ones after their answer; what is left after the grace period, or at a
second signal, is cut off. When `serve` returns, no request is at work.
"""

import asyncio
import contextlib
import errno
import signal
import socket
from collections.abc import Callable, Iterator
from functools import partial

import uvicorn
from starlette.types import ASGIApp

from api.deadlines import Timeouts
from api.direct import DirectProtocol
from api.known_heads import KnownHeads
from api.runs import Run
from tms.core.limits import Limits

GRACE_S = 10.0

_BACKLOG = 2048
_STOP_POLL_S = 0.01
_DATE_INTERVAL_S = 1.0
_ABSENT = (errno.EADDRNOTAVAIL, errno.EAFNOSUPPORT)
"""`localhost` often stands for ::1 too where there is no IPv6."""
_SIGNALS = (signal.SIGINT, signal.SIGTERM)


async def serve(
    app: ASGIApp,
    *,
    host: str,
    port: int,
    limits: Limits,
    on_started: Callable[[str], None],
    on_stopping: Callable[[], None],
    stop: asyncio.Event | None = None,
    grace_s: float = GRACE_S,
) -> None:
    """Serve `app` at `host`:`port` until SIGTERM, SIGINT or `stop`.

    Port 0 stands for any that is free; `on_started` gets the URL. Signals are heeded in the main
    thread only. Raises `OSError`, naming the address, where it cannot be listened on.
    """
    idle = Timeouts(limits.request_head_s_max, DirectProtocol.end)
    runs: set[Run] = set()
    protocol = partial(
        DirectProtocol,
        idle=idle,
        head_bytes_max=limits.request_head_bytes_max,
        runs=runs,
        known_heads=KnownHeads(),
    )
    config = uvicorn.Config(
        app,
        http=protocol,  # type: ignore[arg-type]
        ws="none",
        lifespan="off",
        interface="asgi3",
        log_config=None,
        access_log=False,
        proxy_headers=False,
        server_header=False,
        backlog=_BACKLOG,
    )
    listeners = await _listen(host, port)
    server = _Server(config, stop or asyncio.Event(), on_stopping, grace_s, runs)
    shown = f"[{host}]" if ":" in host else host
    url = f"http://{shown}:{listeners[0].getsockname()[1]}"
    server.on_started = lambda: on_started(url)
    await server.serve(listeners)


async def _listen(host: str, port: int) -> list[socket.socket]:
    """Return a socket for each address of `host` that this machine has, all at one port."""
    loop = asyncio.get_running_loop()
    listeners: list[socket.socket] = []
    absent: OSError | None = None
    try:
        found = await loop.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
        for family, address in dict.fromkeys((family, found[0]) for family, *_, found in found):
            try:
                listener = socket.create_server(
                    (str(address), port), family=family, backlog=_BACKLOG
                )
            except OSError as error:
                if error.errno not in _ABSENT:
                    raise
                absent = error
                continue
            listeners.append(listener)
            port = listener.getsockname()[1]
        if not listeners and absent is not None:
            raise absent
    except OSError as error:
        for listener in listeners:
            listener.close()
        reason = error.strerror or str(error)
        raise OSError(error.errno, f"cannot listen on {host}:{port}: {reason}") from None
    return listeners


class _Server(uvicorn.Server):
    """uvicorn's server, stopped as the top of this file says."""

    def __init__(
        self,
        config: uvicorn.Config,
        stop: asyncio.Event,
        on_stopping: Callable[[], None],
        grace_s: float,
        runs: set[Run],
    ) -> None:
        super().__init__(config)
        self._runs = runs
        self.on_started: Callable[[], None]
        self._stop = stop
        self._on_stopping = on_stopping
        self._grace_s = grace_s

    async def main_loop(self) -> None:
        """Tell that connections are taken, then wait for the stop; keep the Date header right."""
        await self.on_tick(0)
        self.on_started()
        while not self._stop.is_set():
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._stop.wait(), _DATE_INTERVAL_S)
            await self.on_tick(0)

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Stop in the order that the top of this file says."""
        for server in self.servers:
            server.close()
        for listener in sockets or []:
            listener.close()
        self._on_stopping()
        state = self.server_state
        for connection in list(state.connections):
            connection.shutdown()
        loop = asyncio.get_running_loop()
        deadline = loop.time() + self._grace_s
        # uvicorn has no event for a connection that ends.
        while state.connections and loop.time() < deadline and not self.force_exit:  # noqa: ASYNC110
            await asyncio.sleep(_STOP_POLL_S)
        for connection in list(state.connections):
            connection.transport.abort()
        for run in list(self._runs):
            run.take_task()
        await asyncio.sleep(0)
        # Those that wait for their client now see that it is gone; the others are cancelled, after
        # the cut, so that uvicorn has nobody left to send a 500 to.
        if state.tasks:
            await asyncio.wait(list(state.tasks), timeout=_STOP_POLL_S)
        tasks = list(state.tasks)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Stop at the first signal, at once at the second."""
        loop = asyncio.get_running_loop()
        heeded: list[signal.Signals] = []
        # Outside the main thread there are no signals to heed.
        with contextlib.suppress(RuntimeError, ValueError):
            for number in _SIGNALS:
                loop.add_signal_handler(number, self._heed_signal)
                heeded.append(number)
        try:
            yield
        finally:
            for number in heeded:
                loop.remove_signal_handler(number)

    def _heed_signal(self) -> None:
        self.force_exit = self._stop.is_set()
        self._stop.set()
