"""The schedules in use in memory. Takes part in each flush, from the first schedule on.

A schedule is read from its table when it is first needed, and leaves memory when nothing waits in
it. After a flush that failed, all are read again once the store takes writes. Used from the event
loop's thread alone.
"""

import asyncio
from collections.abc import Callable, Sequence

from tms.core.errors import StoreUnavailable
from tms.core.runtime.shared_work import shared
from tms.core.services.group_commit import Participant
from tms.core.values.schedules import DuePlace
from tms.core.values.store_access import StoreAccess
from tms.core.values.topic import TopicId
from tms.messaging.loaded_topics import TopicState
from tms.messaging.schedules.loaded_schedule import LoadedSchedule
from tms.messaging.store_runtime import StoreRuntime

_COUNTED_AT_ONCE = 10_000


class LoadedSchedules(Participant):
    """The schedules in use."""

    def __init__(self, engine: StoreRuntime) -> None:
        self._engine = engine
        self._table = engine.tables.schedules
        self._is_writing = engine.access is not StoreAccess.READ
        self._loaded: dict[TopicId, LoadedSchedule] = {}
        self._reading: dict[bytes, asyncio.Task[LoadedSchedule]] = {}
        self._counting: dict[LoadedSchedule, asyncio.Task[int]] = {}
        self._changed: set[LoadedSchedule] = set()
        """Those whose rows the flush changes."""
        self._flush_over: asyncio.Future[None] | None = None
        self._failures = 0
        self._has_joined = False
        self.lost: set[TopicId] = set()
        """Topics whose schedules were dropped after a flush that failed."""
        self.on_lost: Callable[[], object] | None = None
        """Is called when there are new ones: rows may be durable that nobody knows of."""
        engine.metrics.memory.show("schedules", lambda: len(self._loaded))
        engine.metrics.gauge(
            "scheduled_messages",
            "Messages to be published later; after a start, those that are counted by then.",
            lambda: sum(each.count or 0 for each in self._loaded.values()),
        )

    def __len__(self) -> int:
        return len(self._loaded)

    async def find(self, state: TopicState) -> LoadedSchedule:
        """Return the schedule of a topic, whose state is held. Raises `StoreUnavailable`."""
        loaded = self._loaded.get(state.topic.id)
        if loaded is not None and loaded.prefix == state.prefix:
            return loaded
        task = self._reading.get(state.prefix)
        if task is None:
            task = self._reading[state.prefix] = asyncio.create_task(self._read(state))
            task.add_done_callback(lambda _: self._reading.pop(state.prefix, None))
        try:
            return await shared(task)
        finally:
            del task  # its error keeps this frame, which must not keep the task

    async def _read(self, state: TopicState) -> LoadedSchedule:
        engine, failures = self._engine, self._failures
        if not self._has_joined:
            engine.writer.join(self)
            self._has_joined = True
        if self._is_writing:
            engine.tables.check_writable()  # a write that failed is decided then
        stored = await engine.threads.read(self._table.read, state.prefix)
        if self._is_writing and not stored.rows.may_go_back:
            await engine.threads.write(stored.rows.sweep, stored.watermark)
        state.check_current()
        if failures != self._failures:
            raise StoreUnavailable(reason="a write has failed; try again")
        schedule = LoadedSchedule(state.prefix, stored.rows, stored.watermark)
        before = self._loaded.get(state.topic.id)
        if before is not None:  # of an earlier generation
            before.is_dropped = True
        self._loaded[state.topic.id] = schedule
        return schedule

    async def count(self, schedule: LoadedSchedule) -> None:
        """See to it that it is known how many messages wait; nothing is scheduled until then."""
        if schedule.count is not None:
            return
        task = self._counting.get(schedule)
        if task is None:
            task = self._counting[schedule] = asyncio.create_task(self._counted(schedule))
            task.add_done_callback(lambda _: self._counting.pop(schedule, None))
        try:
            schedule.count = await shared(task)
        finally:
            del task

    async def _counted(self, schedule: LoadedSchedule) -> int:
        count, after = 0, schedule.watermark
        at: DuePlace | None = after
        while at is not None and count < self._engine.limits.topic_scheduled_max:
            some, at = await self._engine.threads.read(
                schedule.rows.count, at, limit=_COUNTED_AT_ONCE
            )
            count += some
        return count

    def forget(self, topic_id: TopicId) -> None:
        """Drop the schedule of a topic, unless a call or a flush needs it."""
        schedule = self._loaded.get(topic_id)
        if schedule is not None and not schedule.in_use and not schedule.is_in_flush:
            schedule.is_dropped = True
            del self._loaded[topic_id]

    def changes(self, schedule: LoadedSchedule) -> None:
        """Record that the flush that is being put together changes a schedule."""
        self._changed.add(schedule)

    async def wait_for_flush(self, schedule: LoadedSchedule) -> None:
        """Return when no flush changes the schedule's rows any more."""
        while schedule.is_in_flush and not schedule.is_dropped:
            if self._flush_over is None:
                self._flush_over = asyncio.get_running_loop().create_future()
            await shared(self._flush_over)

    def after_flush(self) -> None:
        """Let what waits for the flush continue."""
        for schedule in self._changed:
            schedule.flushed()
        self._end_flush()

    def flush_failed(self) -> None:
        """Forget all schedules: their rows may have changed, or not."""
        self._failures += 1
        for topic_id, schedule in self._loaded.items():
            schedule.is_dropped = True
            self.lost.add(topic_id)
        if self.on_lost is not None:
            self.on_lost()
        self._loaded.clear()
        self._end_flush()

    def _end_flush(self) -> None:
        self._changed.clear()
        if self._flush_over is not None:
            self._flush_over.set_result(None)
            self._flush_over = None

    def take_lost(self) -> Sequence[TopicId]:
        """Remove and return the topics whose schedules were dropped."""
        lost = tuple(self.lost)
        self.lost.clear()
        return lost
