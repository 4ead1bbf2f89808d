"""A transaction as its owner and readers see it: Tephra's `Transaction` and its view.

Pure values. Write pointers are times in milliseconds x 1,000,000, so they ascend with start order.
The rules are Tephra's (`Transaction.isVisible`, `TransactionMessageFilter` of CDAP).
"""

from bisect import bisect_left
from collections.abc import Sequence
from enum import Enum, IntEnum
from typing import NamedTuple

NO_TX_IN_PROGRESS = 2**63 - 1


class TransactionType(IntEnum):
    """Values of Tephra's Thrift enum. DO NOT CHANGE: on the wire."""

    SHORT = 1
    LONG = 2


class VisibilityLevel(IntEnum):
    """Which of its own writes a transaction sees. Tephra's Thrift enum. DO NOT CHANGE."""

    SNAPSHOT = 1
    SNAPSHOT_EXCLUDE_CURRENT = 2
    SNAPSHOT_ALL = 3


class Visibility(Enum):
    """The action of a transactional reader at an entry."""

    GIVE = "give"
    SKIP = "skip"
    STOP = "stop"


class Transaction(NamedTuple):
    """A snapshot of committed writes, and the pointers under which the transaction writes."""

    read_pointer: int
    transaction_id: int
    """The first write pointer, which is the id of the transaction."""
    write_pointer: int
    """The current write pointer: `transaction_id` until a checkpoint."""
    invalids: Sequence[int] = ()
    """Ascending."""
    in_progress: Sequence[int] = ()
    """Ascending."""
    first_short_in_progress: int = NO_TX_IN_PROGRESS
    type: TransactionType = TransactionType.SHORT
    checkpoint_write_pointers: Sequence[int] = ()
    """Ascending."""
    visibility_level: VisibilityLevel = VisibilityLevel.SNAPSHOT

    def is_own_write(self, pointer: int) -> bool:
        """Whether `pointer` is one of this transaction's write pointers."""
        return pointer in (self.write_pointer, self.transaction_id) or _holds(
            self.checkpoint_write_pointers, pointer
        )

    def is_visible(self, pointer: int) -> bool:
        """Whether writes under `pointer` are in the snapshot or its own."""
        if (
            pointer <= self.read_pointer
            and not _holds(self.in_progress, pointer)
            and not _holds(self.invalids, pointer)
        ):
            return True
        if not self.is_own_write(pointer):
            return False
        excludes_current = self.visibility_level is VisibilityLevel.SNAPSHOT_EXCLUDE_CURRENT
        return not (excludes_current and pointer == self.write_pointer)

    def decide(self, pointer: int) -> Visibility:
        """Return what a reader does at an entry stored with `pointer`, negative if rolled back.

        It stops at an entry that may still commit, because returning later ones would break the
        order.
        """
        if pointer < 0:
            return Visibility.SKIP
        if self.is_visible(pointer):
            return Visibility.GIVE
        if _holds(self.invalids, pointer):
            return Visibility.SKIP
        return Visibility.STOP


ALL_VISIBLE_LATEST = Transaction(
    read_pointer=NO_TX_IN_PROGRESS,
    transaction_id=NO_TX_IN_PROGRESS,
    write_pointer=NO_TX_IN_PROGRESS,
)
"""Sees everything except rolled back entries."""


def _holds(ascending: Sequence[int], pointer: int) -> bool:
    at = bisect_left(ascending, pointer)
    return at < len(ascending) and ascending[at] == pointer
