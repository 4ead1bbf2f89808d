"""The stored logs of groups, as messaging sees them; the package `tables` fulfils these interfaces.

The state of a group is a snapshot, and what the rows of a log behind it did. Rows have numbers from
the group's `created` on, one after another; a snapshot of number n has what all rows below n did.
Both are opaque bytes here. Calls block, and raise, as those of `tms.core.services.tables`; those
that take a batch only fill it.

Under each leader's token a group has rows of its own. Who goes on under another token puts a
snapshot first; from then on nothing that an earlier leader sends late counts.
"""

from collections.abc import Sequence
from typing import NamedTuple, Protocol

from tms.core.values.batch import Batch


class GroupLog(Protocol):
    """The log of one group, from when it was begun or read.

    It counts the rows itself, so after a flush that failed the group is to be read anew. `append`
    may be called beside one of `put_snapshot` and `drop`, nothing else beside another call.
    """

    @property
    def next_number(self) -> int:
        """The number of the next row."""
        ...

    @property
    def is_own(self) -> bool:
        """Whether rows can be appended. If not, put a snapshot of `next_number` first."""
        ...

    @property
    def has_older(self) -> bool:
        """Whether there may be rows below the latest snapshot, which `drop` deletes."""
        ...

    def append(self, batch: Batch, row: bytes) -> None:
        """Add to `batch` the next row of the log."""
        ...

    def put_snapshot(self, number: int, snapshot: bytes) -> None:
        """Put a snapshot of number `number`, and count on it; durable when it returns."""
        ...

    def drop(self, limit: int) -> int:
        """Delete at most `limit` rows below the latest snapshot; return how many keys they were.

        It need not be durable: what comes back is deleted again by who reads the group next. Raises
        `StoreUnavailable` where an earlier write of one of them may come late; repeat it later.
        """
        ...

    def delete(self, batch: Batch) -> None:
        """Add to `batch` the deletion of all rows. Raises `StoreUnavailable` as `drop`."""
        ...


class StoredGroup(NamedTuple):
    """A group as it is stored."""

    log: GroupLog
    number: int
    """The number of the snapshot, and of the first of `rows`."""
    snapshot: bytes
    rows: Sequence[bytes]


class GroupTable(Protocol):
    """The logs of groups. The store's feature `groups` is recorded before any of them is begun.

    The topic's subscriptions were read before (`SubscriptionTable.read`).
    """

    def begin(
        self, batch: Batch, topic_prefix: bytes, name: str, created: int, snapshot: bytes
    ) -> GroupLog:
        """Add to `batch`, which will be there whole or not at all, a group's first snapshot.

        `created` is the first version of its subscription, above the numbers of all rows that a
        group of this name had before.
        """
        ...

    def read(self, topic_prefix: bytes, name: str, created: int) -> StoredGroup:
        """Return a group that was begun with `created`.

        Raises `StoreCorrupt` where anything of it is missing or damaged, and `StoreUnavailable`
        where a later leader has it.
        """
        ...
