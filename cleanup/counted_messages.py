"""The counted messages of a topic, in slices, and the number of those that are too many. Pure.

A slice is about a hundredth of the topic's bound. The oldest slice is trimmed when the rest still
meets the bound. So a topic never has less than its bound, and at most about one slice more.

Slices are in the order in which messages are given, and a topic is trimmed by when they were
written. Stored messages may be older than what is before them. So it is trimmed before the oldest
message of all slices that stay, and not before the first.
"""

from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass, field

from tms.core.values.topic_properties import Retention

_SLICES = 100


@dataclass(slots=True)
class CountedSlice:
    """Messages one behind the other."""

    from_ms: int
    """When the oldest was written, in ms since 1970: published, or stored before that."""
    messages: int = 0
    size: int = 0
    """Bytes."""

    def is_full(self, bounds: Retention) -> bool:
        """Whether it has its part of one of the bounds."""
        both = zip((self.messages, self.size), bounds, strict=True)
        return any(bound is not None and has * _SLICES >= bound for has, bound in both)


@dataclass(slots=True)
class CountedMessages:
    """The count of one generation of a topic."""

    generation: int
    retention: Retention
    next_row: bytes
    """Where to go on."""
    slices: deque[CountedSlice] = field(default_factory=deque)
    messages: int = 0
    size: int = 0
    """Bytes."""
    is_too_much: bool = False
    """Whether any slice was dropped, so that something is to be trimmed."""
    held_ms: int | None = None
    """When the oldest message was written at which the bound waits; None if it waits for none."""
    stored_before: dict[int, int | None] = field(default_factory=dict)
    """For transactions from before a restart: the time of the first stored message of each."""
    looked_from: bytes = b""
    """The row from which on references were looked for that are not counted."""
    looked_to: bytes = b""
    """The row to which they were."""
    ahead_ms: int | None = None
    """When the oldest message was stored that these references stand for."""

    def add(self, written_ms: int, messages: int, size: int) -> None:
        """Count messages behind all others; of several, the oldest's time."""
        count_into(self.slices, self.retention, CountedSlice(written_ms, messages, size))
        self.messages += messages
        self.size += size

    def extend(self, slices: Iterable[CountedSlice]) -> None:
        """Count slices behind all others."""
        for each in slices:
            self.slices.append(each)
            self.messages += each.messages
            self.size += each.size

    def drop_too_much(self) -> None:
        """Count the oldest slices no more, as long as the others are enough."""
        while self._is_oldest_too_much():
            oldest = self.slices.popleft()
            self.messages -= oldest.messages
            self.size -= oldest.size
            self.is_too_much = True

    def _is_oldest_too_much(self) -> bool:
        if len(self.slices) <= 1:
            return False
        oldest = self.slices[0]
        left = (self.messages - oldest.messages, self.size - oldest.size)
        bounds = zip(left, self.retention, strict=True)
        return any(bound is not None and has >= bound for has, bound in bounds)

    @property
    def trim_ms(self) -> int:
        """Before when all is too much, in ms since 1970; 0: nothing is."""
        return min(each.from_ms for each in self.slices) if self.is_too_much else 0


def count_into(slices: deque[CountedSlice], retention: Retention, more: CountedSlice) -> None:
    """Add messages to the newest slice, or as a new one if that is full."""
    if not slices or slices[-1].is_full(retention):
        slices.append(more)
        return
    newest = slices[-1]
    newest.from_ms = min(newest.from_ms, more.from_ms)
    newest.messages += more.messages
    newest.size += more.size
