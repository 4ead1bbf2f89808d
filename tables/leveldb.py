"""The Store on LevelDB, in one folder that belongs to one process.

All tables are in one LevelDB, each under a one-byte prefix (`tables.leveldb_layout`): a flush needs
one fsync, however many tables it touches, and batches are atomic across tables.

A failed write. If an append to its log fails, LevelDB continues to append after the torn record,
and loses these records at the next opening. So the first failed write is the last on that handle:
writes are refused, reads continue, and a thread waits until the disk accepts writes again, then
closes the handle and opens a new one. Opening replays the log, which decides whether the failed
batch was written, before any later write. Reads wait while the handle is replaced, for as long as
an opening takes.

`paranoid_checks` is on: otherwise LevelDB silently drops unreadable records of a damaged log. If a
crash leaves only the beginning of the last write, LevelDB notices that and drops it. Reads verify
checksums, for 9 us a block: otherwise damaged bytes of a table would be returned.
"""

import errno
import logging
import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from itertools import islice
from pathlib import Path
from threading import Event, Lock, Thread
from time import monotonic
from typing import Any

from tables.data_folder import DataFolder, opened_itself
from tables.leveldb_batch import LevelDBBatch
from tables.leveldb_binding import plyvel
from tables.leveldb_cut import take_cut
from tables.leveldb_files import check_files
from tables.leveldb_layout import PREFIXES
from tables.raising import raise_rows
from tables.room import want_of_room
from tables.shared_lock import SharedLock
from tables.store import Row
from tms.core.errors import FolderUnusable, OutcomeUnknown, StoreCorrupt, StoreUnavailable
from tms.core.runtime.forks import tell_in_child
from tms.core.values.batch import Batch
from tms.core.values.store_access import StoreAccess

_BLOCK_BYTES = 16 * 1024
_REOPEN_EVERY_S = 0.5
_PROBE_BYTES = 64 * 1024
_FILES_TO_MERGE = b"leveldb.num-files-at-level0"
_FILES_TO_MERGE_MAX = 8
"""At 12 files LevelDB makes each write wait for a second or two, until it has merged them."""
_CLOSED = "the store is closed"
_FILE_LOST = (os.strerror(errno.ENOENT), os.strerror(errno.EINVAL))
"""The ends of LevelDB's errors for a table that is missing or empty."""
_FOR_READING = "the store was opened for reading"
_OPENED_ANEW = "the store was opened again after the batch was made"

_log = logging.getLogger(__name__)


def _text_of(error: Exception) -> str:
    """Return the text of an error; plyvel gives LevelDB's as bytes."""
    text = error.args[0] if error.args else None
    return text.decode(errors="replace") if isinstance(text, bytes) else str(error)


class LevelDBStore:
    """One LevelDB, opened once."""

    atomic = True
    is_embedded = True
    reads_at_once = 1
    exchanges = 0

    def __init__(
        self,
        path: Path,
        access: StoreAccess = StoreAccess.CREATE,
        *,
        sync: bool = True,
        write_buffer_bytes: int = 32 * 1024 * 1024,
        block_cache_bytes: int = 64 * 1024 * 1024,
        open_files_max: int = 1000,
    ) -> None:
        """Open the folder `path` as `access` says.

        LevelDB maps the `open_files_max` table files that it read last. With `sync` off, a write
        returns when the operating system has it: it survives a crash of the process, not of the
        machine. Raises `StoreNotFound`, `StoreLocked`, `StoreCorrupt`, `StoreFormatUnknown`,
        `FolderUnusable`, and `StoreUnavailable` if the disk refuses writes now.
        """
        self._sync = sync
        self._write_buffer_bytes = write_buffer_bytes
        self._opening_bytes = 2 * write_buffer_bytes + _PROBE_BYTES
        self._block_cache_bytes = block_cache_bytes
        self._open_files_max = open_files_max
        self._folder = DataFolder(path, access)
        self._prefixes = PREFIXES[self._folder.layout]
        self._gate = SharedLock()
        self._write_lock = Lock()
        self._failure: str | None = _FOR_READING if access is StoreAccess.READ else None
        self._is_damaged = False
        self._stop_reopening = Event()
        self._closed = False
        try:
            self._handle = self._open()
        except BaseException:
            self._folder.release()
            raise
        self._tables = self._tables_of(self._handle)
        try:
            if self._folder.is_new:
                self._folder.finish()
            if access is not StoreAccess.READ:
                self.raise_format()
                self._folder.delete_cut()
        except OutcomeUnknown as error:
            self.close()
            raise StoreUnavailable(folder=str(path), reason=str(error)) from error
        except BaseException:
            self.close()
            raise
        tell_in_child(self)

    def forget_parent(self) -> object:
        """Refuse all calls in a child of `os.fork()`, which lacks LevelDB's threads.

        The handle is abandoned unclosed: closing would wait for those threads, and may write.
        """
        self._closed, self._failure = True, "it was opened before os.fork(), by the parent"
        self._gate, self._write_lock = SharedLock(), Lock()
        return self._handle

    def _open(self) -> Any:
        path, is_new = self._folder.leveldb, self._folder.is_new
        try:
            if not is_new:
                check_files(path)
            return plyvel.DB(
                str(path),
                create_if_missing=is_new,
                paranoid_checks=True,
                write_buffer_size=self._write_buffer_bytes,
                lru_cache_size=self._block_cache_bytes,
                max_open_files=self._open_files_max,
                block_size=_BLOCK_BYTES,
            )
        except plyvel.CorruptionError as error:
            raise StoreCorrupt(folder=str(path), reason=_text_of(error)) from error
        except (plyvel.Error, OSError) as error:
            if not os.access(path, os.R_OK | os.W_OK | os.X_OK, effective_ids=True):
                raise FolderUnusable(folder=str(path), reason=_text_of(error)) from error
            reason = _text_of(error) + want_of_room(path, self._opening_bytes)
            raise StoreUnavailable(folder=str(path), reason=reason) from error

    def _tables_of(self, handle: Any) -> dict[str, Any]:
        return {table: handle.prefixed_db(prefix) for table, prefix in self._prefixes.items()}

    @contextmanager
    def _reading(self, table: str) -> Iterator[Any]:
        """Lend the table's open handle; convert its errors to ours."""
        with self._gate.shared():
            if self._closed or self._handle is None:
                is_damaged = self._is_damaged and not self._closed
                error = StoreCorrupt if is_damaged else StoreUnavailable
                raise error(reason=self._failure or _CLOSED)
            try:
                yield self._tables[table]
            except plyvel.Error as error:
                text = _text_of(error)
                is_damage = isinstance(error, plyvel.CorruptionError) or text.endswith(_FILE_LOST)
                kind = StoreCorrupt if is_damage else StoreUnavailable
                raise kind(table=table, reason=text) from error

    def get(self, table: str, key: bytes) -> bytes | None:
        """Return the value of `key`, None if there is none."""
        with self._reading(table) as rows:
            value: bytes | None = rows.get(key, verify_checksums=True)
            if value is None:  # plyvel returns that too if a table's file is gone
                with rows.iterator(start=key, stop=key + b"\x00", verify_checksums=True) as scanned:
                    value = next((each for _, each in scanned), None)
            return value

    @contextmanager
    def scan(
        self,
        table: str,
        start: bytes,
        stop: bytes,
        *,
        reverse: bool = False,
        limit: int | None = None,
    ) -> Iterator[Iterator[Row]]:
        """Open an iterator over the rows with start <= key < stop, at most `limit` of them."""
        with self._reading(table) as rows:
            if start >= stop or limit == 0:
                yield iter(())
                return
            with rows.iterator(
                start=start, stop=stop, reverse=reverse, verify_checksums=True
            ) as scanned:
                yield scanned if limit is None else islice(scanned, limit)

    def batch(self, *, durable: bool = True) -> LevelDBBatch:  # noqa: ARG002  all batches are
        """Return an empty batch for the handle open now, if that takes writes.

        All batches are durable: a crash may tear only one batch off the log, not several.
        """
        handle = self._handle
        self.check_writable()
        if handle is None:
            raise StoreUnavailable(reason=_OPENED_ANEW)
        return LevelDBBatch(handle, self._prefixes, sync=self._sync)

    def check_writable(self) -> None:
        """Raise `StoreUnavailable` if a write would be refused now. Does not touch the disk."""
        if self._closed or self._failure is not None:
            raise StoreUnavailable(reason=self._failure or _CLOSED)

    def is_behind(self) -> bool:
        """Whether LevelDB is about to stop all writes, because it has too many files to merge."""
        handle = self._handle
        if handle is None or self._closed:
            return False
        return int(handle.get_property(_FILES_TO_MERGE)) >= _FILES_TO_MERGE_MAX

    def check_unanswered(self, table: str, keys: Sequence[bytes]) -> None:
        """Do nothing: no write takes effect late."""

    def write(self, batch: Batch) -> None:
        """Carry out a batch, with an fsync unless `sync` is off."""
        assert isinstance(batch, LevelDBBatch)
        with self._write_lock:
            self.check_writable()
            if batch.handle is not self._handle:
                raise StoreUnavailable(reason=_OPENED_ANEW)
            self._write(batch.writes)

    def _write(self, writes: Any) -> None:
        try:
            writes.write()
        except (plyvel.Error, OSError) as error:
            self._failure = _text_of(error)
            _log.error(
                "a write failed; writes are refused until the disk accepts them: %s", self._failure
            )
            Thread(target=self._reopen_when_writable, name="leveldb-reopen", daemon=True).start()
            raise OutcomeUnknown(reason=self._failure) from error

    def compare_and_put(
        self, table: str, key: bytes, expected: bytes | None, value: bytes | None
    ) -> bool:
        """Put or delete `value` if the key has `expected`, durably, as `Store` says."""
        with self._write_lock:
            self.check_writable()
            if self.get(table, key) != expected:
                return False
            batch = self.batch()
            if value is None:
                batch.delete(table, key)
            else:
                batch.put(table, key, value)
            self.exchanges += 1
            try:
                self._write(batch.writes)
            finally:
                self.exchanges += 1
            return True

    def compact(self, table: str, start: bytes, stop: bytes) -> None:
        """Let LevelDB merge the files of the range, which removes deleted rows from them.

        Reads and writes continue. Closing, and opening again, wait for it.
        """
        prefix = self._prefixes[table]
        with self._reading(table):
            if start < stop:
                self._handle.compact_range(start=prefix + start, stop=prefix + stop)

    def size_bytes(self, table: str, start: bytes, stop: bytes) -> int:
        """Return the approximate bytes of the range's files; rows only in the log do not count."""
        prefix = self._prefixes[table]
        with self._reading(table):
            return int(self._handle.approximate_size(prefix + start, prefix + stop))

    @contextmanager
    def cut(self) -> Iterator[tuple[Path, float]]:
        """Yield a folder with a cut (`tables.leveldb_cut`), which is deleted afterwards.

        The number says for how many seconds writes had to wait. Raises as `take_cut`, and as
        `check_writable`. One at a time.
        """
        waited_s = 0.0

        @contextmanager
        def no_writes() -> Iterator[None]:
            nonlocal waited_s
            with self._write_lock:
                began = monotonic()
                self.check_writable()
                yield
            waited_s += monotonic() - began

        try:
            self._folder.delete_cut()
            take_cut(self._folder.leveldb, self._folder.cut, no_writes)
            yield self._folder.cut, waited_s
        finally:
            self._folder.delete_cut()

    def _reopen_when_writable(self) -> None:
        """Wait for room, then replace the handle; runs in a thread of its own."""
        while not self._stop_reopening.wait(_REOPEN_EVERY_S):
            if not self._disk_takes_writes():
                continue
            with self._write_lock, self._gate.exclusive():
                if self._closed:
                    return
                try:
                    self._exchange_handle()
                except (StoreUnavailable, FolderUnusable) as error:
                    self._failure = str(error)
                    continue
                except StoreCorrupt as error:
                    self._failure, self._is_damaged = str(error), True
                    _log.critical("the store is damaged and remains closed: %s", error)
                    return
                self._failure = None
                _log.warning("the disk accepts writes again; the store was reopened")
                return

    def _exchange_handle(self) -> None:
        if self._handle is not None:
            self._handle.close()
        self._handle = None
        self._handle = self._open()
        self._tables = self._tables_of(self._handle)

    def _disk_takes_writes(self) -> bool:
        """Whether there is room for the writes of an opening: the log's rows as a table, and more.

        It allocates the room, because free blocks say nothing about quotas. An opening that failed
        for lack of room would leave readers without a handle.
        """
        room_bytes = self._opening_bytes
        probe = self._folder.path / "probe"
        try:
            if self._folder.free_bytes() < room_bytes:
                return False
            with os.fdopen(
                opened_itself(probe, os.O_WRONLY | os.O_CREAT | os.O_TRUNC), "wb"
            ) as out:
                os.posix_fallocate(out.fileno(), 0, room_bytes)
                out.write(bytes(_PROBE_BYTES))
                out.flush()
                os.fsync(out.fileno())
        except OSError:
            return False
        finally:
            with suppress(OSError):
                probe.unlink(missing_ok=True)
        return True

    @property
    def is_raised(self) -> bool:
        """Whether the present format is recorded."""
        return self._folder.is_raised

    def raise_format(self) -> None:
        """Rename properties and record the present format, if an older one is recorded."""
        self.check_writable()
        if not self.is_raised:
            raise_rows(self)
            self._folder.record_format()

    @property
    def format_file(self) -> Path:
        """The file that records the format."""
        return self._folder.format_file

    def features(self) -> frozenset[str]:
        """Return the recorded features."""
        return self._folder.features

    def add_feature(self, feature: str) -> None:
        """Record a feature; its tables already have their place in LevelDB."""
        with self._write_lock:
            self.check_writable()
            self._folder.add_feature(feature)

    def close(self) -> None:
        """Wait for calls in progress, then close and release the folder."""
        self._stop_reopening.set()
        with self._write_lock, self._gate.exclusive():
            if self._closed:
                return
            self._closed = True
            if self._handle is not None:
                self._handle.close()
            self._folder.release()
