"""A gateway in front of a server, which lets in clients with credentials that it accepts.

It answers other clients as TMS does: 401, and the request has no effect.
"""

import http.client
import json
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread

from tests.waiting import WAIT_S_MAX

_NOT_PASSED_ON = ("host", "connection", "transfer-encoding")
_REFUSED = {"error": {"code": "credentials_invalid", "message": "…", "detail": {"reason": "no"}}}


class Guard(ThreadingHTTPServer):
    """Lets requests through to the server at a port."""

    daemon_threads = True

    def __init__(self, port: int) -> None:
        """Accept nobody yet."""
        super().__init__(("127.0.0.1", 0), _Handler)
        self.server_behind = port
        self.accepted: set[str] = set()
        self.seen: list[str | None] = []
        """The credentials of each request."""
        self.redirects_to: str | None = None

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}"


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: Guard

    def _answer(self) -> None:
        said = self.headers.get("authorization")
        self.server.seen.append(said)
        body = self.rfile.read(int(self.headers.get("content-length", 0)))
        if self.server.redirects_to is not None:
            self._give(307, [("location", self.server.redirects_to + self.path)], b"")
        elif said not in self.server.accepted:
            refused = json.dumps(_REFUSED).encode()
            self._give(401, [("content-type", "application/json")], refused)
        else:
            self._pass_on(body)

    do_GET = do_PUT = do_POST = do_DELETE = _answer  # noqa: N815  what the library calls

    def _pass_on(self, body: bytes) -> None:
        behind = http.client.HTTPConnection("127.0.0.1", self.server.server_behind, WAIT_S_MAX)
        headers = {k: v for k, v in self.headers.items() if k.lower() not in _NOT_PASSED_ON}
        behind.request(self.command, self.path, body, headers)
        answer = behind.getresponse()
        named = [
            (name, value)
            for name, value in answer.getheaders()
            if name.lower() not in (*_NOT_PASSED_ON, "content-length", "date")
        ]
        self._give(answer.status, named, answer.read())
        behind.close()

    def _give(self, status: int, headers: list[tuple[str, str]], body: bytes) -> None:
        self.send_response_only(status)
        for name, value in (*headers, ("content-length", str(len(body)))):
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002
        """Log nothing."""


@contextmanager
def guarding(port: int) -> Iterator[Guard]:
    """Put a guard in front of the server at a port."""
    with Guard(port) as guard:
        thread = Thread(target=guard.serve_forever, args=(0.01,))
        thread.start()
        try:
            yield guard
        finally:
            guard.shutdown()
            thread.join()
