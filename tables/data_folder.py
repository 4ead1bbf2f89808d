"""The data folder of a store on local disk: its creation, its lock and its format.

    FOLDER/tms.lock     held by flock while a process has the folder open; says pid, host and time
    FOLDER/format.json  {"format": 3, "layout": 2}; checked at each opening (`tables.store_format`)
    FOLDER/leveldb/     LevelDB's own files
    FOLDER/tms.creating only while the store is being created
    FOLDER/tms.restoring only while a backup is being restored (`tables.restoring`)
    FOLDER/cut/         only during a backup: hard links of LevelDB's files (`tables.leveldb_cut`)

A store is created in this order, each step durable before the next: the mark `tms.creating`,
LevelDB, the format; then the mark is deleted. A folder with the mark has no data yet, after any
crash, so its creation begins again. A folder without the mark must have all its files; otherwise it
is refused: missing files were lost, and an empty store would hide that.

Until format 3 the format was the layout alone. Opening such a folder for writing raises it
(`record_format`), after the renames of `tables.raising`. Everything else in it stays, and older
versions refuse it from then on.

LevelDB's lock is not enough: it is an fcntl lock, and a second opening of the folder in the same
process drops it silently, after which another process can open the folder and damage it. An flock
belongs to the open file itself and has no such trap.

Only the owner can read files that are made here. LevelDB's files follow the process's umask, which
`tms` sets; in other programs only the mode of the folder protects them.
"""

import errno
import fcntl
import json
import os
import shutil
import socket
from pathlib import Path
from typing import Any

from tables.leveldb_layout import PREFIXES
from tables.store_format import features_of, record
from tms.core.errors import (
    FolderUnusable,
    StoreFileLost,
    StoreFormatUnknown,
    StoreLocked,
    StoreNotFound,
    StoreUnavailable,
    TmsError,
)
from tms.core.runtime.forks import tell_in_child
from tms.core.values.store_access import StoreAccess

FORMAT = 3
"""The number recorded until a feature is used; then 4."""
_NEWEST = max(PREFIXES)
_LAYOUTS_UNTIL_3 = (1, 2)
_FOLDER_MODE = 0o700
_FILE_MODE = 0o600
_LOCK = "tms.lock"
_FORMAT = "format.json"
_LEVELDB = "leveldb"
_CUT = "cut"
_CREATING = "tms.creating"
RESTORING = "tms.restoring"
_CREATING_TEXT = b"The store in this folder is being created, and holds nothing yet.\n"
_THIS_ONE = ", which is this process: it has not closed the store"


_LASTING = {
    errno.EEXIST: "there is a file with this name, not a folder",
    errno.ENOTDIR: "a part of the path is a file, not a folder",
    errno.EACCES: "this user may not write there",
    errno.EPERM: "this user may not write there",
    errno.EROFS: "the file system is read-only",
    errno.ENOENT: "a folder cannot be made there",
    errno.ELOOP: "the path has a circle of links",
    errno.ENAMETOOLONG: "the path is too long",
    errno.EISDIR: "there is a folder in the place of a file",
}
"""Causes that last until somebody removes them, and what they mean here."""


def refused_folder(path: Path, error: OSError) -> TmsError:
    """Return the error for a folder, or a file in it, that the system refuses."""
    meaning = _LASTING.get(error.errno or 0)
    if meaning is None:
        return StoreUnavailable(folder=str(path), reason=error.strerror)
    return FolderUnusable(folder=str(path), reason=f"{meaning} ({error.strerror})")


def _holds_rows(path: Path) -> bool:
    """Whether a file of LevelDB has rows. No file has rows while the store is created."""
    return path.suffix in {".ldb", ".sst"} or (path.suffix == ".log" and path.stat().st_size > 0)


def opened_itself(path: Path, flags: int) -> int:
    """Return the descriptor of a file that only its owner may use. Raises `OSError` for a link."""
    return os.open(path, flags | os.O_NOFOLLOW | os.O_CLOEXEC, _FILE_MODE)


class FolderLock:
    """The lock of a folder, which this process holds until `release`."""

    def __init__(self, path: Path) -> None:
        """Lock an existing folder.

        Raises `StoreLocked` with the holder's pid and host, `FolderUnusable`, `StoreUnavailable`.
        """
        self._path = path
        try:
            self._descriptor = opened_itself(path / _LOCK, os.O_RDWR | os.O_CREAT)
        except OSError as error:
            if error.errno == errno.ELOOP and (path / _LOCK).is_symlink():
                reason = f"{_LOCK} is a link: delete it"
                raise FolderUnusable(folder=str(path), reason=reason) from error
            raise refused_folder(path, error) from error
        try:
            self._lock()
        except BaseException:
            self.release()
            raise

    def _lock(self) -> None:
        try:
            fcntl.flock(self._descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            if error.errno not in (errno.EWOULDBLOCK, errno.EACCES):
                raise StoreUnavailable(folder=str(self._path), reason=error.strerror) from error
            raise StoreLocked(folder=str(self._path), holder=self._holder()) from None
        try:
            os.ftruncate(self._descriptor, 0)
            os.pwrite(self._descriptor, json.dumps(self._self()).encode(), 0)
        except OSError as error:
            raise StoreUnavailable(folder=str(self._path), reason=error.strerror) from error

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

    def release(self) -> None:
        """Let other processes lock the folder. Repeatable."""
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1


class DataFolder:
    """A folder that only this process holds, until `release`."""

    def __init__(self, path: Path, access: StoreAccess = StoreAccess.CREATE) -> None:
        """Lock the folder and check its format; begin to create the store if `access` says so.

        Raises `StoreNotFound` if there is none and `access` is not to create one, `StoreLocked`
        with the holder's pid and host, `StoreFormatUnknown`, `StoreFileLost`, `FolderUnusable` if
        the folder cannot be written until somebody changes something, and `StoreUnavailable` if it
        cannot be written now: the disk is full, or failed.
        """
        self.path = path
        try:
            if access is StoreAccess.CREATE or path.is_file():
                path.mkdir(mode=_FOLDER_MODE, parents=True, exist_ok=True)
            elif not any(map(self._has, (_FORMAT, _LEVELDB, _CREATING, RESTORING))):
                raise StoreNotFound(folder=str(path))
        except OSError as error:
            raise refused_folder(path, error) from error
        self._lock = FolderLock(path)
        try:
            self.is_new = self._holds_nothing()
            """Whether the store must still be created."""
            self.is_raised = True
            """Whether the present format is recorded."""
            self.features: frozenset[str] = frozenset()
            """The features that are recorded."""
            self.layout = _NEWEST if self.is_new else self._checked_layout()
            """The layout of the tables: `tables.leveldb_layout`."""
            if self.is_new:
                self._begin(access)
        except BaseException:
            self._lock.release()
            raise
        tell_in_child(self)

    def forget_parent(self) -> None:
        """Leave the lock to the parent of this process: it ends with the last copy of the file."""
        self.release()

    @property
    def leveldb(self) -> Path:
        """The folder of LevelDB's files."""
        return self.path / _LEVELDB

    @property
    def format_file(self) -> Path:
        """The file that records the format."""
        return self.path / _FORMAT

    @property
    def cut(self) -> Path:
        """The folder of a cut, on the same file system."""
        return self.path / _CUT

    def delete_cut(self) -> None:
        """Delete the cut, also that of a process that died."""
        shutil.rmtree(self.cut, ignore_errors=True)

    def _holds_nothing(self) -> bool:
        """Whether no store was ever created here, or its creation was interrupted.

        Raises `StoreFileLost`, `FolderUnusable`.
        """
        if self._has(RESTORING):
            reason = "a restore is not complete: run the same `tms restore` again"
            raise FolderUnusable(folder=str(self.path), reason=reason)
        try:
            if not (self.path / _CREATING).exists():
                return not self._has(_FORMAT) and not self._has(_LEVELDB)
            if self.leveldb.is_dir() and any(map(_holds_rows, self.leveldb.iterdir())):
                reason = f"LevelDB has rows although {_CREATING} exists, so delete one of them"
                raise FolderUnusable(folder=str(self.path), reason=reason)
        except OSError as error:
            raise refused_folder(self.path, error) from error
        return True

    def _has(self, name: str) -> bool:
        return (self.path / name).exists()

    def _begin(self, access: StoreAccess) -> None:
        """Set the mark, and delete what an interrupted creation has left.

        Raises as the constructor.
        """
        if access is not StoreAccess.CREATE:
            raise StoreNotFound(folder=str(self.path))
        try:
            if not self._has(_CREATING):  # without it, the rest would count as lost
                self._put(self.path / _CREATING, _CREATING_TEXT)
            self._sync(self.path)
            (self.path / _FORMAT).unlink(missing_ok=True)
            # Otherwise LevelDB would make the folder readable for everybody.
            self.leveldb.mkdir(mode=_FOLDER_MODE, exist_ok=True)
            for leftover in self.leveldb.iterdir():
                leftover.unlink()
        except OSError as error:
            raise refused_folder(self.path, error) from error

    def finish(self) -> None:
        """Complete the creation, now that LevelDB's files exist.

        Nothing may have been written to it. Raises `FolderUnusable` and `StoreUnavailable`.
        """
        assert self.is_new
        try:
            self._sync(self.leveldb)
            self.record_format()
            (self.path / _CREATING).unlink()
            self._sync(self.path)
        except OSError as error:
            raise refused_folder(self.path, error) from error
        self.is_new = False

    def _checked_layout(self) -> int:
        """Return the layout, and find out whether the folder has an older format."""
        path = self.path / _FORMAT
        try:
            recorded = json.loads(path.read_bytes())
            number = recorded["format"]
            if type(number) is not int or number > FORMAT + 1:
                raise StoreFormatUnknown(folder=str(self.path), found=number, known=FORMAT + 1)
            self.features = features_of(recorded, ("layout",), FORMAT)
            layout = recorded["layout"] if number >= FORMAT else number
        except FileNotFoundError:
            raise StoreFileLost(file=str(path), reason="it is missing") from None
        except (ValueError, KeyError, TypeError) as error:
            raise StoreFormatUnknown(file=str(path), reason=str(error)) from None
        except OSError as error:
            raise refused_folder(path, error) from error
        layouts = PREFIXES if number >= FORMAT else _LAYOUTS_UNTIL_3
        if type(layout) is not int or layout not in layouts:
            raise StoreFormatUnknown(folder=str(self.path), found=number, known=FORMAT + 1)
        self.is_raised = number >= FORMAT
        return layout

    def record_format(self) -> None:
        """Record the present format, after which older versions refuse the folder.

        Raises `FolderUnusable` and `StoreUnavailable`.
        """
        self._record(self.path / _FORMAT, self.features)
        self.is_raised = True

    def add_feature(self, feature: str) -> None:
        """Record a feature, after which versions that do not know it refuse the folder.

        Raises `FolderUnusable` and `StoreUnavailable`; then the feature may be recorded or not.
        """
        features = self.features | {feature}
        if features != self.features:
            self._record(self.path / _FORMAT, features)
            self.features = features

    def _record(self, path: Path, features: frozenset[str]) -> None:
        """Record the format with layout and features: all or nothing, whatever crashes."""
        draft = path.with_suffix(".draft")
        fields = record(features, FORMAT, {"layout": self.layout})
        try:
            self._put(draft, json.dumps(fields).encode())
            draft.replace(path)
            self._sync(self.path)
        except OSError as error:
            raise refused_folder(self.path, error) from error

    @staticmethod
    def _put(path: Path, content: bytes) -> None:
        """Write a file durably, replacing one of that name."""
        path.unlink(missing_ok=True)
        with os.fdopen(opened_itself(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL), "wb") as out:
            out.write(content)
            out.flush()
            os.fsync(out.fileno())

    @staticmethod
    def _sync(folder: Path) -> None:
        """Make a folder's list of files durable."""
        descriptor = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)

    def free_bytes(self) -> int:
        """Return how many bytes an unprivileged process can use on the folder's disk."""
        disk = os.statvfs(self.path)
        return disk.f_bavail * disk.f_frsize

    def release(self) -> None:
        """Let other processes open the folder. Repeatable."""
        self._lock.release()
