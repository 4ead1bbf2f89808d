"""A server on this machine that is not TMS, and that a browser or a test contacts."""

from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread


@contextmanager
def serving(handler: type[BaseHTTPRequestHandler]) -> Iterator[int]:
    """Answer requests by a handler; yield the port."""
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        answering = Thread(target=server.serve_forever)
        answering.start()
        try:
            yield server.server_port
        finally:
            server.shutdown()
            answering.join()
