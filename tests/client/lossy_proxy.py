"""Stands between a client and a server, and loses what it is told to: a request, or its answer."""

import re
import socket
import threading
from types import TracebackType
from typing import Literal, Self

Loss = Literal["request", "answer"]
"""`request`: the server never gets it. `answer`: the server carries it out, nobody is told."""

_LENGTH = re.compile(rb"content-length: *(\d+)", re.IGNORECASE)


class LossyProxy:
    """Forwards requests to a port, one a connection; loses the first that ends in a path."""

    def __init__(self, port: int) -> None:
        self._server_port = port
        self._losses: list[tuple[str, Loss]] = []
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{self._listener.getsockname()[1]}"
        self.lines: list[str] = []
        """The requests, the lost ones too, as `VERB PATH`."""
        self._is_closing = False
        self._thread = threading.Thread(target=self._serve)
        self._thread.start()

    def lose(self, ending: str, loss: Loss, times: int = 1) -> None:
        """Lose the next requests whose path ends so."""
        self._losses += [(ending, loss)] * times

    def _serve(self) -> None:
        while True:
            connection, _ = self._listener.accept()
            with connection:
                if self._is_closing:
                    return
                request = _read(connection)
                if request:
                    self._forward(connection, request)

    def _forward(self, connection: socket.socket, request: bytes) -> None:
        verb, path, _ = request.split(b"\r\n", 1)[0].decode().split(" ")
        self.lines.append(f"{verb} {path}")
        lost = next((loss for loss in self._losses if path.endswith(loss[0])), None)
        if lost:
            self._losses.remove(lost)
        if lost and lost[1] == "request":
            return
        with socket.create_connection(("127.0.0.1", self._server_port)) as server:
            server.sendall(request.replace(b"\r\n", b"\r\nConnection: close\r\n", 1))
            answer = b""
            while part := server.recv(65536):
                answer += part
        if not lost:
            connection.sendall(answer)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._is_closing = True
        socket.create_connection(self._listener.getsockname()).close()
        self._thread.join()
        self._listener.close()


def _read(connection: socket.socket) -> bytes:
    received = b""
    while b"\r\n\r\n" not in received:
        part = connection.recv(65536)
        if not part:
            return b""
        received += part
    head, _, body = received.partition(b"\r\n\r\n")
    length = _LENGTH.search(head)
    while length and len(body) < int(length[1]):
        body += connection.recv(65536)
    # One request a connection: the client must not take it for alive.
    lines = [line for line in head.split(b"\r\n") if not line.lower().startswith(b"connection:")]
    return b"\r\n".join(lines) + b"\r\n\r\n" + body
