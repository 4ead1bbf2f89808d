"""The publications of a transaction: the participant that always exists, and persists last.

Direct publications go to the server at once, and their ranges are remembered for a rollback: for
each topic and write pointer, one range that spans all of them, because a rollback touches only
entries of its own write pointer. Buffered messages go to the server's Payload table at once, where
readers do not see them, and one entry that refers to all of them is published when the transaction
persists.

If an answer was lost, it is unknown whether the messages exist, whether only once, and in which
range. So such a transaction can neither be committed nor be rolled back: it ends invalid, and no
reader sees it.
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
        """Begin without publications."""
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
        """Publish at once; without payloads, publish the buffered messages."""
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
        """Whether a call that raised `error` may have been done; if so, record that it is lost."""
        if isinstance(error, RequestError) or was_not_done(error):
            return False
        # A cancelled call may have been carried out.
        self._lost = error if isinstance(error, Exception) else OutcomeUnknown(reason="cancelled")
        return True

    def check_complete(self) -> None:
        """Raise the error of a publish whose outcome is unknown."""
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
        """Publish the buffered messages, one topic after another."""
        self.check_complete()
        for topic_id in list(self._buffered):
            await self.publish(self._messaging[topic_id], topic_id, [])

    async def post_commit(self) -> None:
        """Do nothing: the commit has made the messages visible."""

    async def rollback(self) -> None:
        """Roll back the publications; raise if some may be left."""
        failed: Exception | None = None
        for (topic_id, _), published in self._ranges.items():
            try:
                await self._messaging[topic_id].rollback(topic_id, published)
            except TopicNotFound:
                continue  # the messages have gone with the topic
            except Exception as error:
                failed = error
                if may_pass(error):
                    break  # the server is unavailable; do not wait for each topic
        if failed is not None:
            raise failed
        if self._may_be_left:
            raise OutcomeUnknown(reason="a publish of the transaction was not answered")


def _spanning(one: RollbackRange, other: RollbackRange) -> RollbackRange:
    """Return the smallest range that contains both."""
    start = min((r.start_timestamp, r.start_sequence_id) for r in (one, other))
    end = max((r.end_timestamp, r.end_sequence_id) for r in (one, other))
    return replace(
        one,
        start_timestamp=start[0],
        start_sequence_id=start[1],
        end_timestamp=end[0],
        end_sequence_id=end[1],
    )
