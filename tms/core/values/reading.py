"""The parameters of a poll: its start and end, its limit, its isolation, and its filter.

It is made once, when a request is decoded or a client is called, and passed on as a whole.
"""

from enum import StrEnum
from typing import NamedTuple

from tms.core.values.filters import Filter
from tms.core.values.transaction import Transaction


class Isolation(StrEnum):
    """The messages that a reader without a transaction gets."""

    ALL = "all"
    """Everything, even entries in progress or rolled back."""
    COMMITTED = "committed"
    """The messages that a new transaction would see."""


def isolation_of(*, committed: bool) -> Isolation:
    """Return the isolation of a reader of only committed messages, or of everything."""
    return Isolation.COMMITTED if committed else Isolation.ALL


View = Isolation | Transaction | int
"""The view of a reader: committed or all messages, or those that a transaction sees."""


class Reading(NamedTuple):
    """The parameters of one poll. Do not change it."""

    position: bytes
    """The smallest id to return (`message.position_of`)."""
    limit: int | None = None
    """The most messages to return; None for the server's default."""
    view: View = Isolation.ALL
    end: bytes | None = None
    """Only ids before this one are returned."""
    filter: Filter | None = None
    """Only messages that match it are returned; None for all."""

    def behind(self, position: bytes, count: int) -> "Reading":
        """Return the rest of the poll from `position` on, after `count` messages."""
        limit = None if self.limit is None else self.limit - count
        return Reading(position, limit, self.view, self.end, self.filter)
