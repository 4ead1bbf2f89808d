"""The number of topics, so that creating one beyond `topics_max` is refused.

They are counted when a topic is first created, some rows at a time, and from then on the number is
kept: creating a topic costs no scan. After a change whose outcome is unknown they are counted
again. Deleted topics, whose rows stay for a while, do not count.

Used under the lock of `tms.messaging.topics`: no topic changes while they are counted.
"""

from typing import TYPE_CHECKING

from tms.core.errors import TooLarge
from tms.core.values.topic import TopicId
from tms.messaging.store_threads import StoreThreads

if TYPE_CHECKING:
    from tables.store_tables import StoreTables

_ROWS_AT_ONCE = 1000
"""Rows counted at a time, so that other calls get their turn in the thread in between."""


class TopicCount:
    """The number of the topics of one store."""

    def __init__(self, tables: "StoreTables", threads: StoreThreads, topics_max: int) -> None:
        self._tables = tables
        self._threads = threads
        self._topics_max = topics_max
        self._count: int | None = None

    async def know(self) -> None:
        """Count the topics, unless the number is known. Raises `StoreUnavailable`."""
        if self._count is not None:
            return
        count, start = 0, b""
        while True:
            counted, following = await self._threads.read(
                self._tables.metadata.count, start, limit=_ROWS_AT_ONCE
            )
            count += counted
            if following is None:
                break
            start = following
        self._count = count

    def check_room(self, topic_id: TopicId) -> None:
        """Raise `TooLarge` (topic_limit_reached) if the limit is reached; call `know` first."""
        assert self._count is not None
        if self._count >= self._topics_max:
            raise TooLarge("topic_limit_reached", topic=str(topic_id), topics_max=self._topics_max)

    def changed(self, by: int) -> None:
        """Record that a topic was created (1), deleted (-1) or neither (0)."""
        if self._count is not None:
            self._count += by

    def forget(self) -> None:
        """Record that the outcome of a change is unknown."""
        self._count = None
