"""The fate of messages: whether they are committed, open, rolled back, or superseded.

It is told by what readers with other views are given of the same messages, so nobody learns more of
it than by polls. What is expired, no reader gets (`message`).
"""

from collections.abc import Sequence
from enum import Enum

from tms.core.errors import TopicNotFound, TransactionsElsewhere
from tms.core.services.server_services import ServerServices
from tms.core.values.message import Message, id_after
from tms.core.values.reading import Isolation, Reading, View
from tms.core.values.topic import TopicMetadata
from tms.core.values.transaction import ALL_VISIBLE_LATEST

_PAGES_MAX = 20


class MessageFate(Enum):
    """The fate of a message: its word, and the class of its colour."""

    COMMITTED = ("committed", "good")
    HELD_UP = ("held up", "warn")
    """Not open itself, but behind an open one: readers of committed messages do not get it yet."""
    OPEN = ("open", "warn")
    ROLLED_BACK = ("rolled back", "bad")
    SUPERSEDED = ("superseded", "soft")
    EXPIRED = ("expired", "soft")
    PUBLISHED = ("published", "soft")
    """Another system manages transactions, so this server cannot tell."""

    @property
    def word(self) -> str:
        """The word that people read."""
        return self.value[0]

    @property
    def colour(self) -> str:
        """A class of the stylesheet."""
        return self.value[1]


async def fates_of(
    services: ServerServices, topic: TopicMetadata, runs: Sequence[Sequence[Message]]
) -> list[MessageFate]:
    """Return the fates of messages, in order: runs of such as follow one another."""
    messages = [message for run in runs for message in run]
    if not messages:
        return []
    fates = await _Told(services, topic, [run for run in runs if run]).fates()
    if topic.is_compact:
        newer: set[bytes] = set()
        for at in range(len(messages) - 1, -1, -1):
            key = messages[at].key
            if key is None or fates[at] is not MessageFate.COMMITTED:
                continue
            if key in newer:
                fates[at] = MessageFate.SUPERSEDED
            newer.add(key)
    return fates


class _Told:
    """Messages, read by several views."""

    def __init__(
        self, services: ServerServices, topic: TopicMetadata, runs: Sequence[Sequence[Message]]
    ) -> None:
        self._services = services
        self._topic_id = topic.id
        self._runs = [[message.id for message in run] for run in runs]
        self._ids = [each for run in self._runs for each in run]

    async def fates(self) -> list[MessageFate]:
        ranges = self._services.ranges
        try:
            found = await ranges.ranges([self._topic_id], Isolation.COMMITTED)
        except TransactionsElsewhere:
            kept = await self._given(ALL_VISIBLE_LATEST)
            return [
                MessageFate.PUBLISHED if each in kept else MessageFate.ROLLED_BACK
                for each in self._ids
            ]
        log = found.topics[self._topic_id]
        if log is None:
            raise TopicNotFound(topic=str(self._topic_id))
        committed = await self._given(Isolation.COMMITTED)
        return [
            await self._undecided(each)
            if each >= log.end
            else MessageFate.COMMITTED
            if each in committed
            else MessageFate.ROLLED_BACK
            for each in self._ids
        ]

    async def _undecided(self, message_id: bytes) -> MessageFate:
        """Return the fate of a message that is not before the first unfinished transaction."""
        reading = Reading(message_id, 1, Isolation.COMMITTED, id_after(message_id))
        page = await self._services.messaging.page(self._topic_id, reading)
        if page.stopped_at is not None:
            return MessageFate.OPEN
        return MessageFate.HELD_UP if page.count else MessageFate.ROLLED_BACK

    async def _given(self, view: View) -> set[bytes]:
        """Return the ids that a reader is given."""
        given: set[bytes] = set()
        for ids in self._runs:
            wanted, end = set(ids), id_after(ids[-1])
            position: bytes | None = ids[0]
            for _ in range(_PAGES_MAX):
                if position is None:
                    break
                reading = Reading(position, None, view, end)
                page = await self._services.messaging.page(self._topic_id, reading)
                given |= {message.id for block in page.blocks for message in block} & wanted
                position = page.next_position
        return given
