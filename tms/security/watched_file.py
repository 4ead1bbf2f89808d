"""A file that is read anew if it was changed: another size, time or inode."""

from pathlib import Path


class WatchedFile:
    """One file, of which it is known how it was when it was read."""

    def __init__(self, path: str, bytes_max: int) -> None:
        self.path = path
        self._bytes_max = bytes_max
        self._read_at = self._state()

    def has_changed(self) -> bool:
        """Whether it is another one than was read last."""
        return self._state() != self._read_at

    def read(self) -> bytes:
        """Return what is in it, at most one byte more than it may have. Raises `OSError`."""
        self._read_at = self._state()
        with Path(self.path).open("rb") as file:
            return file.read(self._bytes_max + 1)

    def _state(self) -> tuple[int, int, int] | None:
        try:
            found = Path(self.path).stat()
        except OSError:
            return None
        return found.st_mtime_ns, found.st_ino, found.st_size
