"""The parameters of a poll: its start and end, its limit, and its isolation.

It is made once, where a request is decoded or a client is called, and handed on whole.
"""

from enum import StrEnum
from typing import NamedTuple

from tms.core.values.transaction import Transaction


class Isolation(StrEnum):
    """The messages that a reader without a transaction gets."""

    ALL = "all"
    """Everything: what is in progress or rolled back, too."""
    COMMITTED = "committed"
    """The messages that a new transaction would see."""


def isolation_of(*, committed: bool) -> Isolation:
    """Return what a reader is given that wants only what is committed, or everything."""
    return Isolation.COMMITTED if committed else Isolation.ALL


View = Isolation | Transaction | int
"""The view of a reader. A transaction: its view. A number is the id of one in progress."""


class Reading(NamedTuple):
    """The parameters of one poll. Do not change it."""

    position: bytes
    """The smallest id to give (`message.position_of`)."""
    limit: int | None = None
    """How many messages to give at most; None is the server's default."""
    view: View = Isolation.ALL
    end: bytes | None = None
    """No id from this one on is given."""

    def behind(self, position: bytes, given: int) -> "Reading":
        """Return what is left to read from `position` on, once `given` messages were given."""
        limit = None if self.limit is None else self.limit - given
        return Reading(position, limit, self.view, self.end)
