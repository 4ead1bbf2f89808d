"""What committed transactions changed, for as long as one is in progress that may conflict.

A set is recorded at its commit pointer, the first write pointer not given out then: it conflicts
with transactions whose id is below that, those that were in progress when it committed.
"""

from collections import deque
from collections.abc import Iterable
from typing import NamedTuple


class CommittedSet(NamedTuple):
    """The changes of one commit."""

    commit_pointer: int
    transaction_id: int
    client: str
    changes: tuple[bytes, ...]


class ChangeSets:
    """The committed sets, by commit pointer and by key."""

    def __init__(self) -> None:
        self.committed: deque[CommittedSet] = deque()
        """By commit pointer; several may have the same."""
        self._latest: dict[bytes, CommittedSet] = {}

    def add(self, committed: CommittedSet) -> None:
        """Record a set; commit pointers ascend."""
        self.committed.append(committed)
        for key in committed.changes:
            self._latest[key] = committed

    def conflict(
        self, transaction_id: int, changes: Iterable[bytes]
    ) -> tuple[bytes, CommittedSet] | None:
        """Return a key of `changes` that another changed since, and that one's set."""
        latest = self._latest
        for key in changes:
            found = latest.get(key)
            if found is not None and found.commit_pointer > transaction_id:
                return key, found
        return None

    def drop_before(self, first_short: int) -> None:
        """Forget the sets committed below the first short pointer in progress."""
        committed = self.committed
        while committed and committed[0].commit_pointer < first_short:
            dropped = committed.popleft()
            for key in dropped.changes:
                if self._latest.get(key) is dropped:
                    del self._latest[key]
