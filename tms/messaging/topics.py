"""Topics: created, changed, deleted and created again, each change one compare-and-put of its row.

A deleted topic keeps its row, with the generation inverted. Created again, it has the next
generation, and only the properties of the new request.
"""

import asyncio
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from typing import TypeVar

from tms.core.errors import (
    InvalidTrimTime,
    OutcomeUnknown,
    StoreUnavailable,
    TopicExists,
    TopicNotFound,
)
from tms.core.runtime.shared_work import shared
from tms.core.values.batch import Batch
from tms.core.values.topic import TopicId, TopicMetadata, check_namespace
from tms.messaging.admission import Admission
from tms.messaging.store_runtime import StoreRuntime
from tms.messaging.topic_count import TopicCount

_FIRST_GENERATION = 1

T = TypeVar("T")


class Topics:
    """The topics of one store."""

    def __init__(self, engine: StoreRuntime, admission: Admission) -> None:
        self._tables = engine.tables
        self._threads = engine.threads
        self._clock = engine.clock
        self._states = engine.states
        self.admission = admission
        self._count = TopicCount(engine.tables, engine.threads, engine.limits.topics_max)
        self._changing = asyncio.Lock()

    async def create(self, topic_id: TopicId, properties: Mapping[str, object] | None) -> None:
        """Create a topic, or a new generation of a deleted one.

        Raises `TopicExists`, `TooLarge` (topic_limit_reached).
        """
        ttl_s, others = self.admission.properties(topic_id.namespace, properties)

        def created(old: TopicMetadata | None) -> TopicMetadata:
            if old is not None and old.exists:
                raise TopicExists(topic=str(topic_id))
            self._count.check_room(topic_id)
            generation = _FIRST_GENERATION if old is None else abs(old.generation) + 1
            return TopicMetadata(topic_id, generation, ttl_s, others)

        await self._change(topic_id, created, adds=True)

    async def update(self, topic_id: TopicId, properties: Mapping[str, object]) -> None:
        """Replace all properties; missing ones have their default. Raises `TopicNotFound`."""
        ttl_s, others = self.admission.properties(topic_id.namespace, properties)

        def updated(old: TopicMetadata | None) -> TopicMetadata:
            # The time is read within the change: see `unchanging`. It may have gone back since
            # messages were deleted by it.
            expired_ms = max(self._clock.deletion_ms(), self._clock.deleted_ms)
            return _existing(old, topic_id).changed(ttl_s, others, expired_ms)

        await self._change(topic_id, updated)

    async def trim(self, topic_id: TopicId, before_ms: int) -> None:
        """Expire everything written before a time. Raises `TopicNotFound`, `InvalidTrimTime`."""

        def trimmed(old: TopicMetadata | None) -> TopicMetadata:
            now_ms = self._clock.keys_ms()
            if not 0 <= before_ms <= now_ms:
                raise InvalidTrimTime(before_ms=before_ms, now_ms=now_ms)
            return _existing(old, topic_id).trimmed(before_ms)

        await self._change(topic_id, trimmed)

    async def trim_if(self, topic: TopicMetadata, before_ms: int) -> None:
        """Expire everything written before a time, if `topic` is still the topic's row.

        Raises `TopicNotFound`.
        """

        def trimmed(old: TopicMetadata | None) -> TopicMetadata:
            existing = _existing(old, topic.id)
            return existing.trimmed(before_ms) if existing == topic else existing

        await self._change(topic.id, trimmed)

    async def mark_scheduled(self, topic_id: TopicId) -> None:
        """Record that a topic has a schedule, durably. Raises `TopicNotFound`."""
        await self._change(topic_id, lambda old: _existing(old, topic_id).with_schedule())

    async def delete(self, topic_id: TopicId) -> None:
        """Delete a topic and so all of its messages. Raises `TopicNotFound`."""

        def deleted(old: TopicMetadata | None) -> TopicMetadata:
            return _existing(old, topic_id).deleted()

        await self._change(topic_id, deleted)

    async def forget(self, topics: Sequence[TopicMetadata]) -> Collection[TopicId]:
        """Delete the rows of deleted topics, if `topics` are still the rows; return those deleted.

        Only after a topic's data is deleted, because its next generation is the first again.
        """
        assert not any(topic.exists for topic in topics)
        return await self._alone(lambda: self._forget(topics))

    async def _forget(self, topics: Sequence[TopicMetadata]) -> Collection[TopicId]:
        def read() -> tuple[Batch, Collection[TopicId]]:
            batch = self._tables.batch()
            return batch, self._tables.metadata.forget(batch, topics)

        # Read in the read thread: publishers wait for the write thread, and the rows cannot change.
        batch, forgotten = await self._threads.read(read)
        if forgotten:
            try:
                await self._threads.write(self._tables.write, batch)
            except (StoreUnavailable, OutcomeUnknown):
                self._states.flush_failed()
                raise
        return forgotten

    async def unchanging(self, read: Callable[[], T]) -> T:
        """Return what `read`, which may block, returns while no topic is being changed.

        So the topics and the time that it reads are of the same moment: later changes are made at
        that time or later.
        """
        return await self._alone(lambda: self._threads.read(read))

    async def _alone(self, work: Callable[[], Awaitable[T]]) -> T:
        """Return what `work` returns, with no concurrent change.

        It is finished even if the caller is gone: once a row is written, the states must be
        updated.
        """
        await self._changing.acquire()
        task = asyncio.ensure_future(work())
        task.add_done_callback(lambda _: self._changing.release())
        try:
            return await shared(task)
        finally:
            del task  # its error keeps this frame, which must not keep the task

    async def _change(
        self,
        topic_id: TopicId,
        changed: Callable[[TopicMetadata | None], TopicMetadata],
        *,
        adds: bool = False,
    ) -> None:
        """Replace the topic's row with the result of `changed`, and update the states."""

        def compare_and_put() -> TopicMetadata:
            old = self._tables.metadata.get(topic_id)
            new = changed(old)
            if not self._tables.metadata.replace(old, new):
                raise StoreUnavailable(reason="the topic was changed concurrently")
            self._count.changed(new.exists - (old is not None and old.exists))
            return new

        await self._alone(lambda: self._put_and_tell(compare_and_put, adds=adds))

    async def _put_and_tell(
        self, compare_and_put: Callable[[], TopicMetadata], *, adds: bool
    ) -> None:
        if adds:
            await self._count.know()
        try:
            topic = await self._threads.write(compare_and_put)
        except (StoreUnavailable, OutcomeUnknown):
            self._count.forget()
            self._states.flush_failed()
            raise
        self._states.replaced(topic)

    async def names(self, namespace: str) -> list[str]:
        """Return the names of a namespace's topics in the order of their row keys."""
        check_namespace(namespace)

        def scan() -> list[str]:
            topics = self._tables.metadata.scan(namespace)
            return [topic.id.name for topic in topics if topic.exists]

        return await self._threads.read(scan)


def _existing(topic: TopicMetadata | None, topic_id: TopicId) -> TopicMetadata:
    if topic is None or not topic.exists:
        raise TopicNotFound(topic=str(topic_id))
    return topic
