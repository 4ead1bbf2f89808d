"""Publications to several topics as one write: all or nothing, also for readers.

They are either payloads, in a transaction that starts and commits in the same flush, or references
to stored messages, which their transaction's commit carries.
"""

from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from functools import partial

from tms.core.errors import PublicationRefused
from tms.core.services.commits import (
    Carried,
    Carrier,
    CommitRequest,
    JointWrite,
    Stored,
    submit_carried,
)
from tms.core.services.messaging import AllPublished
from tms.core.values.batch import Batch
from tms.core.values.caller import Caller
from tms.core.values.topic import TopicId, TopicMetadata
from tms.messaging.loaded_topics import TopicState
from tms.messaging.write_requests import Publication, Writing

Admit = Callable[[TopicState, Sequence[bytes], Caller], Awaitable[TopicMetadata]]
"""Returns the topic, with the properties that the payloads were checked against."""
DecideCommit = Callable[[], tuple[int, Callable[[], None]]]
"""As `TransactionJournal.commit_at_once`, of an owner and a caller."""


class PublishAll(JointWrite):
    """Publications to several topics, in a transaction that starts and commits in the flush."""

    def __init__(
        self, decide: DecideCommit, publications: Sequence[Publication], carried: Sequence[Carried]
    ) -> None:
        super().__init__([*publications, *carried])
        self._decide = decide
        self._publications = publications
        self._carried = carried
        self._write_pointer = 0

    def add_rows(self, batch: Batch, now_ms: int) -> None:
        """Commit a transaction and add the entries under its pointer; all in one batch."""
        # Decided first, so that a repeat is reported as one, whatever it carries.
        pointer, commit = self._decide()
        self.check((pointer,))
        batch.require_atomic()
        for publication in self._publications:
            publication.add_under(pointer, batch, now_ms)
        for part in self._carried:
            part.add_rows(batch, now_ms)
        commit()
        self._write_pointer = pointer

    def result(self) -> AllPublished:
        """Return the transaction's write pointer."""
        return AllPublished(self._write_pointer)


class References(JointWrite):
    """References to stored messages, as the commit of their transaction carries them.

    Each task of a job stores under a checkpoint of its own, and the commit says which checkpoints
    are published. Messages of a task that failed, or ran twice, are never referred to, so no reader
    finds them. References and commit are one durable step: no crash leaves one without the other.
    """

    def __init__(
        self, writing: Writing, stored: Sequence[Stored], states: Sequence[TopicState]
    ) -> None:
        """Refer to stored messages of topics; `states` has the topics in the same order."""
        pointers = [each.write_pointer for each in stored]
        pairs = zip(states, pointers, strict=True)
        super().__init__([Publication(writing, state, (), pointer, 0) for state, pointer in pairs])
        self._stored = stored

    def check(self, write_pointers: Collection[int]) -> None:
        """Raise `PublicationRefused` unless each is under one of the pointers, and occurs once.

        Raises `TopicNotFound` or `StoreUnavailable` if a topic has changed.
        """
        seen: set[Stored] = set()
        for stored in self._stored:
            if stored.write_pointer not in write_pointers or stored in seen:
                raise PublicationRefused(
                    transaction_id=next(iter(write_pointers), None),
                    topic=str(stored.topic_id),
                    write_pointer=stored.write_pointer,
                    is_listed_twice=stored in seen,
                )
            seen.add(stored)
        super().check(write_pointers)

    def add_rows(self, batch: Batch, now_ms: int) -> None:
        """Add the references; the transaction is still in progress."""
        self.add_parts(batch, now_ms)


class StoredPublications:
    """Publishes stored messages with the commit of their transaction (`commits.Carrier`)."""

    def __init__(self, writing: Writing) -> None:
        self._writing = writing

    def carry(
        self,
        request: CommitRequest,
        caller: Caller,  # noqa: ARG002
    ) -> AbstractAsyncContextManager[References] | None:
        """Return the references to the stored messages.

        Raises `TopicNotFound`, `TooLarge` (too_many_topics_at_once).
        """
        return self._references(request.publish) if request.publish else None

    @asynccontextmanager
    async def _references(self, publish: Sequence[Stored]) -> AsyncIterator[References]:
        writing = self._writing
        async with writing.states.held([each.topic_id for each in publish]) as states:
            of_topics: dict[TopicState, list[int]] = {}
            for state, stored in zip(states, publish, strict=True):
                of_topics.setdefault(state, []).append(stored.write_pointer)
            for state, of_topic in of_topics.items():
                await writing.references.find(state, of_topic)
            yield References(writing, publish, states)


async def publish_all(
    writing: Writing,
    publications: Mapping[TopicId, Sequence[bytes]],
    *,
    admit: Admit,
    carriers: Sequence[Carrier],
    request: CommitRequest,
    owner: str | None,
    sequence: int | None,
    caller: Caller,
) -> AllPublished:
    """Publish to several topics, all or nothing, in a transaction of its own.

    The flush that writes the messages also starts and commits the transaction. `admit` checks that
    topics accept payloads.

    Only if transactions are managed here. Raises as `MessagingService.publish_all`, and
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
        decide = partial(transactions.commit_at_once, owner, sequence, caller)

        async def submit(carried: Sequence[Carried]) -> AllPublished:
            write = PublishAll(decide, parts, carried)
            published: AllPublished = await writing.engine.writer.submit(write, caller)
            return published

        return await submit_carried(carriers, request, caller, submit)
