"""The parts of a group's state: open messages, deliveries and keys. Plain data."""

from collections import deque
from collections.abc import Sequence
from typing import NamedTuple

from tms.messaging.groups.edits import TakenEdit

REASONS_MAX = 1_000
NEVER_MS = (1 << 63) - 1
"""The time before which a dying message is not delivered."""


class Taker(NamedTuple):
    """A member. Equal names under two principals are two members."""

    name: str
    principal: str | None


class Reservation(NamedTuple):
    """Messages that are about to be delivered."""

    ids: Sequence[bytes]
    """Ascending."""
    epoch: int
    """The reservation has ended if the state has another epoch: by a seek, or a reopening."""


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
        """The number of failed attempts."""
        self.ends = 0
        """How many of them failed because a lease ended."""
        self.delivery = 0
        """The number of the delivery that has it; 0 if it is not leased."""
        self.last_delivery = 0
        """The last delivery that had it since the group was loaded; 0 if none did."""
        self.last_taker: Taker | None = None
        """The member of that delivery."""
        self.not_before_ms = 0
        """The time before which it is not delivered again."""
        self.is_due = is_due
        """Whether a heap has it, of those that may be delivered now or later."""
        self.is_reserved = False
        """Whether it is about to be delivered."""


class Delivery:
    """The messages that a take leased; `OpenMessages.ids_of` returns those still leased."""

    __slots__ = ("checked_at_ms", "end_ms", "held_count", "lease_ms", "sequence", "taken", "taker")

    def __init__(self, taken: TakenEdit, taker: Taker, end_ms: int) -> None:
        self.taker = taker
        self.sequence = taken.sequence
        self.lease_ms = taken.lease_ms
        self.end_ms = end_ms
        self.checked_at_ms = end_ms
        """When its end is next checked, at `end_ms` or before: the time of its one valid entry in
        `OpenMessages._ends`."""
        self.taken = tuple(taken.ids)
        """Ascending. At most half of them have been settled or released."""
        self.held_count = len(self.taken)
        """How many the member still holds."""


class Reasons(dict[bytes, str]):
    """Why messages failed last; it keeps the newest `REASONS_MAX` reasons."""

    def note(self, ids: Sequence[bytes], reason: str) -> None:
        """Record the reason for which messages failed; an empty one removes the earlier one."""
        for message_id in ids if self or reason else ():
            self.pop(message_id, None)
            if reason:
                self[message_id] = reason
        while len(self) > REASONS_MAX:
            del self[next(iter(self))]


class OpenKey:
    """The open messages of one key, if the order is by key."""

    __slots__ = ("delivery", "is_due", "is_reserved", "open")

    def __init__(self) -> None:
        self.open: list[bytes] | deque[bytes] = []
        """Ascending. A list, because an empty deque takes 600 bytes; for many messages a deque,
        because each ack removes the first one."""
        self.delivery = 0
        """The delivery that has some of them; 0 if none are leased."""
        self.is_due = False
        self.is_reserved = False
