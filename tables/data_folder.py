"""The data folder of a store on local disk: its lock and its format.

    FOLDER/tms.lock     held by flock while a process has the folder open; says pid, host and time
    FOLDER/format.json  {"format": 2}; written once, checked at each opening
    FOLDER/leveldb/     LevelDB's own files

LevelDB's lock is not enough: it is an fcntl lock, and a second opening of the folder in the same
process drops it silently, after which another process can open the folder and damage it. An flock
belongs to the open file itself and has no such trap.
"""

import errno
import fcntl
import json
import os
import socket
from pathlib import Path
from typing import Any

from tables.leveldb_layout import PREFIXES
from tms.core.errors import StoreFormatUnknown, StoreLocked, StoreUnavailable

_NEWEST = max(PREFIXES)
_LOCK = "tms.lock"
_FORMAT = "format.json"
_THIS_ONE = ", which is this one: what opened it here has not closed it"


class DataFolder:
    """A folder held by this process, and by nobody else, until `release`."""

    def __init__(self, path: Path) -> None:
        """Create the folder where there is none, lock it and check its format.

        Raises `StoreLocked` with the holder's pid and host, `StoreFormatUnknown`, and
        `StoreUnavailable` where the folder cannot be written.
        """
        self.path = path
        try:
            path.mkdir(parents=True, exist_ok=True)
            self._descriptor = os.open(path / _LOCK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        except OSError as error:
            raise StoreUnavailable(folder=str(path), reason=error.strerror) from error
        try:
            self._lock()
            self.format = self._checked_format()
        except BaseException:
            os.close(self._descriptor)
            raise

    @property
    def leveldb(self) -> Path:
        """Where LevelDB keeps its files."""
        return self.path / "leveldb"

    def _lock(self) -> None:
        try:
            fcntl.flock(self._descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            if error.errno not in (errno.EWOULDBLOCK, errno.EACCES):
                raise StoreUnavailable(folder=str(self.path), reason=error.strerror) from error
            raise StoreLocked(folder=str(self.path), holder=self._holder()) from None
        try:
            os.ftruncate(self._descriptor, 0)
            os.pwrite(self._descriptor, json.dumps(self._self()).encode(), 0)
        except OSError as error:
            raise StoreUnavailable(folder=str(self.path), reason=error.strerror) from error

    @staticmethod
    def _self() -> dict[str, Any]:
        return {"pid": os.getpid(), "host": socket.gethostname()}

    def _holder(self) -> str:
        try:
            holder = json.loads(os.pread(self._descriptor, 4096, 0))
            is_own = holder == self._self()
            return f"process {holder['pid']} on {holder['host']}{_THIS_ONE if is_own else ''}"
        except (ValueError, KeyError, TypeError, OSError):
            return "unknown"

    def _checked_format(self) -> int:
        path = self.path / _FORMAT
        try:
            found = json.loads(path.read_bytes())["format"]
        except FileNotFoundError:
            if self.leveldb.exists():
                raise StoreFormatUnknown(folder=str(self.path), missing=_FORMAT) from None
            self._write_format(path)
            return _NEWEST
        except (ValueError, KeyError, TypeError) as error:
            raise StoreFormatUnknown(folder=str(self.path), reason=str(error)) from None
        except OSError as error:
            raise StoreUnavailable(folder=str(self.path), reason=error.strerror) from error
        known = list(PREFIXES)
        if found not in known:
            raise StoreFormatUnknown(folder=str(self.path), found=found, known=known)
        return int(found)

    def _write_format(self, path: Path) -> None:
        draft = path.with_suffix(".draft")
        try:
            with draft.open("w") as out:
                json.dump({"format": _NEWEST}, out)
                out.flush()
                os.fsync(out.fileno())
            draft.replace(path)
            folder = os.open(self.path, os.O_RDONLY)
            try:
                os.fsync(folder)
            finally:
                os.close(folder)
        except OSError as error:
            raise StoreUnavailable(folder=str(self.path), reason=error.strerror) from error

    def free_bytes(self) -> int:
        """Return how much room a process without privileges has on the folder's disk."""
        disk = os.statvfs(self.path)
        return disk.f_bavail * disk.f_frsize

    def release(self) -> None:
        """Let others have the folder."""
        os.close(self._descriptor)
