"""Parsed schemas in files, so that no process repeats another's slow parse.

When a worker process ends, its parses remain, and a retry continues from them. The folder belongs
to one server. A file that cannot be written or read is parsed again.
"""

import contextlib
import hashlib
import os
import pickle
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tms.registry.questions.questions import Source

PARSE_S_MIN = 0.05
"""Faster parses are not stored."""
BYTES_MAX = 256 * 1024 * 1024
"""The most bytes of all files together; the oldest are deleted."""


class KeptParses:
    """Parsed schemas in a folder."""

    def __init__(self, bytes_max: int = BYTES_MAX) -> None:
        """Store nothing until `folder` is set."""
        self.folder: str | None = None
        self._bytes_max = bytes_max

    def parsed(self, source: Source, parse: Callable[[], Any]) -> Any:
        """Return the stored parse of a source, or the result of `parse`. Raises as `parse`."""
        if self.folder is None:
            return parse()
        path = Path(self.folder, hashlib.sha256(repr(source).encode()).hexdigest())
        with contextlib.suppress(Exception):  # a bad file: parse again
            return pickle.loads(path.read_bytes())  # noqa: S301  this server wrote it
        began_s = time.monotonic()
        parsed = parse()
        if time.monotonic() - began_s >= PARSE_S_MIN:
            with contextlib.suppress(Exception):  # without a file, it is parsed again
                self._keep(path, pickle.dumps(parsed, pickle.HIGHEST_PROTOCOL))
        return parsed

    def _keep(self, path: Path, data: bytes) -> None:
        free = self._bytes_max - len(data)
        if free < 0:
            return
        others = [(other.stat(), other) for other in path.parent.iterdir()]
        for stat, other in sorted(others, key=lambda each: each[0].st_mtime, reverse=True):
            free -= stat.st_size
            if free < 0:
                other.unlink(missing_ok=True)
        written = path.with_suffix(f".{os.getpid()}")
        written.write_bytes(data)
        written.replace(path)
