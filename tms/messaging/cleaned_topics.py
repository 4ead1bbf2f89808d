"""What cleanup needs of a topic in use while it takes messages away that are not the oldest.

Used from the event loop's thread alone. Each call names a generation, and says if that is gone.
"""

from contextlib import suppress

from tms.core.errors import TopicNotFound
from tms.core.topic import TopicMetadata
from tms.messaging.loaded_topics import LoadedTopics, TopicState
from tms.messaging.mark import StoreMark
from tms.messaging.topics import Topics


class CleanedTopics:
    """The topics of one service, for cleanup."""

    def __init__(self, states: LoadedTopics, topics: Topics, mark: StoreMark | None) -> None:
        self._states = states
        self._topics = topics
        self._mark = mark

    async def keep_keys_from(self, floor_ms: int) -> None:
        """Give no key of a time before `floor_ms` any more, in any topic; durable on return."""
        if self._mark is not None:
            await self._mark.keep_keys_from(floor_ms)

    async def _state(self, topic: TopicMetadata) -> TopicState | None:
        """Return the state of a topic's generation, None if that is gone."""
        try:
            state = await self._states.get(topic.id)
        except TopicNotFound:
            return None
        return state if state.topic.generation == topic.generation else None

    async def durable_end(self, topic: TopicMetadata) -> bytes | None:
        """Return the key above all entries that are durable, None if the generation is gone.

        What has a greater key may be under way, so that nobody knows yet whether it will be there.
        """
        state = await self._state(topic)
        return None if state is None else state.end

    async def forget_cached(self, topic: TopicMetadata, key: bytes) -> bool:
        """Read all entries below `key` from the table from now on.

        Return False if the topic is not compact any more, or the generation is gone.
        """
        state = await self._state(topic)
        if state is None or not state.topic.is_compact:
            return False
        state.cache.forget_below(key)
        return True

    async def trim(self, topic: TopicMetadata, before_ms: int) -> None:
        """Let expire what was written before a time, if the topic's row is as given."""
        with suppress(TopicNotFound):
            await self._topics.trim_if(topic, before_ms)
