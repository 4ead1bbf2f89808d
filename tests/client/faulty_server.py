"""A server that answers each connection with the bytes it was given, then closes it.

It stands for what happens to connections, not for TMS: an answer may be cut anywhere, or missing.
"""

import json
import re
import socket
import threading
from types import TracebackType
from typing import NamedTuple, Self

from tests.waiting import WAIT_S_MAX

HEALTH = "GET /health "
_LENGTH = re.compile(rb"content-length: (\d+)", re.IGNORECASE)


def answer(
    status: int, body: bytes = b"", *, announced: int | None = None, retry_after: str = ""
) -> bytes:
    """Return an HTTP answer; `announced` is the length it claims where it is to be cut."""
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
    """What a client sent."""

    line: str
    body: bytes


class FaultyServer:
    """Answers one connection after another from a list, and keeps their requests.

    An empty answer closes the connection; None keeps it open without answering. With no answer
    left it listens no more, so that further connections are refused. Asked how it is, in between,
    it says that it is well, unless it is no TMS (`is_tms`): then that is a request as any other.
    """

    def __init__(self, *answers: bytes | None, port: int = 0, is_tms: bool = True) -> None:
        self._answers = list(answers)
        self._is_tms = is_tms
        self._held: list[socket.socket] = []
        self._listener = socket.create_server(("127.0.0.1", port))
        self.port = self._listener.getsockname()[1]
        self.url = f"http://127.0.0.1:{self.port}"
        self.requests: list[Request] = []
        self._thread = threading.Thread(target=self._serve)
        self._thread.start()

    def _serve(self) -> None:
        for said in self._answers:
            connection, _ = self._listener.accept()
            request = self._read(connection)
            while self._is_tms and request is not None and request.line.startswith(HEALTH):
                connection.sendall(answer(200, b"{}"))
                connection.close()
                connection, _ = self._listener.accept()
                request = self._read(connection)
            if request is None:  # woken by __exit__
                connection.close()
                break
            self.requests.append(request)
            if said is None:
                self._held.append(connection)
                continue
            connection.sendall(said)
            connection.close()
        self._listener.close()

    @staticmethod
    def _read(connection: socket.socket) -> Request | None:
        received = b""
        while b"\r\n\r\n" not in received:
            part = connection.recv(65536)
            if not part:
                return None
            received += part
        head, _, body = received.partition(b"\r\n\r\n")
        length = _LENGTH.search(head)
        while length and len(body) < int(length[1]):
            body += connection.recv(65536)
        return Request(head.split(b"\r\n")[0].decode(), body)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        while self._thread.is_alive():
            try:
                socket.create_connection(("127.0.0.1", self.port), timeout=WAIT_S_MAX).close()
            except OSError:
                break
            self._thread.join(0.1)
        self._thread.join()
        for connection in self._held:
            connection.close()
