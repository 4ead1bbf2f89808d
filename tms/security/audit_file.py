"""A file that lines are added to, and that may be moved away while it is (as logrotate does).

1. It is made for its owner alone (0600), and is never another's: a symbolic link, or what is not a
   regular file, is not written to.
2. Before each line it is looked for: it is opened anew if it was moved away.
3. If a line was written in part, as on a full disk, the next one begins a line of its own.
"""

import logging
import os
import stat
from logging.handlers import WatchedFileHandler
from typing import Any

_MODE = 0o600


class AuditFile(WatchedFileHandler):
    """One file. `emit` is called from one thread."""

    _is_torn = False
    """Whether what is in the file ends within a line of ours."""

    def __init__(self, path: str) -> None:
        """Open it, so that it is known at the start whether that can be. Raises `OSError`."""
        super().__init__(path, "ab")

    def emit(self, record: logging.LogRecord) -> None:
        """Add a line. Raises `OSError`: then it may be there in part."""
        self.reopenIfNeeded()
        file: Any = self.stream
        if file is None:
            file = self.stream = self._open()
            self._statstream()
        rest = (b"\n" if self._is_torn else b"") + f"{record.getMessage()}\n".encode("ascii")
        while rest:
            rest = rest[file.write(rest) :]
            self._is_torn = bool(rest)

    def _open(self) -> Any:
        self._is_torn = False
        return open(self.baseFilename, "ab", buffering=0, opener=_opened)


def _opened(path: str, flags: int) -> int:
    # Opening a pipe that nobody reads fails with O_NONBLOCK, instead of waiting for somebody.
    file = os.open(path, flags | os.O_NOFOLLOW | os.O_NONBLOCK, _MODE)
    if not stat.S_ISREG(os.fstat(file).st_mode):
        os.close(file)
        raise OSError(f"{path} is not a regular file")
    return file
