"""The counted messages of a topic, in slices, and the excess over the topic's bounds. Pure.

A slice is about a hundredth of the topic's bound. The oldest slice is trimmed when the rest still
meets the bound. So a topic never has less than its bound, and at most about one slice more.

Slices are in the order in which readers get messages, but a topic is trimmed by the time of
writing, and stored messages may be older than earlier ones. So it is trimmed before the oldest
message of all slices that stay, not before the first.
"""

from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass, field

from tms.core.values.topic_properties import Retention

_SLICES = 100


@dataclass(slots=True)
class CountedSlice:
    """Consecutive messages."""

    from_ms: int
    """When the oldest was written, in ms since 1970: published, or stored before that."""
    messages: int = 0
    size: int = 0
    """Bytes."""

    def is_full(self, bounds: Retention) -> bool:
        """Whether it has its share of one of the bounds."""
        both = zip((self.messages, self.size), bounds, strict=True)
        return any(bound is not None and has * _SLICES >= bound for has, bound in both)


@dataclass(slots=True)
class CountedMessages:
    """The count of one generation of a topic."""

    generation: int
    retention: Retention
    next_row: bytes
    """The row to continue from."""
    slices: deque[CountedSlice] = field(default_factory=deque)
    messages: int = 0
    size: int = 0
    """Bytes."""
    is_too_much: bool = False
    """Whether a slice was dropped, so the topic must be trimmed."""
    held_ms: int | None = None
    """The time of the oldest message at which the bound waits; None if it does not wait."""
    stored_before: dict[int, int | None] = field(default_factory=dict)
    """The time of the first stored message of each transaction from before a restart."""
    looked_from: bytes = b""
    """The row from which uncounted references were searched."""
    looked_to: bytes = b""
    """The row up to which they were searched."""
    ahead_ms: int | None = None
    """The time of the oldest stored message under these references."""

    def add(self, written_ms: int, messages: int, size: int) -> None:
        """Count messages after all others; `written_ms` is that of the oldest."""
        count_into(self.slices, self.retention, CountedSlice(written_ms, messages, size))
        self.messages += messages
        self.size += size

    def extend(self, slices: Iterable[CountedSlice]) -> None:
        """Count slices after all others."""
        for part in slices:
            self.slices.append(part)
            self.messages += part.messages
            self.size += part.size

    def drop_too_much(self) -> None:
        """Drop the oldest slices as long as the others meet the bound."""
        while self._is_oldest_too_much():
            oldest = self.slices.popleft()
            self.messages -= oldest.messages
            self.size -= oldest.size
            self.is_too_much = True

    def _is_oldest_too_much(self) -> bool:
        if len(self.slices) <= 1:
            return False
        oldest = self.slices[0]
        rest = (self.messages - oldest.messages, self.size - oldest.size)
        bounds = zip(rest, self.retention, strict=True)
        return any(bound is not None and has >= bound for has, bound in bounds)

    @property
    def trim_ms(self) -> int:
        """The time before which all messages are excess, in ms since 1970; 0 if none are."""
        return min(each.from_ms for each in self.slices) if self.is_too_much else 0


def count_into(slices: deque[CountedSlice], retention: Retention, more: CountedSlice) -> None:
    """Add messages to the newest slice, or as a new slice if that is full."""
    if not slices or slices[-1].is_full(retention):
        slices.append(more)
        return
    newest = slices[-1]
    newest.from_ms = min(newest.from_ms, more.from_ms)
    newest.messages += more.messages
    newest.size += more.size
