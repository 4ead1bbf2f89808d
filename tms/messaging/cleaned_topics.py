"""Cleanup's access to a topic in use, while it deletes messages that readers could get.

Used from the event loop's thread alone. Each call names a generation, and reports if it is gone.
"""

from contextlib import suppress

from tms.core.errors import TopicNotFound
from tms.core.values.cleanup import WrittenSoFar
from tms.core.values.message import KEY
from tms.core.values.topic import TopicMetadata
from tms.messaging.loaded_topics import TopicState
from tms.messaging.store_runtime import StoreRuntime
from tms.messaging.topics import Topics
from tms.messaging.unfinished_publications import Generation


class CleanedTopics:
    """The topics of one service, for cleanup."""

    def __init__(self, engine: StoreRuntime, topics: Topics) -> None:
        self._states = engine.states
        self._topics = topics
        self._publications = engine.publications
        self._mark = engine.mark
        self._writer = engine.writer

    async def keep_keys_from(self, floor_ms: int) -> None:
        """Create no more keys before the time `floor_ms`, in any topic; durable on return."""
        if self._mark is not None:
            await self._mark.keep_keys_from(floor_ms, self._writer)

    async def _state(self, topic: TopicMetadata) -> TopicState | None:
        """Return the state of a topic's generation, None if that is gone."""
        try:
            state = await self._states.get(topic.id)
        except TopicNotFound:
            return None
        return state if state.topic.generation == topic.generation else None

    async def written(self, topic: TopicMetadata) -> WrittenSoFar | None:
        """Return what has been written to a topic so far, None if the generation is gone.

        The end and the stored keys are of the same moment. So a transaction's stored messages are
        among them, or their references are below the end: the flush that raises the end above the
        references also forgets the stored messages.
        """
        state = await self._state(topic)
        if state is None:
            return None
        stored = self._publications.first_stored(Generation.of(topic))
        return WrittenSoFar(state.end, {each: KEY.unpack(key)[0] for each, key in stored.items()})

    async def forget_cached(self, topic: TopicMetadata, key: bytes) -> bool:
        """Read all entries below `key` from the table from now on.

        Return False if the topic is no longer compact, or the generation is gone.
        """
        state = await self._state(topic)
        if state is None or not state.topic.is_compact:
            return False
        state.cache.forget_below(key)
        return True

    async def trim(self, topic: TopicMetadata, before_ms: int) -> None:
        """Expire everything written before a time, if `topic` is still the topic's row."""
        with suppress(TopicNotFound):
            await self._topics.trim_if(topic, before_ms)
