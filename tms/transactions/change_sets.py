"""The changes of committed transactions, kept as long as one in progress may conflict with them.

A set is recorded at its commit pointer, the first write pointer not yet assigned at the commit. It
conflicts with transactions whose id is below that: those that were in progress at the commit.
"""

from collections import deque
from collections.abc import Collection, Iterable
from typing import NamedTuple

from tms.core.errors import TooLarge, TooManyTransactions
from tms.core.limits import Limits
from tms.core.runtime.shares import Shares

_CHANGE_OVERHEAD_BYTES = 150
"""The approximate overhead of a change: Python's objects and the index by key."""


def weight_of(changes: Collection[bytes]) -> int:
    """Return approximately how many bytes changes take in memory."""
    return sum(map(len, changes)) + _CHANGE_OVERHEAD_BYTES * len(changes)


def checked_changes(
    changes: Collection[bytes], limits: Limits, kept: Shares, sharer: str | None, oldest: int
) -> tuple[bytes, ...]:
    """Return the distinct changes that a transaction of `sharer` may announce.

    `kept` counts the changes of all transactions, and `oldest` is the transaction that keeps them.
    Raises `TooLarge` (too_many_changes), `TooManyTransactions` (too_many_changes_kept).
    """
    if not changes:
        return ()
    size = sum(map(len, changes))
    if len(changes) > limits.transaction_changes_max or size > limits.transaction_changes_bytes_max:
        raise TooLarge(
            "too_many_changes",
            changes=len(changes),
            changes_max=limits.transaction_changes_max,
            bytes=size,
            bytes_max=limits.transaction_changes_bytes_max,
        )
    if weight_of(changes) > kept.room(sharer):
        raise TooManyTransactions(
            "too_many_changes_kept",
            kept_bytes=kept.used,
            kept_bytes_of_principal=kept.used_by(sharer),
            bytes_max=kept.bound,
            oldest_transaction_id=oldest,
        )
    return tuple(dict.fromkeys(changes))


class CommittedSet(NamedTuple):
    """The changes of one commit."""

    commit_pointer: int
    transaction_id: int
    client: str
    changes: tuple[bytes, ...]
    principal: str | None = None
    """The principal of the transaction; snapshots do not store it."""


class ChangeSets:
    """The committed sets, by commit pointer and by key."""

    def __init__(self, kept: Shares) -> None:
        """Count in `kept` approximately how many bytes they take in memory."""
        self.committed: deque[CommittedSet] = deque()
        """In the order of commit pointers, which several sets may share."""
        self._latest: dict[bytes, CommittedSet] = {}
        self._kept = kept

    def add(self, committed: CommittedSet) -> None:
        """Record a set; commit pointers ascend."""
        self.committed.append(committed)
        self._kept.add(committed.principal, weight_of(committed.changes))
        for key in committed.changes:
            self._latest[key] = committed

    def conflict(
        self, transaction_id: int, changes: Iterable[bytes]
    ) -> tuple[bytes, CommittedSet] | None:
        """Return a key of `changes` that a later commit also changed, with that commit's set."""
        latest = self._latest
        for key in changes:
            committed = latest.get(key)
            if committed is not None and committed.commit_pointer > transaction_id:
                return key, committed
        return None

    def drop_before(self, first_short: int) -> None:
        """Forget the sets committed below the first short pointer in progress."""
        committed = self.committed
        while committed and committed[0].commit_pointer < first_short:
            dropped = committed.popleft()
            self._kept.add(dropped.principal, -weight_of(dropped.changes))
            for key in dropped.changes:
                if self._latest.get(key) is dropped:
                    del self._latest[key]
