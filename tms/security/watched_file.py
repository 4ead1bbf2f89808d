"""A file that is read again after a change of its size, time or inode."""

from pathlib import Path


class WatchedFile:
    """One file, and its state when it was last read."""

    def __init__(self, path: str, bytes_max: int) -> None:
        self.path = path
        self._bytes_max = bytes_max
        self._read_at = self._state()

    def has_changed(self) -> bool:
        """Whether it has changed since it was last read."""
        return self._state() != self._read_at

    def read(self) -> bytes:
        """Return its content, at most one byte over the limit. Raises `OSError`."""
        self._read_at = self._state()
        with Path(self.path).open("rb") as file:
            return file.read(self._bytes_max + 1)

    def _state(self) -> tuple[int, int, int] | None:
        try:
            stat = Path(self.path).stat()
        except OSError:
            return None
        return stat.st_mtime_ns, stat.st_ino, stat.st_size
