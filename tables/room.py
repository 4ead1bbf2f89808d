"""The disk space that a store in a folder takes, the space left on its disk, and a reserve."""

import os
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from prometheus_client import CollectorRegistry, Metric
from prometheus_client.metrics_core import GaugeMetricFamily

from tms.core.values.room import Room

RESERVE = "reserve"
_SHARES = 8
_MIB = 1024 * 1024


def room_of(folder: Path) -> Room:
    """Return the size of a folder's files, and the free space of its disk. Raises `OSError`."""
    disk = os.statvfs(folder)
    used = 0
    for path in folder.rglob("*"):
        with suppress(FileNotFoundError):  # LevelDB deletes files at the same time
            used += path.lstat().st_size if path.is_file() else 0
    return Room(used, disk.f_bavail * disk.f_frsize, disk.f_blocks * disk.f_frsize)


def want_of_room(folder: Path, needed_bytes: int) -> str:
    """Return, for an error, the room that a start needs if there is less; else an empty text."""
    free_bytes = room_of(folder).free_bytes
    if free_bytes >= needed_bytes:
        return ""
    return (
        f"; a start may need {needed_bytes / _MIB:.0f} MiB of the disk, but only "
        f"{free_bytes // _MIB} MiB are free"
    )


def keep_reserve(folder: Path, size: int) -> None:
    """Keep a file of `size` bytes that an operator can delete when the disk is full; 0 for none.

    Deletions need room too, so without it nothing can be freed. A disk with less than `_SHARES`
    times that much room gets none. Failing to make it does not matter: the disk is short already.
    """
    path = folder / RESERVE
    if size == 0:
        path.unlink(missing_ok=True)
        return
    with suppress(OSError):
        held = path.stat().st_size if path.exists() else 0
        if held < size <= room_of(folder).free_bytes // _SHARES:
            descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
            try:
                os.posix_fallocate(descriptor, 0, size)
            finally:
                os.close(descriptor)


class RoomMetrics:
    """Metrics of a store's room."""

    def __init__(self, registry: CollectorRegistry, folder: Path) -> None:
        """Register the metrics in `registry`; they have values from the first `refresh` on."""
        self._folder = folder
        self._room: Room | None = None
        registry.register(self)

    def refresh(self) -> Room | None:
        """Measure the files, and return the result. May take a moment if there are many."""
        try:
            self._room = room_of(self._folder)
        except OSError:
            self._room = None
        return self._room

    def collect(self) -> Iterator[Metric]:
        """Yield the metrics as they were at the last `refresh`."""
        if self._room is None:
            return
        yield GaugeMetricFamily(
            "tms_store_bytes",
            "Bytes of all files of the store's folder.",
            value=self._room.used_bytes,
        )
        yield GaugeMetricFamily(
            "tms_disk_free_bytes",
            "Bytes that are left on the disk of the store's folder.",
            value=self._room.free_bytes,
        )
