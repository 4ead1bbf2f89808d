"""A TCP proxy in front of a server: cut, silent or slow; loses or catches single requests.

Threads carry the bytes, one for each direction of a connection, so that tests with and without an
event loop can use it. It knows no protocol: it takes the bytes that arrive together for a request.
On this machine that holds for small requests, and for the heads of others.
"""

import socket
import threading
from contextlib import suppress
from types import TracebackType
from typing import Literal, Self

Loss = Literal["request", "answer"]
"""`request`: the server never gets it. `answer`: the server carries it out, unanswered."""
_Fault = Loss | Literal["catch"]

HOST = "127.0.0.1"
ANSWER_S_MAX = 30.0
_AT_ONCE = 1024 * 1024


class Proxy:
    """Forwards connections to a port of this machine; a context manager that closes all of them."""

    def __init__(self, port: int) -> None:
        """Listen on a free port of this machine."""
        self._server = (HOST, port)
        self.port = 0
        self.delay_s = 0.0
        """How long bytes are delayed in each direction, unless the proxy is closed."""
        self.caught = threading.Event()
        """Set when a request was caught."""
        self._caught = b""
        self._wanted: list[tuple[_Fault, tuple[bytes, ...]]] = []
        self._choosing = threading.Lock()
        self._flows = threading.Event()
        self._flows.set()
        self._is_closed = threading.Event()
        self._sockets: set[socket.socket] = set()
        self.open()

    @property
    def address(self) -> str:
        return f"{HOST}:{self.port}"

    def open(self) -> None:
        """Listen, on the same port each time."""
        self._listener = socket.create_server((HOST, self.port))
        self.port = self._listener.getsockname()[1]
        self._acceptor = threading.Thread(target=self._accept, daemon=True)
        self._acceptor.start()
        self._is_closed.clear()

    def close(self) -> None:
        """Break all connections, and refuse new ones until `open`. May be called twice."""
        _shut(self._listener)
        self._acceptor.join()
        self._listener.close()
        self.cut()
        self._is_closed.set()  # the bytes of cut connections are neither held nor delayed
        self.release()

    def cut(self) -> None:
        """Break all connections; bytes held for them are lost."""
        for each in list(self._sockets):
            _shut(each)

    def hold(self) -> None:
        """Keep connections open, but let no bytes through."""
        self._flows.clear()

    def release(self) -> None:
        """Let the held bytes through, and all later ones."""
        self._flows.set()

    def lose(self, loss: Loss, *parts: bytes, times: int = 1) -> None:
        """Lose the next requests that contain all these parts, and break their connections."""
        self._wanted += [(loss, parts)] * times

    def catch(self, *parts: bytes) -> None:
        """Keep the next request that contains all these parts, like a gateway that is paused."""
        self._wanted.append(("catch", parts))

    def send_caught(self) -> None:
        """Send the caught request to the server, and return when it has answered."""
        with socket.create_connection(self._server, ANSWER_S_MAX) as server:
            server.sendall(self._caught)
            assert server.recv(1)

    def heard(self, request: bytes) -> None:
        """Do nothing; a test overrides it to record the bytes of clients, even lost ones."""

    def _accept(self) -> None:
        with suppress(OSError):  # it listens no more
            while True:
                client, _ = self._listener.accept()
                self._sockets.add(client)
                threading.Thread(target=self._connect, args=(client,), daemon=True).start()

    def _connect(self, client: socket.socket) -> None:
        """Carry one connection to its end; if one side closes it, so does the other."""
        with client, suppress(OSError), socket.create_connection(self._server) as server:
            self._sockets.add(server)
            for each in (client, server):
                each.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            deaf = threading.Event()
            telling = threading.Thread(target=self._tell, args=(server, client, deaf), daemon=True)
            telling.start()
            self._ask(client, server, deaf)
            telling.join()
            self._sockets.discard(server)
        self._sockets.discard(client)

    def _ask(self, client: socket.socket, server: socket.socket, deaf: threading.Event) -> None:
        with suppress(OSError):
            while request := self._next(client):
                self.heard(request)
                match self._fault_of(request):
                    case "request":
                        break
                    case "answer":
                        deaf.set()
                    case "catch":
                        self._caught = request
                        self.caught.set()
                        continue
                server.sendall(request)
        _shut(server)

    def _tell(self, server: socket.socket, client: socket.socket, deaf: threading.Event) -> None:
        with suppress(OSError):
            while (answer := self._next(server)) and not deaf.is_set():
                client.sendall(answer)
        _shut(client)

    def _next(self, source: socket.socket) -> bytes:
        """Return the next bytes once they may pass; empty at the end."""
        try:
            data = source.recv(_AT_ONCE)
        except OSError:
            data = b""
        self._is_closed.wait(self.delay_s)
        self._flows.wait()
        return data

    def _fault_of(self, request: bytes) -> _Fault | None:
        with self._choosing:
            for number, (fault, parts) in enumerate(self._wanted):
                if all(part in request for part in parts):
                    del self._wanted[number]
                    return fault
        return None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()


def _shut(each: socket.socket) -> None:
    with suppress(OSError):  # it is shut already
        each.shutdown(socket.SHUT_RDWR)
