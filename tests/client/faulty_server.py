"""A server that answers each connection with the bytes it was given, then closes it.

It stands for what happens to connections, not for TMS: an answer may be cut anywhere, or missing.
"""

import json
import re
import socket
import threading
from contextlib import suppress
from types import TracebackType
from typing import NamedTuple, Self

from tests.waiting import WAIT_S_MAX

HEALTH = "GET /health "
_LENGTH = re.compile(rb"content-length: (\d+)", re.IGNORECASE)


def answer(
    status: int, body: bytes = b"", *, announced: int | None = None, retry_after: str = ""
) -> bytes:
    """Return an HTTP answer; `announced` is the length it claims if it is to be cut."""
    lines = [
        f"HTTP/1.1 {status} Said",
        f"Content-Length: {len(body) if announced is None else announced}",
        "Connection: close",
        *([f"Retry-After: {retry_after}"] if retry_after else []),
    ]
    return "\r\n".join(lines).encode() + b"\r\n\r\n" + body


def refusal(status: int, code: str, retry_after: str = "") -> bytes:
    """Return an answer with an error body of TMS."""
    body = json.dumps({"error": {"code": code, "message": "…", "detail": {"n": 1}}})
    return answer(status, body.encode(), retry_after=retry_after)


class Request(NamedTuple):
    """A request of a client."""

    line: str
    body: bytes


class FaultyServer:
    """Answers one connection after another from a list, and keeps their requests.

    An empty answer closes the connection; None keeps it open without answering. After the last
    answer it stops listening, so that further connections are refused. It always answers health
    checks, unless it is not TMS (`is_tms`): then these are requests like any other.
    """

    def __init__(self, *answers: bytes | None, port: int = 0, is_tms: bool = True) -> None:
        self._answers = list(answers)
        self._is_tms = is_tms
        self._connections: list[socket.socket] = []
        """Connections that are being read from, or held open."""
        self._is_over = False
        self._listener = socket.create_server(("127.0.0.1", port))
        self.port = self._listener.getsockname()[1]
        self.url = f"http://127.0.0.1:{self.port}"
        self.requests: list[Request] = []
        self._thread = threading.Thread(target=self._serve)
        self._thread.start()

    def _serve(self) -> None:
        with self._listener, suppress(OSError):  # __exit__ has shut the listener down
            for said in self._answers:
                self._answer_next(said)

    def _answer_next(self, said: bytes | None) -> None:
        """Answer the next client that sends a request; ignore clients that leave without one."""
        while True:
            connection, _ = self._listener.accept()
            self._connections.append(connection)
            if self._is_over:
                _shut_down(connection)
            request = self._read(connection)
            if request is None or (self._is_tms and request.line.startswith(HEALTH)):
                self._end(connection, answer(200, b"{}"))
                continue
            self.requests.append(request)
            if said is not None:
                self._end(connection, said)
            return

    def _end(self, connection: socket.socket, said: bytes) -> None:
        with connection, suppress(OSError):  # the client has left
            self._connections.remove(connection)
            connection.sendall(said)

    @staticmethod
    def _read(connection: socket.socket) -> Request | None:
        """Return a request, or None if its client leaves before it has sent all of it."""
        received, length = b"", 0
        while True:
            head, end, body = received.partition(b"\r\n\r\n")
            if end and (announced := _LENGTH.search(head)):
                length = int(announced[1])
            if end and len(body) >= length:
                return Request(head.split(b"\r\n")[0].decode(), body)
            try:
                part = connection.recv(65536)
            except OSError:
                part = b""
            if not part:
                return None
            received += part

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._is_over = True
        _shut_down(self._listener)
        for connection in list(self._connections):
            _shut_down(connection)
        self._thread.join(WAIT_S_MAX)
        assert not self._thread.is_alive()
        for connection in self._connections:
            connection.close()


def _shut_down(each: socket.socket) -> None:
    """Wake any thread that waits for the socket, and make it stop."""
    with suppress(OSError):  # it is closed already
        each.shutdown(socket.SHUT_RDWR)
