"""Results of the tables about their rows."""

from typing import NamedTuple

from tms.core.values.subscriptions import SubscriptionPosition


class LastKeys(NamedTuple):
    """The greatest keys of a topic."""

    greatest: bytes | None
    """In the requested generation or any before it; new keys are above it. None if there are none.
    """
    own: bytes | None
    """In the requested generation only."""


class OwnEntries(NamedTuple):
    """The entries of one write pointer in a range of the Message table."""

    rows: list[tuple[bytes, bytes]]
    """Key and value as stored, of the pointer's entries that are not rolled back yet."""
    own: int
    """How many entries are under that pointer, rolled back or not."""
    foreign: int
    """How many entries belong to others."""
    next_key: bytes | None
    """Where to continue, None at the end of the range."""


class StoredPosition(NamedTuple):
    """A row of the Subscription table, whose topic's generation may be dead."""

    topic_prefix: bytes
    generation: int
    position: SubscriptionPosition
