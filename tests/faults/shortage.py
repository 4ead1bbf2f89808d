"""Ways to fill the disk of a running server, and to free it again.

`FileLimit` makes the kernel refuse writes beyond a size in each file (EFBIG). `FullDisk` is a small
separate file system that is really full (ENOSPC); mounting it requires root.
"""

import os
import resource
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Protocol

from tests.servers.server_process import ServerProcess

_CHUNK = bytes(64 * 1024)


class Shortage(Protocol):
    """The ways in which a test fills a server's disk."""

    def begin(self, server: ServerProcess) -> None:
        """Make writes fail from now on."""
        ...

    def end(self, server: ServerProcess) -> None:
        """Let writes succeed again."""
        ...


class FileLimit:
    """Files may not grow beyond `bytes_max`; with 0 the disk is as good as read-only."""

    def __init__(self, bytes_max: int) -> None:
        self._bytes_max = bytes_max

    def begin(self, server: ServerProcess) -> None:
        _, hard = resource.prlimit(server.pid, resource.RLIMIT_FSIZE)
        resource.prlimit(server.pid, resource.RLIMIT_FSIZE, (self._bytes_max, hard))

    def end(self, server: ServerProcess) -> None:
        FileLimit(resource.RLIM_INFINITY).begin(server)


class FullDisk:
    """A file system that is filled by a ballast file."""

    def __init__(self, mount: Path) -> None:
        self.data = mount / "data"
        self._ballast = mount / "ballast"

    def begin(self, server: ServerProcess | None = None) -> None:
        with self._ballast.open("ab", buffering=0) as ballast, suppress(OSError):
            while ballast.write(_CHUNK):
                pass

    def leave(self, room_bytes: int) -> None:
        """Leave `room_bytes` of free space."""
        self.begin()
        with suppress(FileNotFoundError):
            os.truncate(self._ballast, max(0, self._ballast.stat().st_size - room_bytes))

    def end(self, server: ServerProcess | None = None) -> None:
        self._ballast.unlink(missing_ok=True)


@contextmanager
def small_disk(mount: Path, mib: int) -> Iterator[FullDisk | None]:
    """Mount a file system of `mib` MiB; None if that is not permitted."""
    mount.mkdir()
    command = ["mount", "-t", "tmpfs", "-o", f"size={mib}m", "tms-test", str(mount)]
    if os.geteuid() or subprocess.run(command, capture_output=True, check=False).returncode:
        yield None
        return
    try:
        yield FullDisk(mount)
    finally:
        subprocess.run(["umount", str(mount)], check=True)
