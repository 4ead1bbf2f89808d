"""An FTP server on a folder, in a thread: a remote file system whose files are seen while sent."""

import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from threading import Event, Thread
from typing import Any

with warnings.catch_warnings():  # until Python 3.12 the standard library has what it is built on
    warnings.filterwarnings("ignore", "The asyn(core|chat) module is deprecated")
    from pyftpdlib.authorizers import DummyAuthorizer
    from pyftpdlib.handlers import FTPHandler
    from pyftpdlib.servers import FTPServer

USER, PASSWORD = "ann", "secret-of-ann"


@contextmanager
def ftp_server(folder: Path) -> Iterator[str]:
    """Serve `folder` on a free port of the loopback interface, for one user; yield the URL."""
    authorizer = DummyAuthorizer()
    authorizer.add_user(USER, PASSWORD, str(folder), perm="elradfmwMT")
    handler: Any = type("Handler", (FTPHandler,), {"authorizer": authorizer})
    server, is_over = FTPServer(("127.0.0.1", 0), handler), Event()

    def serve() -> None:
        while not is_over.is_set():
            server.serve_forever(timeout=0.05, blocking=False)

    thread = Thread(target=serve)
    thread.start()
    try:
        yield f"ftp://{USER}:{PASSWORD}@127.0.0.1:{server.address[1]}"
    finally:
        is_over.set()
        thread.join()
        server.close_all()
