"""The parts of a group's state: a message that is open, a delivery, and a key. Plain data."""

from collections import deque
from collections.abc import Sequence
from typing import NamedTuple

from tms.messaging.groups.edits import TakenEdit

REASONS_MAX = 1_000
NEVER_MS = (1 << 63) - 1
"""The time before which a dying message is not given."""


class Taker(NamedTuple):
    """A member: who takes and settles. Members of two principals are two, whatever their names."""

    name: str
    principal: str | None


class Reservation(NamedTuple):
    """Messages that are about to be given."""

    ids: Sequence[bytes]
    """Ascending."""
    epoch: int
    """If the group was moved or messages were reopened since, it is another."""


class OpenEntry:
    """An open message."""

    __slots__ = (
        "attempts",
        "delivery",
        "digest",
        "ends",
        "is_due",
        "is_reserved",
        "last_delivery",
        "last_taker",
        "not_before_ms",
    )

    def __init__(self, digest: bytes | None, *, is_due: bool = False) -> None:
        self.digest = digest
        """The digest of its key; None if the order is not by key."""
        self.attempts = 0
        """How many attempts have failed."""
        self.ends = 0
        """How many of them because a lease ended."""
        self.delivery = 0
        """The number of the delivery that has it; 0 if nobody has it."""
        self.last_delivery = 0
        """The last one that had it, as far as memory goes back; 0 if none had."""
        self.last_taker: Taker | None = None
        """The member of that delivery."""
        self.not_before_ms = 0
        """When it may be given again."""
        self.is_due = is_due
        """Whether it stands among those that may be given."""
        self.is_reserved = False
        """Whether it is about to be given."""


class Delivery:
    """The messages that a take leased; `OpenMessages.ids_of` tells which its member still has."""

    __slots__ = ("end_ms", "lease_ms", "left", "looked_at_ms", "sequence", "taken", "taker")

    def __init__(self, taken: TakenEdit, taker: Taker, end_ms: int) -> None:
        self.taker = taker
        self.sequence = taken.sequence
        self.lease_ms = taken.lease_ms
        self.end_ms = end_ms
        self.looked_at_ms = end_ms
        """When the end is next looked at, never after it: the time of its one entry that counts
        among the ends."""
        self.taken = tuple(taken.ids)
        """Ascending. Of these, half at most are settled or given back."""
        self.left = len(self.taken)
        """How many its member still has."""


class Reasons(dict[bytes, str]):
    """Why messages failed last, of the newest `REASONS_MAX` that failed with a reason."""

    def note(self, ids: Sequence[bytes], reason: str) -> None:
        """Keep the reason for which messages failed now; an empty one is none."""
        for each in ids if self or reason else ():
            self.pop(each, None)
            if reason:
                self[each] = reason
        while len(self) > REASONS_MAX:
            del self[next(iter(self))]


class OpenKey:
    """The open messages of one key, by key."""

    __slots__ = ("delivery", "is_due", "is_reserved", "open")

    def __init__(self) -> None:
        self.open: list[bytes] | deque[bytes] = []
        """Ascending. A list, because an empty deque takes 600 bytes; if they are many, a deque,
        because the first one goes at each ack."""
        self.delivery = 0
        """The delivery that has some; 0 if nobody has one."""
        self.is_due = False
        self.is_reserved = False
