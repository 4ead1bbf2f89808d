"""A file to which lines are appended, and which may be moved away in the meantime (logrotate).

1. It is created for its owner only (0600), and is never another's: nothing is written to a symbolic
   link, or to anything but a regular file.
2. Before each line it is checked, and opened again if it was moved away.
3. If a line was written in part, as on a full disk, the next one starts on a new line.
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
    """Whether the file ends within one of our lines."""

    def __init__(self, path: str) -> None:
        """Open it, so that problems show at the start. Raises `OSError`."""
        super().__init__(path, "ab")

    def emit(self, record: logging.LogRecord) -> None:
        """Append a line. After an `OSError`, part of it may be written."""
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
    # With O_NONBLOCK, opening a pipe that nobody reads fails instead of waiting.
    file = os.open(path, flags | os.O_NOFOLLOW | os.O_NONBLOCK, _MODE)
    if not stat.S_ISREG(os.fstat(file).st_mode):
        os.close(file)
        raise OSError(f"{path} is not a regular file")
    return file
