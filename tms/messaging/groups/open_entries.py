"""The parts of a group's state: a message that is open, a delivery, and a key. Plain data."""

from collections import deque
from sys import intern

from tms.messaging.groups.edits import TakenEdit


class OpenEntry:
    """An open message."""

    __slots__ = ("attempts", "delivery", "digest", "ends", "is_due", "is_reserved", "not_before_ms")

    def __init__(self, digest: bytes | None, *, is_due: bool = False) -> None:
        self.digest = digest
        """The digest of its key; None if the order is not by key."""
        self.attempts = 0
        """How many attempts have failed."""
        self.ends = 0
        """How many of them because a lease ended."""
        self.delivery = 0
        """The number of the delivery that has it; 0 if nobody has it."""
        self.not_before_ms = 0
        """When it may be given again."""
        self.is_due = is_due
        """Whether it stands among those that may be given."""
        self.is_reserved = False
        """Whether it is about to be given."""


class Delivery:
    """The messages that a take leased; `OpenMessages.ids_of` tells which its member still has."""

    __slots__ = ("end_ms", "lease_ms", "left", "member", "principal", "sequence", "taken")

    def __init__(self, taken: TakenEdit, end_ms: int) -> None:
        self.member = intern(taken.member)
        self.principal = taken.principal
        self.sequence = taken.sequence
        self.lease_ms = taken.lease_ms
        self.end_ms = end_ms
        self.taken = tuple(taken.ids)
        """Ascending. Of these, half at most are settled or given back."""
        self.left = len(self.taken)
        """How many its member still has."""


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
