"""The schedule of one topic in memory: where it is, never its messages. Pure.

1. Everything up to the watermark is published or cancelled, as of the flush that is being put
   together. What is due is published up to a `closed` place: that is set before the rows are read,
   and nothing is scheduled up to it until they are published. So no message is passed over.
2. A message that is due before the closed place is scheduled at that time instead. Its number is
   greater than any before, so its place is after the closed one. A message that is due before the
   watermark, because the clock was set back, moves the watermark back if the store allows it.
   Otherwise, it is scheduled at the watermark's time, and is due at once.
3. A message that is cancelled while a page is being read or published is left out of the page. One
   whose page is in a flush before is published, and cannot be cancelled. So exactly one of both
   happens.

Used from the event loop's thread alone.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from tms.core.errors import StoreUnavailable
from tms.core.values.schedules import DuePlace, SchedulePage

if TYPE_CHECKING:
    from tables.schedule_table import ScheduleRows


class LoadedSchedule:
    """The schedule of one generation of a topic."""

    def __init__(self, topic_prefix: bytes, rows: "ScheduleRows", watermark: DuePlace) -> None:
        """Continue after `watermark`; the number of messages that wait is not known yet."""
        self.prefix = topic_prefix
        self.rows = rows
        self.watermark = watermark
        self.count: int | None = None
        """About how many messages wait; None if they were not counted yet."""
        self.first_ms: int | None = None
        """When the first message is due of those that became durable since the last turn began."""
        self.is_dropped = False
        """Whether it is not in use any more, because it is read again when it is needed."""
        self.is_in_flush = False
        """Whether the flush that is being put together or written changes its rows."""
        self.in_use = 0
        """How many calls need it."""
        self.pages = 0
        """How many pages were added to flushes."""
        self._closed: DuePlace | None = None
        """None unless a page is being read or published."""
        self._highest = watermark
        """The highest watermark so far."""
        self._cancelled: set[DuePlace] = set()

    def check_current(self) -> None:
        """Raise `StoreUnavailable` if it is not in use any more."""
        if self.is_dropped:
            raise StoreUnavailable(reason="the schedule has been read again; try again")

    def place(self, due_ms: int, number: int) -> DuePlace:
        """Return the place of a message that is due at a time; the number is new.

        If it is before the watermark, `go_back` is to be called.
        """
        if self._closed is not None:
            due_ms = max(due_ms, self._closed.due_ms)
        if not self.rows.may_go_back:
            due_ms = max(due_ms, self.watermark.due_ms)
        return DuePlace(due_ms, number)

    def go_back(self, first: DuePlace) -> DuePlace:
        """Move the watermark back before a place; return it."""
        self.watermark = DuePlace(first.due_ms, 0)
        return self.watermark

    def added(self, count: int) -> None:
        """Count messages whose rows are in a flush."""
        self.is_in_flush = True
        if self.count is not None:
            self.count += count

    def became_durable(self, due_ms: int) -> None:
        """Record when a message that waits is due."""
        self.first_ms = due_ms if self.first_ms is None else min(self.first_ms, due_ms)

    def is_known_to_wait(self, place: DuePlace, pages: int) -> bool | None:
        """Return whether a message still waits that did so when `pages` pages were published.

        None if its row must be looked at again after the flush: one that ends it may fail.
        """
        if place in self._cancelled or place <= self.watermark:
            return None if self.is_in_flush else False
        return True if place > self._highest or pages == self.pages else None

    def cancel(self, place: DuePlace) -> None:
        """Record that a message is cancelled in the flush that is being put together."""
        self.is_in_flush = True
        self._cancelled.add(place)
        if self.count is not None:
            self.count = max(0, self.count - 1)

    def close(self, now_ms: int, last_number: int) -> DuePlace:
        """Begin a turn, of which there is one at a time; return the place up to which all is due.

        A message that was scheduled at the watermark's time is due, even if the clock was set back.
        """
        assert self._closed is None
        self.first_ms = None
        self._closed = DuePlace(max(now_ms, self.watermark.due_ms), last_number)
        return self._closed

    def remaining(self, page: SchedulePage) -> Sequence[bytes]:
        """Return the bodies of a page that were not cancelled since it was read."""
        if not self._cancelled:
            return page.bodies
        return [each.body for each in page.rows if each.place not in self._cancelled]

    def published(self, through: DuePlace, count: int) -> None:
        """Record that everything up to a place is published in this flush."""
        self.watermark = through
        self._highest = max(self._highest, through)
        self.pages += 1
        self.is_in_flush = True
        if self.count is not None:
            self.count = max(0, self.count - count)

    def flushed(self) -> None:
        """Record that its rows are durable."""
        self.is_in_flush = False
        self._forget_cancelled()

    def end_turn(self) -> None:
        """End what `close` began."""
        self._closed = None
        self._forget_cancelled()

    def _forget_cancelled(self) -> None:
        if not self.is_in_flush and self._closed is None:
            self._cancelled.clear()
