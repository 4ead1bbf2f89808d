"""Room that is ready in LevelDB's log: zeros behind its end, so that syncs do not make it longer.

Where a file grows, a sync of it waits for the file system's own journal as well, which takes half
as long again. With the zeros there a small batch is on disk in two thirds of the time. Of larger
ones it would save less than it costs to write each byte twice.

Nothing but speed relies on this: LevelDB takes zeros for the end of its log. What this relies on is
that LevelDB writes where it stopped, in a file that nobody else writes; zeros are put behind the
end of the file alone, and only while LevelDB writes nothing. What a crash tears is mended by
`tables.leveldb_log`.
"""

import os
from contextlib import suppress
from pathlib import Path

from tables.leveldb_log import end_of_batch, newest_log

_ROOM = bytes(256 * 1024)
"""Little enough that the sync which has to write it with a batch takes a millisecond at most."""
_SMALL_BYTES = 64 * 1024


class LogRoom:
    """Keeps room for small batches. One call at a time, and none while LevelDB writes its log."""

    def __init__(self, leveldb: Path) -> None:
        """Know nothing yet of the log in the folder `leveldb`."""
        self._leveldb = leveldb
        self._log: Path | None = None
        self._end = 0
        """Where the batches end."""
        self._ready_until = 0

    def written(self, batch_bytes: int) -> None:
        """Note that LevelDB has written a batch; make room behind it if there was too little."""
        self._end = end_of_batch(self._end, batch_bytes)
        if batch_bytes <= _SMALL_BYTES and self._end > self._ready_until:
            # Where the disk has no room for it, LevelDB says so soon enough.
            self._ready_until = self._end + len(_ROOM)
            with suppress(OSError):
                self._make_ready()

    def _make_ready(self) -> None:
        descriptor = self._opened_log()
        try:
            self._ready_until = self._end + os.pwrite(descriptor, _ROOM, self._end)
        finally:
            os.close(descriptor)

    def _opened_log(self) -> int:
        """Open the log that LevelDB writes, which ends where the batches do.

        It is the one of before, if that does: to look for it takes longer the more files there are.
        """
        if self._log is not None:
            with suppress(FileNotFoundError):
                descriptor = os.open(self._log, os.O_WRONLY | os.O_CLOEXEC)
                if os.fstat(descriptor).st_size == self._end:
                    return descriptor
                os.close(descriptor)
        self._log = newest_log(self._leveldb)
        if self._log is None:
            raise FileNotFoundError(self._leveldb)
        descriptor = os.open(self._log, os.O_WRONLY | os.O_CLOEXEC)
        self._end = os.fstat(descriptor).st_size
        return descriptor
