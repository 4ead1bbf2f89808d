"""Schedules (`tms.core.values.schedules.Schedules`), over the tables of one store.

Scheduling and cancelling are requests to the writer. A timer (`timer.py`) publishes what is due.
Used from the event loop's thread alone.
"""

from collections.abc import AsyncIterator, Sequence
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager

from tms.core.errors import InvalidRequest, ScheduledNotFound
from tms.core.services.commits import CarryAgain, CommitRequest, JointWrite
from tms.core.values.caller import ANYBODY, Caller, check_may_change
from tms.core.values.frame import FramedBody
from tms.core.values.message import Message, framed_message
from tms.core.values.schedules import (
    LAST_PLACE,
    LISTED_DEFAULT,
    LISTED_MAX,
    CommitSchedule,
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
from tms.messaging.schedules.writes import Cancellation, DueBodies, Numbers, Scheduling
from tms.messaging.schema_checks import SchemaChecks
from tms.messaging.topics import Topics
from tms.messaging.write_requests import Writing

_LISTED_BYTES_MAX = 4 * 1024 * 1024


class ScheduleService:
    """The schedules of one store's topics."""

    def __init__(self, writing: Writing, topics: Topics, checks: SchemaChecks) -> None:
        """Write by `writing`, after `checks` have admitted the messages."""
        engine = self._engine = writing.engine
        self._writing = writing
        self._topics = topics
        self._checks = checks
        self._schedules = LoadedSchedules(engine)
        self._numbers = Numbers(engine.mark)
        self._timer = ScheduleTimer(writing, self._schedules, self._numbers)
        self.findings = self._timer.findings
        engine.metrics.gauge(
            "scheduled_overdue_seconds",
            "How long the oldest scheduled message that is due has been waiting.",
            self._timer.overdue_s,
        )

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
        given = (CommitSchedule(topic_id, payloads, delivery),)
        async with self._scheduling(given, caller) as [write]:
            scheduled: Scheduled = await self._engine.writer.submit(write, caller)
        return scheduled

    def carry(
        self, request: CommitRequest, caller: Caller
    ) -> AbstractAsyncContextManager[JointWrite] | None:
        """Return what a commit schedules (`tms.core.services.commits.Carrier`)."""
        return self._carried(request.schedule, caller) if request.schedule else None

    @asynccontextmanager
    async def _carried(
        self, given: Sequence[CommitSchedule], caller: Caller
    ) -> AsyncIterator[JointWrite]:
        async with self._scheduling(given, caller) as writes:
            yield JointWrite(writes)

    @asynccontextmanager
    async def _scheduling(
        self, given: Sequence[CommitSchedule], caller: Caller
    ) -> AsyncIterator[Sequence[Scheduling]]:
        """Hold the topics, and yield a write for each. Raises as `schedule`."""
        engine = self._engine
        now_ms, ahead_s_max = engine.clock.now_ms(), engine.limits.scheduled_s_max
        of_topics: dict[TopicId, list[DueBodies]] = {}
        for topic_id, payloads, delivery in given:
            check_may_change(caller, topic_id)
            if not payloads:
                raise InvalidRequest("empty_publish")
            due = DueBodies(delivery.due_ms(now_ms, ahead_s_max), payloads)
            of_topics.setdefault(topic_id, []).append(due)
        async with AsyncExitStack() as held:
            states = await held.enter_async_context(engine.states.held(of_topics))
            writes = []
            for state, due_bodies in zip(states, of_topics.values(), strict=True):
                part = self._scheduling_of(state, due_bodies, caller)
                writes.append(await held.enter_async_context(part))
            yield writes

    @asynccontextmanager
    async def _scheduling_of(
        self, state: TopicState, due: Sequence[DueBodies], caller: Caller
    ) -> AsyncIterator[Scheduling]:
        topic_id, engine = state.topic.id, self._engine
        bodies = [body for each in due for body in each.bodies]
        size = self._topics.admission.payload_bytes(topic_id.namespace, bodies)
        await self._checks.admit(state, bodies, caller)
        await engine.features.use(SCHEDULES)
        if not state.topic.has_schedule:
            await self._topics.mark_scheduled(topic_id)
        async with self._held(state) as schedule:
            await self._schedules.count(schedule)
            yield Scheduling(
                self._writing,
                state,
                schedule,
                self._numbers,
                due=due,
                payload_bytes=size,
                checked=await self._checks.admit(state, bodies, caller),
                changes=self._schedules.changes,
                is_due=self._timer.look_at,
            )

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
            if not self._timer.will_look_at(state.topic.id):  # nothing waits in it
                self._schedules.forget(state.topic.id)

    async def close(self) -> None:
        """Publish no more; the writer still works."""
        await self._timer.close()


def _shown(row: ScheduledRow) -> ScheduledMessage:
    body = row.body
    message = framed_message(b"", body) if isinstance(body, FramedBody) else Message(body)
    return ScheduledMessage(row.place.id, row.place.due_ms, message)
