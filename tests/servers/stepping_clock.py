"""Clocks of test processes, which the test sets while they run.

A shim (`stepping_clock.c`) adds the offsets in a file to the machine's clocks. It is built with the
machine's C compiler: without one, the test fails and says so.
"""

import mmap
import struct
import subprocess
from functools import cache
from pathlib import Path
from tempfile import mkdtemp

_SOURCE = Path(__file__).with_suffix(".c")
_OFFSETS = struct.Struct("=qqq")


@cache
def _shim() -> Path:
    """Build the shim, once in this process."""
    built = Path(mkdtemp(prefix="tms-clock-")) / "stepping_clock.so"
    compile_it = ("cc", "-shared", "-fPIC", "-O1", "-Wall", "-o", str(built), str(_SOURCE), "-ldl")
    subprocess.run(compile_it, check=True)
    return built


class SteppingClock:
    """How much the clocks of some processes differ from the machine's, in milliseconds."""

    def __init__(self, folder: Path) -> None:
        """Keep the offsets in `folder`."""
        self._path = folder / "clock-offsets"
        self._path.write_bytes(bytes(_OFFSETS.size))
        self._file = self._path.open("r+b")
        self._offsets = mmap.mmap(self._file.fileno(), _OFFSETS.size)
        self.wall_ms = self.boot_ms = self.steady_ms = 0

    @property
    def environment(self) -> dict[str, str]:
        """The environment that a process needs to have these clocks."""
        return {"LD_PRELOAD": str(_shim()), "CLOCK_OFFSETS": str(self._path)}

    def _put(self) -> None:
        self._offsets[:] = _OFFSETS.pack(self.wall_ms, self.boot_ms, self.steady_ms)

    def set_right(self) -> None:
        """Make all clocks those of the machine."""
        self.wall_ms = self.boot_ms = self.steady_ms = 0
        self._put()

    def step(self, by_ms: int) -> None:
        """Set the wall clock forward or back for all running processes."""
        self.wall_ms += by_ms
        self._put()

    def suspend(self, for_ms: int) -> None:
        """Let time pass as if the machine were suspended: both clocks run, but no process does."""
        self.boot_ms += for_ms
        self.step(for_ms)

    def stand_still(self, for_ms: int) -> None:
        """Undo the time in which the processes were stopped, so that none passed for them."""
        self.boot_ms -= for_ms
        self.steady_ms -= for_ms
        self.step(-for_ms)

    def close(self) -> None:
        """Let go of the file."""
        self._offsets.close()
        self._file.close()
