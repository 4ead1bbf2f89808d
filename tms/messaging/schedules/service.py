"""Schedules (`tms.core.values.schedules.Schedules`), over the tables of one store.

Scheduling and cancelling are requests to the writer. A timer (`timer.py`) publishes what is due.
Used from the event loop's thread alone.
"""

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager

from tms.core.errors import InvalidRequest, ScheduledNotFound
from tms.core.services.commits import CarryAgain
from tms.core.values.caller import ANYBODY, Caller, check_may_change
from tms.core.values.frame import FramedBody
from tms.core.values.message import Message, framed_message
from tms.core.values.schedules import (
    LAST_PLACE,
    LISTED_DEFAULT,
    LISTED_MAX,
    DeliveryTime,
    Scheduled,
    ScheduledMessage,
    ScheduledRow,
    place_of,
)
from tms.core.values.store_access import StoreAccess
from tms.core.values.store_features import SCHEDULES
from tms.core.values.topic import TopicId
from tms.messaging.loaded_topics import TopicState
from tms.messaging.schedules.loaded import LoadedSchedules
from tms.messaging.schedules.loaded_schedule import LoadedSchedule
from tms.messaging.schedules.timer import ScheduleTimer
from tms.messaging.schedules.writes import Cancellation, Numbers, Scheduling
from tms.messaging.service import Service
from tms.messaging.topics import Topics
from tms.messaging.write_requests import Writing

_LISTED_BYTES_MAX = 4 * 1024 * 1024


class ScheduleService:
    """The schedules of one store's topics."""

    def __init__(self, writing: Writing, topics: Topics, messaging: Service) -> None:
        """Write by `writing`; check messages as `messaging` does."""
        engine = self._engine = writing.engine
        self._writing = writing
        self._topics = topics
        self._checks = messaging.schema_checks
        self._schedules = LoadedSchedules(engine)
        self._numbers = Numbers(engine.mark)
        self._timer = ScheduleTimer(writing, self._schedules, self._numbers)

    def start(self) -> None:
        """Begin to publish what is due, unless the store is only read."""
        if self._engine.access is not StoreAccess.READ:
            self._timer.start()

    async def schedule(
        self,
        topic_id: TopicId,
        payloads: Sequence[bytes],
        delivery: DeliveryTime,
        *,
        caller: Caller = ANYBODY,
    ) -> Scheduled:
        """Schedule messages; durable when it returns."""
        check_may_change(caller, topic_id)
        engine = self._engine
        if not payloads:
            raise InvalidRequest("empty_publish")
        due_ms = delivery.due_ms(engine.clock.now_ms(), engine.limits.scheduled_s_max)
        async with engine.states.held((topic_id,)) as [state]:
            size = self._topics.admission.payload_bytes(topic_id.namespace, payloads)
            await self._checks.admit(state, payloads, caller)
            await engine.features.use(SCHEDULES)
            if not state.topic.has_schedule:
                await self._topics.mark_scheduled(topic_id)
            async with self._held(state) as schedule:
                await self._schedules.count(schedule)
                checked = await self._checks.admit(state, payloads, caller)
                write = Scheduling(
                    self._writing,
                    state,
                    schedule,
                    self._numbers,
                    bodies=payloads,
                    payload_bytes=size,
                    due_ms=due_ms,
                    checked=checked,
                    changes=self._schedules.changes,
                )
                scheduled: Scheduled = await engine.writer.submit(write, caller)
        self._timer.look_at(topic_id, scheduled.at_ms)
        return scheduled

    async def scheduled(
        self, topic_id: TopicId, after: str | None = None, limit: int = LISTED_DEFAULT
    ) -> Sequence[ScheduledMessage]:
        """Return the first messages that wait, after an id if one is given."""
        if not limit > 0:
            raise InvalidRequest("invalid_limit", limit=limit)
        place = None if after is None else place_of(after)
        async with self._engine.states.held((topic_id,)) as [state]:
            if not state.topic.has_schedule:
                return ()
            async with self._held(state) as schedule:
                begin = schedule.watermark if place is None else max(place, schedule.watermark)
                page = await self._engine.threads.read(
                    schedule.rows.page,
                    begin,
                    LAST_PLACE,
                    rows_max=min(limit, LISTED_MAX),
                    bytes_max=_LISTED_BYTES_MAX,
                )
        return [_shown(each) for each in page.rows]

    async def cancel_scheduled(
        self, topic_id: TopicId, scheduled_id: str, *, caller: Caller = ANYBODY
    ) -> None:
        """Let a scheduled message never be published; durable when it returns."""
        check_may_change(caller, topic_id)
        place = place_of(scheduled_id)
        async with self._engine.states.held((topic_id,)) as [state]:
            if not state.topic.has_schedule:
                raise ScheduledNotFound(topic=str(topic_id), id=scheduled_id)
            async with self._held(state) as schedule:
                while True:
                    write = Cancellation(
                        self._writing, state, schedule, place, self._schedules.changes
                    )
                    if not await self._engine.threads.read(schedule.rows.has, place):
                        raise ScheduledNotFound(topic=str(topic_id), id=scheduled_id)
                    try:
                        await self._engine.writer.submit(write, caller)
                    except CarryAgain:
                        await self._schedules.wait_for_flush(schedule)
                        continue
                    return

    @asynccontextmanager
    async def _held(self, state: TopicState) -> AsyncIterator[LoadedSchedule]:
        schedule = await self._schedules.find(state)
        schedule.in_use += 1
        try:
            yield schedule
        finally:
            schedule.in_use -= 1

    async def close(self) -> None:
        """Publish no more; the writer still works."""
        await self._timer.close()


def _shown(row: ScheduledRow) -> ScheduledMessage:
    body = row.body
    message = framed_message(b"", body) if isinstance(body, FramedBody) else Message(body)
    return ScheduledMessage(row.place.id, row.place.due_ms, message)
