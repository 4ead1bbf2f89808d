"""The fate of messages: whether they are committed, open, rolled back, or superseded.

It is inferred from which of the messages readers with other views get, so visitors learn nothing
that polls would not show. Expired messages are not among them: no reader gets these (`message`).
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
    """Committed, but after an open message: readers of committed messages do not get it yet."""
    OPEN = ("open", "warn")
    ROLLED_BACK = ("rolled back", "bad")
    SUPERSEDED = ("superseded", "soft")
    EXPIRED = ("expired", "soft")
    PUBLISHED = ("published", "soft")
    """Its fate is unknown to this server, because another system manages transactions."""

    @property
    def word(self) -> str:
        """The word that pages show."""
        return self.value[0]

    @property
    def colour(self) -> str:
        """A class of the stylesheet."""
        return self.value[1]


async def fates_of(
    services: ServerServices, topic: TopicMetadata, runs: Sequence[Sequence[Message]]
) -> list[MessageFate]:
    """Return the fates of messages, in order; each run has messages that follow one another."""
    messages = [message for run in runs for message in run]
    if not messages:
        return []
    fates = await _FateFinder(services, topic, [run for run in runs if run]).fates()
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


class _FateFinder:
    """Finds the fates of messages by reading them with several views."""

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
            ends = await ranges.ranges([self._topic_id], Isolation.COMMITTED)
        except TransactionsElsewhere:
            kept = await self._ids_read(ALL_VISIBLE_LATEST)
            return [
                MessageFate.PUBLISHED if each in kept else MessageFate.ROLLED_BACK
                for each in self._ids
            ]
        log = ends.topics[self._topic_id]
        if log is None:
            raise TopicNotFound(topic=str(self._topic_id))
        committed = await self._ids_read(Isolation.COMMITTED)
        return [
            await self._undecided(each)
            if each >= log.end
            else MessageFate.COMMITTED
            if each in committed
            else MessageFate.ROLLED_BACK
            for each in self._ids
        ]

    async def _undecided(self, message_id: bytes) -> MessageFate:
        """Return the fate of a message after the start of the first transaction in progress."""
        reading = Reading(message_id, 1, Isolation.COMMITTED, id_after(message_id))
        page = await self._services.messaging.page(self._topic_id, reading)
        if page.stopped_at is not None:
            return MessageFate.OPEN
        return MessageFate.HELD_UP if page.count else MessageFate.ROLLED_BACK

    async def _ids_read(self, view: View) -> set[bytes]:
        """Return the ids of those messages that a reader with a view gets."""
        read_ids: set[bytes] = set()
        for ids in self._runs:
            expected, end = set(ids), id_after(ids[-1])
            position: bytes | None = ids[0]
            for _ in range(_PAGES_MAX):
                if position is None:
                    break
                reading = Reading(position, None, view, end)
                page = await self._services.messaging.page(self._topic_id, reading)
                read_ids |= {message.id for block in page.blocks for message in block} & expected
                position = page.next_position
        return read_ids
