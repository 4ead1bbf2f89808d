"""An FTP server on a folder, in a thread: a remote file system whose files are seen while sent."""

import warnings
from pathlib import Path
from threading import Thread
from types import TracebackType
from typing import Any, Self

with warnings.catch_warnings():  # until Python 3.12 the standard library has what it is built on
    warnings.filterwarnings("ignore", "The asyn(core|chat) module is deprecated")
    from pyftpdlib.authorizers import DummyAuthorizer
    from pyftpdlib.handlers import FTPHandler
    from pyftpdlib.servers import FTPServer

USER, PASSWORD = "ann", "secret-of-ann"


class LocalFTPServer:
    """Serves `folder` on a free port of the loopback interface, for one user."""

    def __init__(self, folder: Path) -> None:
        authorizer = DummyAuthorizer()
        authorizer.add_user(USER, PASSWORD, str(folder), perm="elradfmwMT")
        handler: Any = type("Handler", (FTPHandler,), {"authorizer": authorizer})
        self._server = FTPServer(("127.0.0.1", 0), handler)
        self._is_open = True
        self._thread = Thread(target=self._serve)
        self.url = f"ftp://{USER}:{PASSWORD}@127.0.0.1:{self._server.address[1]}"

    def _serve(self) -> None:
        while self._is_open:
            self._server.serve_forever(timeout=0.05, blocking=False)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._is_open = False
        self._thread.join()
        self._server.close_all()
