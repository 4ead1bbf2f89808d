"""Publishes the scheduled messages of a store when they are due.

1. One task waits for the first topic of a heap. A turn of a topic publishes some pages of its
   messages, and reads the next page while one is written. Topics that are due have their turns
   at the same time, up to a bound.
2. The messages of a page, the end of their rows and the watermark are one write. So each message is
   published once, whatever fails.
3. The clock is looked at each half second, because it may be set.
4. At the start all topics that have a schedule have a turn. If a turn fails, the topic has another
   one a second later; so do all after a flush that failed.
"""

import asyncio
import logging
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from itertools import islice
from math import inf
from typing import Final

from tms.core.errors import Stopping, TmsError, TopicNotFound
from tms.core.limits import MS_PER_S
from tms.core.runtime.supervision import supervised
from tms.core.services.findings import Finding, FindingKind
from tms.core.values.schedules import DuePlace, SchedulePage, place_in
from tms.core.values.store_features import SCHEDULES
from tms.core.values.topic import TopicId, TopicMetadata
from tms.messaging.loaded_topics import TopicState
from tms.messaging.schedules.due_topics import DueTopics
from tms.messaging.schedules.loaded import LoadedSchedules
from tms.messaging.schedules.loaded_schedule import LoadedSchedule
from tms.messaging.schedules.writes import DuePublication, Numbers
from tms.messaging.write_requests import Writing

_LOOK_S: Final = 0.5
_AGAIN_S: Final = 1.0
_AT_ONCE: Final = 16
_PAGES: Final = 16
"""The most pages of a turn: then it is the turn of topics that wait."""
_PAGE_ROWS: Final = 4_000
_PAGE_BYTES: Final = 1024 * 1024
_FOUND_AT_ONCE: Final = 1_000
_NOW: Final = 0

_log = logging.getLogger(__name__)


class ScheduleTimer:
    """The timer of one store."""

    def __init__(self, writing: Writing, schedules: LoadedSchedules, numbers: Numbers) -> None:
        self._engine = writing.engine
        self._writing = writing
        self._schedules = schedules
        self._numbers = numbers
        self._due = DueTopics()
        self._wake = asyncio.Event()
        schedules.on_lost = self._wake.set
        self._engine.states.on_deleted = self._deleted
        self._turns: dict[TopicId, asyncio.Task[None]] = {}
        self._again: dict[TopicId, asyncio.TimerHandle] = {}
        self._late: dict[TopicId, int] = {}
        """Topics in a turn, or whose turn has failed, by when their first message was due."""
        self._failing: dict[TopicId, str] = {}
        """Topics whose last turn failed, each with the error."""
        self._uncounted: dict[LoadedSchedule, None] = {}
        self._count_more = asyncio.Event()
        self._counter: asyncio.Task[None] | None = None
        self._is_found = self._is_closing = False
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Begin."""
        self._task = supervised("publishing of scheduled messages", self._run)
        self._counter = supervised("counting of scheduled messages", self._count)

    def look_at(self, topic_id: TopicId, due_ms: int) -> None:
        """Give a topic a turn at a time."""
        if self._due.put(topic_id, due_ms):
            self._wake.set()

    def will_look_at(self, topic_id: TopicId) -> bool:
        """Whether a topic has a turn, or will have one."""
        return topic_id in self._turns or topic_id in self._due or topic_id in self._again

    def _deleted(self, topic: TopicMetadata) -> None:
        if topic.has_schedule:
            self.look_at(topic.id, _NOW)

    async def close(self) -> None:
        """End, with the turns that are under way."""
        self._is_closing = True
        tasks = [each for each in (self._task, self._counter) if each is not None]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        for handle in self._again.values():
            handle.cancel()
        await asyncio.gather(*self._turns.values(), return_exceptions=True)

    async def _run(self) -> None:
        if not self._is_found:
            await self._find()
            self._is_found = True
        while True:
            self._wake.clear()
            for topic_id in self._schedules.take_lost():
                self._look_again(topic_id)
            now_ms = self._engine.clock.now_ms()
            for due_ms, topic_id in self._due.take(now_ms, _AT_ONCE - len(self._turns)):
                self._late.setdefault(topic_id, due_ms or now_ms)
                self._begin(topic_id)
            await self._wait(now_ms)

    async def _wait(self, now_ms: int) -> None:
        """Wait until something may be due."""
        first_ms = self._due.first_ms()
        if first_ms is None or len(self._turns) >= _AT_ONCE:
            await self._wake.wait()
            return
        wait_s = min(max(0, first_ms - now_ms) / MS_PER_S, _LOOK_S)
        with suppress(TimeoutError):
            async with asyncio.timeout(wait_s):
                await self._wake.wait()

    async def _find(self) -> None:
        """Give a turn to all topics that have a schedule."""
        tables, threads = self._engine.tables, self._engine.threads
        if SCHEDULES not in await threads.read(tables.features):
            return
        topics = tables.metadata.scan()
        while found := await threads.read(_next, topics):
            for topic in found:
                if topic.exists and topic.has_schedule:
                    self._due.put(topic.id, _NOW)

    def _begin(self, topic_id: TopicId) -> None:
        """Begin a topic's turn; if it has one, it has another one right after that."""
        turn = self._turns.get(topic_id)
        if turn is not None:
            turn.add_done_callback(lambda _: self.look_at(topic_id, _NOW))
            return
        task = self._turns[topic_id] = asyncio.create_task(self._turn(topic_id))
        task.add_done_callback(lambda _: self._end(topic_id))

    def _end(self, topic_id: TopicId) -> None:
        del self._turns[topic_id]
        self._wake.set()

    def _look_again(self, topic_id: TopicId) -> None:
        """Give a topic a turn after a while."""

        def again() -> None:
            del self._again[topic_id]
            self.look_at(topic_id, _NOW)

        if topic_id not in self._again:
            loop = asyncio.get_running_loop()
            self._again[topic_id] = loop.call_later(_AGAIN_S, again)

    async def _turn(self, topic_id: TopicId) -> None:
        try:
            async with self._engine.states.held((topic_id,)) as [state]:
                schedule = await self._schedules.find(state)
                next_ms = await self._publish(state, schedule)
            if next_ms is not None:
                self.look_at(topic_id, next_ms)
                self._let_count(schedule)
            else:
                self._schedules.forget(topic_id)
        except TopicNotFound:
            self._schedules.forget(topic_id)
        except Stopping:
            pass
        except Exception as error:
            self._failed(topic_id, error)
            return
        self._failing.pop(topic_id, None)
        self._late.pop(topic_id, None)

    def _failed(self, topic_id: TopicId, error: Exception) -> None:
        is_new = topic_id not in self._failing
        self._failing[topic_id] = str(error)
        if is_new:
            is_known = isinstance(error, TmsError)
            _log.warning(
                "cannot publish the scheduled messages of topic %s: %s",
                topic_id,
                error,
                exc_info=None if is_known else error,
            )
        self._look_again(topic_id)

    def _let_count(self, schedule: LoadedSchedule) -> None:
        """Count the messages of a schedule, soon, if they are not counted since the start."""
        if schedule.count is None:
            self._uncounted[schedule] = None
            self._count_more.set()

    async def _count(self) -> None:
        """Count, one schedule at a time, beside everything else."""
        while True:
            self._count_more.clear()
            while self._uncounted:
                schedule, _ = self._uncounted.popitem()
                with suppress(TmsError):  # it is counted before more is scheduled, or not needed
                    await self._schedules.count(schedule)
            await self._count_more.wait()

    def overdue_s(self) -> float:
        """Return for how long the oldest message that is due has been waiting."""
        first_ms = min([self._due.first_ms() or inf, *self._late.values()])
        return max(0.0, self._engine.clock.now_ms() - first_ms) / MS_PER_S

    def findings(self) -> Sequence[Finding]:
        """Return a finding for each topic whose due messages cannot be published."""
        return [
            Finding(
                kind=FindingKind.SCHEDULE_FAILING,
                where=str(topic_id),
                text=f"Its scheduled messages that are due cannot be published: {reason}",
                advice="Check the server's log and its store; it tries again each second.",
                is_urgent=True,
            )
            for topic_id, reason in self._failing.items()
        ]

    async def _publish(self, state: TopicState, schedule: LoadedSchedule) -> int | None:
        """Publish pages of what is due; return when there is more, None if nothing waits."""
        closed = schedule.close(self._engine.clock.now_ms(), self._numbers.last)
        reading: asyncio.Future[SchedulePage] | None = None
        try:
            await self._schedules.wait_for_flush(schedule)
            page = await self._read(schedule, schedule.watermark, closed)
            for pages_left in range(_PAGES - 1, -1, -1):
                if page.is_empty:
                    break
                through = page.through(closed)
                if page.keys:
                    self._late[state.topic.id] = place_in(page.keys[0]).due_ms
                if through < closed and pages_left and not self._is_closing:
                    reading = asyncio.ensure_future(self._read(schedule, through, closed))
                changes = self._schedules.changes
                write = DuePublication(
                    self._writing, state, schedule, page, through, changes=changes
                )
                await self._engine.writer.submit(write, goes_on=True)
                if reading is None:
                    break
                page, reading = await reading, None
        finally:
            schedule.end_turn()
            if reading is not None:
                await asyncio.gather(reading, return_exceptions=True)
        firsts = [schedule.first_ms, None if page.next is None else page.next.due_ms]
        known = [each for each in firsts if each is not None]
        if not known:
            return None
        # Messages scheduled at the watermark's time are due, even if the clock was set back.
        return _NOW if min(known) <= schedule.watermark.due_ms else min(known)

    async def _read(
        self, schedule: LoadedSchedule, after: DuePlace, closed: DuePlace
    ) -> SchedulePage:
        page: SchedulePage = await self._engine.threads.read(
            schedule.rows.page, after, closed, rows_max=_PAGE_ROWS, bytes_max=_PAGE_BYTES
        )
        return page


def _next(topics: Iterator[TopicMetadata]) -> Iterable[TopicMetadata]:
    return list(islice(topics, _FOUND_AT_ONCE))
