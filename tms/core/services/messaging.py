"""The messaging interface: what a service offers and a client is built on.

`tms.messaging.service` fulfils it in the process, `tms.client.remote.remote_messaging` over REST,
so that one client stands on both.
"""

from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol, overload

from tms.core.errors import TooLarge
from tms.core.limits import UINT16_COUNT
from tms.core.services.commits import NOTHING, CommitRequest
from tms.core.services.payload_values import PayloadValues
from tms.core.values.caller import ANYBODY, Caller
from tms.core.values.message import KEY, KEY_BYTES, NO_PAYLOAD_KEY, MessageBlock
from tms.core.values.reading import Reading
from tms.core.values.topic import TopicId, TopicMetadata


@dataclass(frozen=True, slots=True)
class Page:
    """A part of a poll's answer, bounded in bytes."""

    blocks: Sequence[MessageBlock]
    count: int
    """Messages in all blocks."""
    next_position: bytes | None
    """Where the next page starts; None where there is nothing more to give now."""
    stopped_at: int | None = None
    """The id of the transaction, still in progress for a transactional reader, that it must not
    pass; None where it was not stopped. For a transaction of another manager, it is the write
    pointer."""


STOPPED_AT = "tms-stopped-at-transaction"
"""The header by which a server says where a reader has stopped, as `Page.stopped_at`."""
STOPPED_S = 1.0
"""So long a reader stands still before it is told where: most transactions end before."""
Stopped = Callable[[int], object]
"""Is told where a reader has stopped, as `Page.stopped_at`."""


@dataclass(frozen=True, slots=True)
class RollbackRange:
    """The answer to a transactional publish, and the body of a rollback. Both ends are included."""

    write_pointer: int
    start_timestamp: int
    start_sequence_id: int
    end_timestamp: int
    end_sequence_id: int


_SHOWN_IDS_MAX = 3


@dataclass(frozen=True, slots=True, repr=False)
class Published(Sequence[bytes]):
    """The ids of the messages of one publish, in their order, 20 bytes each.

    They follow from the first one: within a millisecond sequence ids ascend by one, and behind the
    last of 65,536 the next millisecond begins. So they are not computed until they are looked at.
    Empty where what was stored before was published: its ids are not known without reading it.
    """

    first_key: bytes
    """The first ten bytes of the first one."""
    message_count: int
    write_pointer: int | None = None
    """The write pointer of their transaction; None if there is none."""

    def _key(self, number: int) -> bytes:
        timestamp_ms, sequence_id = KEY.unpack(self.first_key)
        later_ms, sequence_id = divmod(sequence_id + number, UINT16_COUNT)
        return KEY.pack(timestamp_ms + later_ms, sequence_id)

    @property
    def last_key(self) -> bytes:
        """The first ten bytes of the last one."""
        return self._key(max(self.message_count, 1) - 1)

    @property
    def rollback_range(self) -> RollbackRange | None:
        """The range that rolls the publish back; None if there is no transaction."""
        if self.write_pointer is None:
            return None
        return RollbackRange(
            self.write_pointer, *KEY.unpack(self.first_key), *KEY.unpack(self.last_key)
        )

    def __len__(self) -> int:
        return self.message_count

    @overload
    def __getitem__(self, index: int) -> bytes: ...
    @overload
    def __getitem__(self, index: slice) -> list[bytes]: ...
    def __getitem__(self, index: int | slice) -> bytes | list[bytes]:
        """Return an id, or a list of them."""
        numbers = range(self.message_count)[index]
        if isinstance(numbers, int):
            return self._key(numbers) + NO_PAYLOAD_KEY
        return [self._key(number) + NO_PAYLOAD_KEY for number in numbers]

    def __repr__(self) -> str:
        """Return the ids in hexadecimal digits; of many the first and the last."""
        if self.message_count <= _SHOWN_IDS_MAX:
            return f"Published({', '.join(each.hex() for each in self)})"
        return f"Published({self[0].hex()}, …, {self[-1].hex()}; {self.message_count} ids)"


NO_IDS = Published(bytes(KEY_BYTES), 0)
"""The ids of stored messages, and those from a server that gives none."""


@dataclass(frozen=True, slots=True)
class AllPublished:
    """The outcome of a publish to several topics in one transaction."""

    write_pointer: int
    """The transaction's id; of the first time where it was done before."""
    is_duplicate: bool = False
    """Whether the owner's sequence was committed before, so that nothing was done now."""


NO_ENTRIES = b""
"""The value of `if_last` for a topic without entries."""
EMPTY = "empty"
"""The word for that."""


def too_many_topics_at_once(count: int, topics_max: int) -> TooLarge:
    """Return the error of a request to more topics than a server has in memory."""
    return TooLarge("too_many_topics_at_once", count=count, topics_in_memory_max=topics_max)


class Messaging(Protocol):
    """Topics and the five verbs. Each method may raise `Unavailable` and `InternalError` too.

    Those that change something raise `NotPermitted` if `caller` may not (`tms.core.values.caller`):
    the topic is the service's own, or the transaction, or the owner, is another principal's.
    """

    async def create_topic(
        self,
        topic_id: TopicId,
        properties: Mapping[str, object] | None = None,
        *,
        caller: Caller = ANYBODY,
    ) -> None:
        """Create a topic. Raises `TopicExists`, `InvalidRequest` (invalid_properties, _ttl)."""
        ...

    async def update_topic(
        self, topic_id: TopicId, properties: Mapping[str, object], *, caller: Caller = ANYBODY
    ) -> None:
        """Replace all properties of a topic. Raises `TopicNotFound`, `InvalidRequest`."""
        ...

    async def trim_topic(
        self, topic_id: TopicId, before_ms: int, *, caller: Caller = ANYBODY
    ) -> None:
        """Expire the messages written before `before_ms`, ms since 1970, a time in the past.

        Doing it twice is the same as once. A stored message was written when it was stored. Raises
        `TopicNotFound`, `InvalidTrimTime`.
        """
        ...

    async def topic(self, topic_id: TopicId) -> TopicMetadata:
        """Return a topic's metadata. Raises `TopicNotFound`."""
        ...

    async def topics(self, namespace: str) -> list[str]:
        """Return the names of a namespace's topics in the order of their row keys."""
        ...

    async def delete_topic(self, topic_id: TopicId, *, caller: Caller = ANYBODY) -> None:
        """Delete a topic and so all of its messages. Raises `TopicNotFound`."""
        ...

    async def publish(
        self,
        topic_id: TopicId,
        payloads: Sequence[bytes],
        write_pointer: int | None = None,
        *,
        if_last: bytes | None = None,
        caller: Caller = ANYBODY,
    ) -> Published:
        """Publish `payloads` in order; durable when it returns; return their ids.

        With `if_last`, an id, only if the topic has no entry behind it, of whatever kind; with
        `NO_ENTRIES`, only if it has none.
        With a write pointer the messages belong to that transaction, and the range to roll them
        back is returned too. With a write pointer and no payloads, what was stored under it before
        is published, once: asked again, it does nothing and returns the range of the first time.
        Raises `TopicNotFound`, `InvalidRequest` (empty_publish,
        invalid_write_pointer), `TransactionExpired`, `TooLarge`, `QueueFull`, `TopicMoved`.
        """
        ...

    async def publish_all(
        self,
        publications: Mapping[TopicId, Sequence[bytes]],
        *,
        owner: str | None = None,
        sequence: int | None = None,
        request: CommitRequest = NOTHING,
        caller: Caller = ANYBODY,
    ) -> AllPublished:
        """Publish to several topics in a transaction of its own, started and committed at once.

        All or nothing, also for readers; durable when it returns. Its commit does what is
        requested besides. With an owner and a sequence (`tms.core.services.transactions`) it may be
        repeated: the second time it changes nothing. Raises as `publish` and as
        `AsyncTransactions.commit`, `OwnerBusy`, `InvalidRequest` (invalid_owner), and `TooLarge`
        (too_many_topics_at_once).
        """
        ...

    async def store(
        self,
        topic_id: TopicId,
        payloads: Sequence[bytes],
        write_pointer: int,
        *,
        caller: Caller = ANYBODY,
    ) -> None:
        """Store `payloads` under a write pointer, to be published later; durable when it returns.

        Raises as `publish`, and `InvalidRequest` (invalid_store) where there are none.
        """
        ...

    async def rollback(
        self, topic_id: TopicId, published: RollbackRange, *, caller: Caller = ANYBODY
    ) -> None:
        """Roll back what one publish wrote. Doing it twice is the same as once.

        Raises `TopicNotFound`, `RollbackRefused`.
        """
        ...

    def poll(
        self,
        topic_id: TopicId,
        reading: Reading,
        wait_s: float = 0.0,
        stopped: Stopped | None = None,
    ) -> AsyncIterator[MessageBlock]:
        """Give the messages that `reading` asks for, in blocks.

        Only what its view sees, up to the first that may still commit. If there is nothing, wait
        up to `wait_s` seconds for it, unless there is an end. `stopped` is told of a transaction
        that the reader has waited at for `STOPPED_S`, and of one that it stops at in the end.
        Raises `TopicNotFound`, `InvalidRequest` (invalid_limit, invalid_wait), and for the id of a
        transaction `TransactionNotInProgress`, `TransactionUnknown`.
        """
        ...


class MessagingService(Messaging, Protocol):
    """More calls that the service in the process offers to the REST server."""

    @property
    def values(self) -> PayloadValues | None:
        """Checks and decodes values; None if no registry is installed."""
        ...

    def page_in_memory(self, topic_id: TopicId, reading: Reading) -> Page | None:
        """Return what `page` would, if all of that is in memory and given to everybody; else None.

        It is the short way of the commonest poll: no snapshot, no end, nothing to wait for.
        """
        ...

    async def page(
        self,
        topic_id: TopicId,
        reading: Reading,
        wait_s: float = 0.0,
        stopped: Stopped | None = None,
    ) -> Page:
        """Return the first part of what `poll` would give, from memory where it can.

        `stopped` is told of a transaction that the reader has waited at for `STOPPED_S`. The caller
        goes on at `next_position` (`Reading.behind`). Raises as `poll`.
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
