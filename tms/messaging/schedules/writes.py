"""Requests to the writer that change schedules. Each is checked within its flush."""

from collections.abc import Callable, Collection, Sequence
from typing import NamedTuple

from tms.core.errors import ScheduledNotFound, TooLarge
from tms.core.services.commits import Carried, CarryAgain
from tms.core.services.group_commit import Write
from tms.core.values.batch import Batch
from tms.core.values.schedules import DuePlace, Scheduled, SchedulePage
from tms.core.values.topic import TopicId, TopicMetadata
from tms.messaging.loaded_topics import TopicState
from tms.messaging.mark import StoreMark
from tms.messaging.schedules.loaded_schedule import LoadedSchedule
from tms.messaging.versions import Versions
from tms.messaging.write_requests import MESSAGE_OVERHEAD_BYTES, Publication, TopicWrite, Writing

OnFlushed = Callable[[LoadedSchedule], object]
"""Is called with a schedule that is changed by the flush that is being put together."""


class Numbers:
    """The numbers of scheduled messages: each is above all that the store has given."""

    def __init__(self, mark: StoreMark | None) -> None:
        self._mark = mark
        self.last = 0 if mark is None else mark.high
        """The greatest that may have been given."""
        self._versions = Versions(self.last)

    def take(self, batch: Batch, now_ms: int, count: int) -> range:
        """Return new numbers, for rows of `batch`."""
        first = self._versions.first(now_ms)
        self.last = first + count - 1
        self._versions.record(self.last)
        if self._mark is not None:
            self._mark.cover(batch, self.last)
        return range(first, first + count)

    def are_durable(self, number: int) -> None:
        """Record that the batch with a number is durable."""
        if self._mark is not None:
            self._mark.is_durable(number)


class DueBodies(NamedTuple):
    """Bodies of messages that are due at one time."""

    due_ms: int
    bodies: Sequence[bytes]


class Scheduling(TopicWrite, Carried):
    """New messages of a schedule."""

    def __init__(
        self,
        writing: Writing,
        state: TopicState,
        schedule: LoadedSchedule,
        numbers: Numbers,
        *,
        due: Sequence[DueBodies],
        payload_bytes: int,
        checked: TopicMetadata,
        changes: OnFlushed,
        is_due: Callable[[TopicId, int], object],
    ) -> None:
        """Schedule messages; `is_due` is called when they are durable, with the first time."""
        self._count = sum(len(each.bodies) for each in due)
        size_bytes = payload_bytes + MESSAGE_OVERHEAD_BYTES * self._count
        super().__init__(writing, state, size_bytes, checked)
        self._due = due
        self._schedule = schedule
        self._numbers = numbers
        self._changes = changes
        self._is_due = is_due
        self._ids: Sequence[str] = ()
        self._first_ms = self._last = 0

    def check(self, write_pointers: Collection[int] = ()) -> None:  # noqa: ARG002
        """Raise `TooLarge` (too_many_scheduled), or that the topic or schedule has changed."""
        self.check_topic()
        schedule = self._schedule
        schedule.check_current()
        waiting, most = schedule.count or 0, self._writing.engine.limits.topic_scheduled_max
        if waiting + self._count > most:
            raise TooLarge("too_many_scheduled", scheduled=waiting, topic_scheduled_max=most)

    def add_rows(self, batch: Batch, now_ms: int) -> None:
        """Add a row for each. Raises as `check`."""
        self.check()
        schedule, places = self._schedule, []
        for due_ms, bodies in self._due:
            numbers = self._numbers.take(batch, now_ms, len(bodies))
            first = schedule.place(due_ms, numbers[0])
            if first <= schedule.watermark:
                schedule.rows.go_back(batch, schedule.go_back(first))
            places.append(first)
            self._last = numbers[-1]
            self._ids = schedule.rows.put_new(batch, first.due_ms, numbers, bodies)
        self._first_ms = min(places).due_ms
        schedule.added(self._count)
        self._changes(schedule)

    def on_durable(self) -> None:
        """Record when they are due."""
        self._numbers.are_durable(self._last)
        self._schedule.became_durable(self._first_ms)
        self._is_due(self.state.topic.id, self._first_ms)

    def on_failed(self) -> None:
        """Do nothing: the entries of the topic stay as they are."""

    def result(self) -> Scheduled:
        """Return the ids of those that are due at one time."""
        return Scheduled(self._ids, self._first_ms)


class Cancellation(TopicWrite):
    """The end of a scheduled message that was there."""

    def __init__(
        self,
        writing: Writing,
        state: TopicState,
        schedule: LoadedSchedule,
        place: DuePlace,
        changes: OnFlushed,
    ) -> None:
        super().__init__(writing, state, MESSAGE_OVERHEAD_BYTES)
        self._schedule = schedule
        self._pages = schedule.pages
        self._place = place
        self._changes = changes

    def add_rows(self, batch: Batch, now_ms: int) -> None:  # noqa: ARG002
        """Delete the row. Raises `ScheduledNotFound` if it is published, `CarryAgain`."""
        self.check_topic()
        self._schedule.check_current()
        waits = self._schedule.is_known_to_wait(self._place, self._pages)
        if waits is None:
            raise CarryAgain(reason="pages have been published, or are in this flush")
        if not waits:
            raise ScheduledNotFound(topic=str(self.state.topic.id), id=self._place.id)
        self._schedule.rows.cancel(batch, self._place)
        self._schedule.cancel(self._place)
        self._changes(self._schedule)

    def on_failed(self) -> None:
        """Do nothing: the entries of the topic stay as they are."""


class DuePublication(Write):
    """A page of messages that are due: their entries, and the watermark after them.

    The topic's state is held by the caller.
    """

    def __init__(
        self,
        writing: Writing,
        state: TopicState,
        schedule: LoadedSchedule,
        page: SchedulePage,
        through: DuePlace,
        *,
        changes: OnFlushed,
    ) -> None:
        overhead_bytes = MESSAGE_OVERHEAD_BYTES * len(page.bodies)
        self.size_bytes = sum(map(len, page.bodies)) + overhead_bytes
        self._writing = writing
        self._state = state
        self._schedule = schedule
        self._page = page
        self._through = through
        self._changes = changes
        self._publication: Publication | None = None

    def add_rows(self, batch: Batch, now_ms: int) -> None:
        """Publish what was not cancelled since the page was read."""
        schedule = self._schedule
        self._state.check_current()
        schedule.check_current()
        schedule.rows.publish(batch, self._page, self._through)
        bodies = schedule.remaining(self._page)
        schedule.published(self._through, len(bodies))
        self._changes(schedule)
        if bodies:
            size = sum(map(len, bodies))
            self._publication = Publication(self._writing, self._state, bodies, None, size)
            self._publication.add_rows(batch, now_ms)

    def on_durable(self) -> None:
        """Show the entries to readers."""
        if self._publication is not None:
            self._publication.on_durable()

    def on_failed(self) -> None:
        """Let the cache begin above the keys that were given."""
        if self._publication is not None:
            self._publication.on_failed()
