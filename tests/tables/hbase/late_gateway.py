"""Stands between a server and a Thrift gateway, and is paused itself with a request in hand.

Otherwise it does what a gateway should: it closes connections on which nothing is said.
"""

import socket
import threading
from collections.abc import Sequence
from contextlib import suppress
from types import TracebackType
from typing import Self

IDLE_S = 1.5
_AT_ONCE = 1024 * 1024


class LateGateway:
    """A proxy of TCP connections; a context manager that leaves none behind."""

    def __init__(self, gateway_port: int) -> None:
        self._gateway_port = gateway_port
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listener.getsockname()[1]
        self.held = threading.Event()
        """Set when a request is in hand."""
        self.answered = threading.Event()
        """Set when the gateway has answered that, late."""
        self._may_go = threading.Event()
        self._wanted: Sequence[bytes] = ()
        self._sockets: list[socket.socket] = []
        threading.Thread(target=self._accept, daemon=True).start()

    def hold(self, *parts: bytes) -> None:
        """Hold the next request that has all these parts."""
        self._wanted = parts

    def let_go(self) -> None:
        """Let the gateway have it, and return when it has answered."""
        self._may_go.set()
        assert self.answered.wait(30)

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                client, _ = self._listener.accept()
                gateway = socket.create_connection(("127.0.0.1", self._gateway_port))
                self._sockets += [client, gateway]
                _Connection(self, client, gateway)

    def holds(self, data: bytes) -> bool:
        """Whether that is the request that is wanted."""
        wanted = self._wanted
        if not wanted or not all(part in data for part in wanted):
            return False
        self._wanted = ()
        self.held.set()
        self._may_go.wait()
        return True

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._may_go.set()
        for each in (self._listener, *self._sockets):
            with suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)
            each.close()


class _Connection:
    """One connection, each way in a thread of its own."""

    def __init__(self, proxy: LateGateway, client: socket.socket, gateway: socket.socket) -> None:
        self._proxy = proxy
        self._client = client
        self._gateway = gateway
        self._asked = 0
        self._told = 0
        self._is_late = False
        client.settimeout(IDLE_S)
        threading.Thread(target=self._ask, daemon=True).start()
        threading.Thread(target=self._tell, daemon=True).start()

    def _ask(self) -> None:
        with suppress(OSError):
            while data := self._next():
                self._asked += 1
                self._is_late = self._is_late or self._proxy.holds(data)
                self._gateway.sendall(data)
        if self._is_late:
            self._proxy.answered.wait()
        self._close()

    def _next(self) -> bytes:
        while True:
            try:
                return self._client.recv(_AT_ONCE)
            except TimeoutError:
                if self._told >= self._asked:
                    return b""

    def _tell(self) -> None:
        with suppress(OSError):
            while data := self._gateway.recv(_AT_ONCE):
                self._told += 1
                if self._is_late:
                    self._proxy.answered.set()
                self._client.sendall(data)
        self._close()

    def _close(self) -> None:
        for each in (self._client, self._gateway):
            with suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)
