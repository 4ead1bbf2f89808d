"""A file that lines are added to, and that may be moved away while it is (as logrotate does).

1. It is made for its owner alone (0600), and is never another's: a symbolic link, or what is no
   file, is not written to.
2. Before each writing it is looked for: it is opened anew if it was moved away, or `reopen` was
   called (SIGHUP).
3. Where a writing failed in the middle, as on a full disk, the next one begins a line of its own.
"""

import os
import stat
from collections.abc import Sequence

_FLAGS = (
    os.O_WRONLY
    | os.O_APPEND
    | os.O_CREAT
    | os.O_NOFOLLOW
    | os.O_CLOEXEC
    # Opening a pipe that nobody reads fails, instead of waiting for somebody.
    | os.O_NONBLOCK
)
_MODE = 0o600


class AuditFile:
    """One file. `write` is called from one thread; `reopen` from any."""

    def __init__(self, path: str) -> None:
        """Open it, so that it is known at the start whether that can be. Raises `OSError`."""
        self._path = path
        self._file: int | None = _opened(path)
        self._is_to_reopen = False
        self._is_torn = False

    def reopen(self) -> None:
        """Open it anew before the next writing."""
        self._is_to_reopen = True

    def write(self, lines: Sequence[bytes]) -> None:
        """Add lines. Raises `OSError`: then some of them may be there, one in part."""
        file = self._current()
        data = (b"\n" if self._is_torn else b"") + b"".join(lines)
        written = 0
        try:
            while written < len(data):
                written += os.write(file, memoryview(data)[written:])
        finally:
            if written:
                self._is_torn = data[written - 1 : written] != b"\n"

    def close(self) -> None:
        """Close it; a `write` opens it anew."""
        if self._file is not None:
            os.close(self._file)
            self._file = None

    def _current(self) -> int:
        if self._file is not None and (self._is_to_reopen or self._was_moved(self._file)):
            self._is_torn = False
            self.close()
        self._is_to_reopen = False
        if self._file is None:
            self._file = _opened(self._path)
        return self._file

    def _was_moved(self, file: int) -> bool:
        try:
            found = os.lstat(self._path)
        except FileNotFoundError:
            return True
        return not os.path.samestat(found, os.fstat(file))


def _opened(path: str) -> int:
    file = os.open(path, _FLAGS, _MODE)
    if not stat.S_ISREG(os.fstat(file).st_mode):
        os.close(file)
        raise OSError(f"{path} is no file")
    return file
