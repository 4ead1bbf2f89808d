"""The messaging interface: what a service offers and a client is built on.

`tms.messaging.service` fulfils it in the process, `tms.client.remote` over REST, so that one client
stands on both.
"""

from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple, Protocol

from tms.core.message import MessageBlock
from tms.core.topic import Topic, TopicId
from tms.core.transaction import Transaction


@dataclass(frozen=True, slots=True)
class Page:
    """A part of a poll's answer, bounded in bytes."""

    blocks: Sequence[MessageBlock]
    count: int
    """Messages in all blocks."""
    next_position: bytes | None
    """Where the next page starts; None where there is nothing more to give now."""
    stopped_at: int | None = None
    """The write pointer of the entry, still in progress, that a transactional reader must not pass;
    None where it was not stopped."""


@dataclass(frozen=True, slots=True)
class RollbackRange:
    """What a transactional publish answers and a rollback takes. Both ends are inclusive."""

    write_pointer: int
    start_timestamp: int
    start_sequence_id: int
    end_timestamp: int
    end_sequence_id: int


@dataclass(frozen=True, slots=True)
class AllPublished:
    """What became of a publish to several topics in one transaction."""

    write_pointer: int
    """The transaction's id; of the first time where it was done before."""
    is_duplicate: bool = False
    """Whether the owner's sequence was committed before, so that nothing was done now."""


class Stored(NamedTuple):
    """What was stored in a topic under one write pointer."""

    topic_id: TopicId
    write_pointer: int


class Messaging(Protocol):
    """Topics and the five verbs. Each method may raise `Unavailable` and `InternalError` too."""

    async def create_topic(
        self, topic_id: TopicId, properties: Mapping[str, object] | None = None
    ) -> None:
        """Create a topic. Raises `TopicExists`, `InvalidRequest` (invalid_properties, _ttl)."""
        ...

    async def update_topic(self, topic_id: TopicId, properties: Mapping[str, object]) -> None:
        """Replace all properties of a topic. Raises `TopicNotFound`, `InvalidRequest`."""
        ...

    async def topic(self, topic_id: TopicId) -> Topic:
        """Return a topic's metadata. Raises `TopicNotFound`."""
        ...

    async def topics(self, namespace: str) -> list[str]:
        """Return the names of a namespace's topics in the order of their row keys."""
        ...

    async def delete_topic(self, topic_id: TopicId) -> None:
        """Delete a topic and so all of its messages. Raises `TopicNotFound`."""
        ...

    async def publish(
        self, topic_id: TopicId, payloads: Sequence[bytes], write_pointer: int | None = None
    ) -> RollbackRange | None:
        """Publish `payloads` in order; durable when it returns.

        With a write pointer the messages belong to that transaction, and the range to roll them
        back is returned. With a write pointer and no payloads, what was stored under it before is
        published. Raises `TopicNotFound`, `InvalidRequest` (empty_publish, invalid_write_pointer),
        `TransactionExpired`, `TooLarge`, `QueueFull`.
        """
        ...

    async def publish_all(
        self,
        publications: Mapping[TopicId, Sequence[bytes]],
        *,
        owner: str | None = None,
        sequence: int | None = None,
    ) -> AllPublished:
        """Publish to several topics in a transaction of its own, started and committed at once.

        All or nothing, also for readers; durable when it returns. With an owner and a sequence
        (`tms.core.transactions`) it may be repeated: the second time it changes nothing. Raises as
        `publish`, `OwnerBusy`, and `InvalidRequest` (invalid_owner).
        """
        ...

    async def store(self, topic_id: TopicId, payloads: Sequence[bytes], write_pointer: int) -> None:
        """Store `payloads` under a write pointer, to be published later; durable when it returns.

        Raises as `publish`, and `InvalidRequest` (invalid_store) where there are none.
        """
        ...

    async def rollback(self, topic_id: TopicId, published: RollbackRange) -> None:
        """Roll back what one publish wrote. Doing it twice is the same as once.

        Raises `TopicNotFound`, `RollbackRefused`.
        """
        ...

    def poll(
        self,
        topic_id: TopicId,
        position: bytes,
        *,
        limit: int | None = None,
        transaction: Transaction | int | None = None,
        committed: bool = False,
        wait_s: float = 0.0,
        end: bytes | None = None,
    ) -> AsyncIterator[MessageBlock]:
        """Give the messages from `position` on (`message.position_of`), in blocks, up to `limit`.

        With a transaction, or the id of one in progress, only what it can see; with `committed`
        instead, only what is committed, up to the first that is in progress. Nothing from the id
        `end` on. Where there is nothing, wait up to `wait_s` seconds for it, unless there is an
        `end`. Raises `TopicNotFound`, `InvalidRequest`
        (invalid_limit, invalid_wait), and for an id `TransactionNotInProgress`,
        `TransactionUnknown`.
        """
        ...


class MessagingService(Messaging, Protocol):
    """What the service in the process offers besides, to the REST server."""

    async def page(
        self,
        topic_id: TopicId,
        position: bytes,
        *,
        limit: int,
        transaction: Transaction | int | None = None,
        committed: bool = False,
        wait_s: float = 0.0,
        end: bytes | None = None,
    ) -> Page:
        """Return the first part of what `poll` would give, from memory where it can.

        The caller goes on at `next_position` with what is left of `limit`. Raises as `poll`.
        """
        ...

    def limit_of(self, asked: int | None) -> int:
        """Return the limit in force: the default for None, never over the cap.

        Raises `InvalidRequest` (invalid_limit) where it is zero or negative.
        """
        ...

    def check_ready(self) -> None:
        """Raise `Unavailable` where publishing would be refused now: stopping, or no room."""
        ...
