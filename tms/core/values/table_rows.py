"""Answers of the tables about their rows."""

from typing import NamedTuple

from tms.core.values.subscriptions import SubscriptionPosition


class LastKeys(NamedTuple):
    """The greatest keys of a topic."""

    greatest: bytes | None
    """In the generation that was asked for or any before it; keys go on above it. None: none."""
    own: bytes | None
    """In that generation alone."""


class OwnEntries(NamedTuple):
    """The entries of one write pointer in a range of the Message table."""

    rows: list[tuple[bytes, bytes]]
    """Key and value as stored, of the entries under that pointer not yet rolled back."""
    own: int
    """How many entries are under that pointer, rolled back or not."""
    foreign: int
    """How many are of others."""
    next_key: bytes | None
    """Where to go on, None where the range is done."""


class StoredPosition(NamedTuple):
    """A row of the Subscription table, of a topic's generation that may be dead."""

    topic_prefix: bytes
    generation: int
    position: SubscriptionPosition
