"""The sizes of recently stored messages by write pointer, request by request.

A store does not report the size of data that it has only in memory, where the most recent payloads
are. Bounded: the pointers used first are forgotten first, and if a pointer has very many requests,
pairs of them are merged, so that no size is lost.
"""

from collections.abc import Sequence
from typing import NamedTuple

from cachetools import FIFOCache

_POINTERS_MAX = 10_000
_REQUESTS_MAX = 1_000
"""The requests kept for one pointer."""


class StoredRun(NamedTuple):
    """The messages that requests stored one after another."""

    first_key: bytes
    size_bytes: int


class StoredSizes:
    """The sizes known to this process, by topic prefix and write pointer."""

    def __init__(self) -> None:
        self._runs: FIFOCache[tuple[bytes, int], list[StoredRun]] = FIFOCache(_POINTERS_MAX)

    def __len__(self) -> int:
        return len(self._runs)

    def add(self, prefix: bytes, write_pointer: int, first_key: bytes, size_bytes: int) -> None:
        """Record that a request stored `size_bytes`, from `first_key` on."""
        runs = self._runs.setdefault((prefix, write_pointer), [])
        runs.append(StoredRun(first_key, size_bytes))
        if len(runs) > _REQUESTS_MAX:
            runs[:] = [
                StoredRun(run.first_key, sum(run.size_bytes for run in runs[at : at + 2]))
                for at, run in enumerate(runs)
                if at % 2 == 0
            ]

    def runs(self, prefix: bytes, write_pointer: int) -> Sequence[StoredRun]:
        """Return the recorded runs of a pointer, in the order of the keys."""
        return tuple(self._runs.get((prefix, write_pointer), ()))
