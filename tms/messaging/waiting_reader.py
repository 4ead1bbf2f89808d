"""A poll that waits: it reads again at each change of its topic, until there is something to give.

A reader that is stopped at a transaction in progress reports it after a while.
"""

from collections.abc import Awaitable, Callable
from time import monotonic

from tms.core.services.messaging import STOPPED_S, Page, Stopped
from tms.core.values.message import KEY_BYTES
from tms.core.values.reading import Reading
from tms.core.values.topic import TopicId
from tms.messaging.loaded_topics import LoadedTopics, TopicState

_NOTHING = Page((), 0, None)
Read = Callable[[TopicState, Reading], Awaitable[Page]]
"""Reads a page as its reader currently sees it."""


class WaitingReader:
    """Reads pages that have messages, and waits for these."""

    def __init__(self, states: LoadedTopics, read: Read, is_stopping: Callable[[], bool]) -> None:
        """Read with `read`, and stop waiting once `is_stopping()`."""
        self._states = states
        self._read = read
        self._is_stopping = is_stopping

    async def page(
        self, topic_id: TopicId, reading: Reading, wait_s: float, stopped: Stopped | None
    ) -> Page:
        """Return the first page with messages; after `wait_s` seconds one without."""
        deadline = monotonic() + wait_s
        stop = _Stop(stopped)
        while True:
            # Held: a state that makes room for others gets no changes.
            async with self._states.held((topic_id,)) as [state]:
                seen = state.changes
                # Each read takes a new snapshot: transactions commit while a reader waits.
                is_at_end = reading.filter is None and reading.position[:KEY_BYTES] >= state.end
                page = _NOTHING if is_at_end else await self._read(state, reading)
                if page.count:
                    return page
                if page.next_position is not None:
                    # All entries read were skipped; the rest of the topic was not read yet.
                    reading = reading.behind(page.next_position, 0)
                    if reading.filter is None or monotonic() < deadline:
                        continue
                    return page
                left_s = deadline - monotonic()
                if left_s <= 0 or self._is_stopping():
                    return page
                if reading.filter is not None:
                    reading = reading._replace(position=page.after(reading.position))
                await state.wait_for_change(seen, stop.looked_at_after(page.stopped_at, left_s))


class _Stop:
    """The time that a reader has been stopped at one transaction."""

    def __init__(self, stopped: Stopped | None) -> None:
        self._stopped = stopped
        self._at: int | None = None
        self._due: float | None = None
        """When to report it; None after the report."""

    def looked_at_after(self, at: int | None, left_s: float) -> float:
        """Return how many of `left_s` seconds to wait before checking the stop again."""
        now = monotonic()
        if at != self._at:
            self._at, self._due = at, now + STOPPED_S
        if self._stopped is None or at is None or self._due is None:
            return left_s
        if now < self._due:
            return min(left_s, self._due - now)
        self._due = None
        self._stopped(at)
        return left_s
