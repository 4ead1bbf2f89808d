"""Stands between a server and a Thrift gateway: delays what passes, holds it back, cuts it off."""

import socket
import threading
import time
from contextlib import suppress
from types import TracebackType
from typing import Self

_AT_ONCE = 64 * 1024


class SlowGateway:
    """A proxy of TCP connections; a context manager that leaves none behind."""

    def __init__(self, port: int) -> None:
        self._gateway_port = port
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listener.getsockname()[1]
        self.delay_s = 0.0
        """How long everything is kept, each way."""
        self._flows = threading.Event()
        self._flows.set()
        self._is_closed = False
        self._lock = threading.Lock()
        self._sockets: list[socket.socket] = []
        self._acceptor = threading.Thread(target=self._accept, daemon=True)
        self._acceptor.start()

    def hold(self) -> None:
        """Let nothing through, and tell nobody."""
        self._flows.clear()

    def let_go(self) -> None:
        """Let everything through again, also what was held."""
        self._flows.set()

    def cut(self) -> None:
        """Break all connections."""
        with self._lock:
            sockets, self._sockets = self._sockets, []
        for each in sockets:
            with suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._listener.accept()
                gateway = socket.create_connection(("127.0.0.1", self._gateway_port))
            except OSError:
                if self._is_closed:
                    return
                client.close()
                continue
            with self._lock:
                self._sockets += [client, gateway]
            for ends in ((client, gateway), (gateway, client)):
                threading.Thread(target=self._pass_on, args=ends, daemon=True).start()

    def _pass_on(self, source: socket.socket, target: socket.socket) -> None:
        with suppress(OSError):
            while data := source.recv(_AT_ONCE):
                time.sleep(self.delay_s)
                self._flows.wait()
                target.sendall(data)
        for each in (source, target):
            with suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)
        source.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._is_closed = True
        with suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        self._flows.set()
        self.cut()
        self._acceptor.join()
