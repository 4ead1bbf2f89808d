"""Publications to several topics as one write: all or nothing, also for readers.

Either payloads in a transaction that is started and committed with them, or references to what was
stored, which the commit of its transaction carries.
"""

from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager

from tms.core.caller import ANYBODY, Caller
from tms.core.group_commit import GroupCommit
from tms.core.messaging import AllPublished, Stored
from tms.core.tables import Batch
from tms.core.topic import TopicId, TopicMetadata
from tms.core.transactions import OpenTransactions
from tms.messaging.loaded_topics import TopicState
from tms.messaging.write_requests import Publication, Writing

Admit = Callable[[TopicState, Sequence[bytes], Caller], Awaitable[TopicMetadata]]
"""Returns the topic with the properties that payloads were found to fit."""


class _Publications:
    """Publications that are one write."""

    def __init__(self, publications: Sequence[Publication]) -> None:
        self.size_bytes = sum(publication.size_bytes for publication in publications)
        self._publications = publications

    def on_queued(self) -> None:
        """Keep the topics' states in memory."""
        for publication in self._publications:
            publication.on_queued()

    def on_durable(self) -> None:
        """Show the entries to readers of the cache."""
        for publication in self._publications:
            publication.on_durable()

    def on_failed(self) -> None:
        """Let the caches start anew."""
        for publication in self._publications:
            publication.on_failed()

    def release(self) -> None:
        """Let the topics' states go."""
        for publication in self._publications:
            publication.release()


class PublishAll(_Publications):
    """Publications to several topics, in a transaction that starts and commits in the flush."""

    def __init__(
        self,
        transactions: OpenTransactions,
        publications: Sequence[Publication],
        owner: str | None,
        sequence: int | None,
        caller: Caller,
    ) -> None:
        super().__init__(publications)
        self._transactions = transactions
        self._owner = owner
        self._sequence = sequence
        self._caller = caller
        self._write_pointer = 0

    def add_rows(self, batch: Batch, now_ms: int) -> None:
        """Commit a transaction and add the entries under its pointer; all in one batch."""
        for publication in self._publications:
            publication.check_topic()
        batch.require_atomic()
        self._write_pointer = self._transactions.commit_at_once(
            now_ms, self._owner, self._sequence, self._caller
        )
        for publication in self._publications:
            publication.add_under(self._write_pointer, batch, now_ms)

    def result(self) -> AllPublished:
        """Return the transaction's write pointer."""
        return AllPublished(self._write_pointer)


class References(_Publications):
    """References to what was stored, as the commit of its transaction carries them.

    Each task of a job stores under a checkpoint of its own, and the commit says which checkpoints
    are published. What a task left that failed, or ran twice, is never referred to, so no reader
    finds it. The references and the commit are one durable step: no crash leaves one of them alone.
    """

    def __init__(self, writing: Writing, stored: Sequence[tuple[TopicState, int]]) -> None:
        """Refer to what was stored in topics under write pointers."""
        super().__init__(
            [Publication(writing, state, (), write_pointer, 0) for state, write_pointer in stored]
        )

    def check(self) -> None:
        """Raise `TopicNotFound`, `StoreUnavailable` where a topic is not as it was."""
        for publication in self._publications:
            publication.check_topic()

    def put(self, batch: Batch, now_ms: int) -> None:
        """Add the references; the transaction is still in progress."""
        batch.require_atomic()
        for publication in self._publications:
            publication.add_rows(batch, now_ms)


async def publish_all(
    writing: Writing,
    writer: GroupCommit,
    publications: Mapping[TopicId, Sequence[bytes]],
    *,
    admit: Admit,
    owner: str | None,
    sequence: int | None,
    caller: Caller = ANYBODY,
) -> AllPublished:
    """Publish to several topics, all or nothing, in a transaction of its own.

    The flush that writes the messages also starts and commits the transaction. `admit` checks that
    topics take payloads.

    Only where transactions are managed here. Raises as `Messaging.publish_all`, and
    `TransactionDuplicate`.
    """
    transactions = writing.transactions
    assert transactions is not None
    async with writing.states.held(publications) as states:
        parts = []
        for state, payloads in zip(states, publications.values(), strict=True):
            checked = await admit(state, payloads, caller)
            size = sum(map(len, payloads))
            parts.append(Publication(writing, state, payloads, None, size, checked=checked))
        write = PublishAll(transactions, parts, owner, sequence, caller)
        published: AllPublished = await writer.submit(write, caller)
    return published


@asynccontextmanager
async def publish_stored(writing: Writing, stored: Sequence[Stored]) -> AsyncIterator[References]:
    """Give references to what was stored, as one write to be submitted within.

    Their topics are held meanwhile. Raises `TopicNotFound`, `TooLarge` (too_many_topics_at_once).
    """
    pointers = [each.write_pointer for each in stored]
    async with writing.states.held([each.topic_id for each in stored]) as states:
        found = list(zip(states, pointers, strict=True))
        of_topics: dict[TopicState, list[int]] = {}
        for state, pointer in found:
            of_topics.setdefault(state, []).append(pointer)
        for state, of_topic in of_topics.items():
            await writing.references.find(state, of_topic)
        yield References(writing, found)
