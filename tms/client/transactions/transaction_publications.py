"""The publications of a transaction: the participant that is always there, and persists last.

What is published directly goes to the server at once, and its range is remembered for a rollback:
one range a topic and write pointer, as wide as all of them, for a rollback touches only entries of
its own write pointer. What is buffered goes to the server's Payload table at once, where nobody
sees it, and one entry that refers to all of it is published when the transaction persists.

Where an answer was lost, nobody knows whether the messages are there, once, and in which range. So
such a transaction can neither be committed nor be rolled back: it ends invalid, seen by nobody.
"""

from dataclasses import replace

from tms.client.remote.retry import may_pass, was_not_done
from tms.core.errors import OutcomeUnknown, RequestError, TopicNotFound
from tms.core.services.messaging import Messaging, Published, RollbackRange
from tms.core.values.topic import TopicId
from tms.core.values.transaction import Transaction

_Place = tuple[TopicId, int]
"""A topic and a write pointer."""


class TransactionPublications:
    """All messages of one transaction."""

    name = "messages"

    def __init__(self) -> None:
        """Have published nothing."""
        self._messaging: dict[TopicId, Messaging] = {}
        self._ranges: dict[_Place, RollbackRange] = {}
        self._buffered: dict[TopicId, None] = {}
        """In the order in which they will be published."""
        self._lost: Exception | None = None
        self._may_be_left = False
        self._write_pointer = 0

    async def publish(
        self,
        messaging: Messaging,
        topic_id: TopicId,
        payloads: list[bytes],
        if_last: bytes | None = None,
    ) -> Published:
        """Publish at once, or what was buffered if there are no payloads."""
        self._messaging[topic_id] = messaging
        pointer = self._write_pointer
        try:
            published = await messaging.publish(topic_id, payloads, pointer, if_last=if_last)
        except BaseException as error:
            self._may_be_left |= self._is_in_doubt(error)
            raise
        if not payloads:
            self._buffered.pop(topic_id, None)
        written = published.rollback_range
        if written is not None:
            place = (topic_id, pointer)
            self._ranges[place] = _spanning(self._ranges.get(place, written), written)
        return published

    async def store(self, messaging: Messaging, topic_id: TopicId, payloads: list[bytes]) -> None:
        """Buffer at the server."""
        self._messaging[topic_id] = messaging
        try:
            await messaging.store(topic_id, payloads, self._write_pointer)
        except BaseException as error:
            self._is_in_doubt(error)
            raise
        self._buffered[topic_id] = None

    def _is_in_doubt(self, error: BaseException) -> bool:
        """Whether what raised `error` may have been carried out; then nothing will be committed."""
        if isinstance(error, RequestError) or was_not_done(error):
            return False
        # One that was cancelled may be carried out all the same.
        self._lost = error if isinstance(error, Exception) else OutcomeUnknown(reason="cancelled")
        return True

    def check_complete(self) -> None:
        """Raise what a publish raised whose outcome is not known."""
        if self._lost is not None:
            raise self._lost

    async def start(self, tx: Transaction) -> None:
        """Publish under the write pointer of `tx` from now on."""
        self._write_pointer = tx.write_pointer

    async def update(self, tx: Transaction) -> None:
        """Publish under another write pointer from now on."""
        self._write_pointer = tx.write_pointer

    async def changes(self) -> list[bytes]:
        """Return nothing: messages are only ever added."""
        return []

    async def persist(self) -> None:
        """Publish what was buffered, a topic after the other."""
        self.check_complete()
        for topic_id in list(self._buffered):
            await self.publish(self._messaging[topic_id], topic_id, [])

    async def post_commit(self) -> None:
        """Do nothing: the commit has made the messages visible."""

    async def rollback(self) -> None:
        """Roll back what was published; raise where some may be left."""
        failed: Exception | None = None
        for (topic_id, _), published in self._ranges.items():
            try:
                await self._messaging[topic_id].rollback(topic_id, published)
            except TopicNotFound:
                continue  # with the topic its messages have gone
            except Exception as error:
                failed = error
                if may_pass(error):
                    break  # the server is away, and each topic would be waited for in vain
        if failed is not None:
            raise failed
        if self._may_be_left:
            raise OutcomeUnknown(reason="a publish of the transaction was not answered")


def _spanning(one: RollbackRange, other: RollbackRange) -> RollbackRange:
    """Return the smallest range that holds both."""
    start = min((r.start_timestamp, r.start_sequence_id) for r in (one, other))
    end = max((r.end_timestamp, r.end_sequence_id) for r in (one, other))
    return replace(
        one,
        start_timestamp=start[0],
        start_sequence_id=start[1],
        end_timestamp=end[0],
        end_sequence_id=end[1],
    )
