"""Topics: created, changed, deleted and created again, each change one compare-and-put of its row.

A deleted topic keeps its row with the generation inverted; created again it has the next
generation and only the properties given then.
"""

import asyncio
from collections.abc import Callable, Mapping

from tms.core.errors import StoreUnavailable, TopicExists, TopicNotFound
from tms.core.tables import Tables
from tms.core.topic import Topic, TopicId, check_namespace
from tms.messaging.admission import Admission
from tms.messaging.lanes import Lanes
from tms.messaging.topic_state import TopicStates

_FIRST_GENERATION = 1


class Topics:
    """The topics of one store."""

    def __init__(
        self, tables: Tables, lanes: Lanes, states: TopicStates, admission: Admission
    ) -> None:
        self._tables = tables
        self._lanes = lanes
        self._states = states
        self._admission = admission
        self._changing = asyncio.Lock()

    async def create(self, topic_id: TopicId, properties: Mapping[str, object] | None) -> None:
        """Create a topic, or a new generation of a deleted one. Raises `TopicExists`."""
        ttl_s, others = self._admission.properties(topic_id.namespace, properties)

        def created(old: Topic | None) -> Topic:
            if old is not None and old.exists:
                raise TopicExists(topic=str(topic_id))
            generation = _FIRST_GENERATION if old is None else abs(old.generation) + 1
            return Topic(topic_id, generation, ttl_s, others)

        await self._change(topic_id, created)

    async def update(self, topic_id: TopicId, properties: Mapping[str, object]) -> None:
        """Replace all properties; what is not given has its default. Raises `TopicNotFound`."""
        ttl_s, others = self._admission.properties(topic_id.namespace, properties)

        def updated(old: Topic | None) -> Topic:
            return Topic(topic_id, _existing(old, topic_id).generation, ttl_s, others)

        await self._change(topic_id, updated)

    async def delete(self, topic_id: TopicId) -> None:
        """Delete a topic and so all of its messages. Raises `TopicNotFound`."""

        def deleted(old: Topic | None) -> Topic:
            topic = _existing(old, topic_id)
            return Topic(topic_id, -topic.generation, topic.ttl_s, topic.properties)

        await self._change(topic_id, deleted)

    async def forget(self, topic: Topic) -> bool:
        """Delete the row of a deleted topic if it still is as given; return whether it was.

        Only once nothing of the topic is left: its next generation is the first again.
        """
        assert not topic.exists
        async with self._changing:
            return await asyncio.shield(self._forget(topic))

    async def _forget(self, topic: Topic) -> bool:
        try:
            return await self._lanes.write(self._tables.metadata.forget, topic)
        except StoreUnavailable:
            self._states.unsettle()
            raise

    async def _change(self, topic_id: TopicId, changed: Callable[[Topic | None], Topic]) -> None:
        """Put what `changed` makes of the topic's row, and tell the states."""

        def compare_and_put() -> Topic:
            old = self._tables.metadata.get(topic_id)
            new = changed(old)
            if not self._tables.metadata.replace(old, new):
                raise StoreUnavailable(reason="the topic was changed at the same time")
            return new

        async with self._changing:
            # Shielded: once the row is put, the states must hear of it, even if the caller is gone.
            await asyncio.shield(self._put_and_tell(compare_and_put))

    async def _put_and_tell(self, compare_and_put: Callable[[], Topic]) -> None:
        try:
            topic = await self._lanes.write(compare_and_put)
        except StoreUnavailable:
            self._states.unsettle()
            raise
        self._states.replaced(topic)

    async def names(self, namespace: str) -> list[str]:
        """Return the names of a namespace's topics in the order of their row keys."""
        check_namespace(namespace)

        def scan() -> list[str]:
            topics = self._tables.metadata.scan(namespace)
            return [topic.id.name for topic in topics if topic.exists]

        return await self._lanes.read(scan)


def _existing(topic: Topic | None, topic_id: TopicId) -> Topic:
    if topic is None or not topic.exists:
        raise TopicNotFound(topic=str(topic_id))
    return topic
