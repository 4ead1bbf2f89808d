"""The messaging interface, which a service implements and a client uses.

`tms.messaging.service` implements it in the process, `tms.client.remote.remote_messaging` over
REST, so one client uses either.
"""

from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol, overload

from tms.core.errors import TooLarge
from tms.core.limits import UINT16_COUNT
from tms.core.services.commits import NOTHING, CommitRequest
from tms.core.services.payload_values import PayloadValues
from tms.core.values.caller import ANYBODY, Caller
from tms.core.values.message import KEY, KEY_BYTES, NO_PAYLOAD_KEY, MessageBlock, id_after
from tms.core.values.reading import Reading
from tms.core.values.topic import TopicId, TopicMetadata


@dataclass(frozen=True, slots=True)
class Page:
    """A part of a poll's answer, bounded in bytes."""

    blocks: Sequence[MessageBlock]
    count: int
    """Messages in all blocks."""
    next_position: bytes | None
    """Where the next page starts; None if there is nothing more to read now."""
    stopped_at: int | None = None
    """The id of the transaction in progress that a transactional reader must not pass; None if it
    was not stopped. For a transaction of another manager, it is the write pointer.
    """

    def after(self, position: bytes) -> bytes:
        """Return where reading continues, even at the end; this page began at `position`."""
        if self.next_position is not None:
            return self.next_position
        return id_after(self.blocks[-1].last_id()) if self.blocks else position


@dataclass(frozen=True, slots=True)
class FilteredPage(Page):
    """The messages of a part of a topic that match a filter, perhaps none."""

    position: bytes = b""
    """Where reading continues, even at the end."""

    def after(self, position: bytes) -> bytes:
        """Return where reading continues, even at the end: not before `position`."""
        return max(position, self.position)


STOPPED_AT = "tms-stopped-at-transaction"
"""The header in which a server reports where a reader stopped, as `Page.stopped_at`."""
NEXT_POSITION = "tms-next-position"
"""The header in which a server says where to continue after a poll with a filter."""
AT_END = "tms-at-end"
"""The header that says whether such a poll has read everything that its reader can see now."""
STOPPED_S = 1.0
"""How long a reader waits before it reports where: most transactions end sooner."""
Stopped = Callable[[int], object]
"""Is called with the place where a reader stopped, as `Page.stopped_at`."""

Passed = Callable[[bytes], object]
"""Is called with the position up to which messages were read and, if they match, given."""


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

    They follow from the first one: within a millisecond sequence ids ascend by one, and after the
    last of 65,536 the next millisecond begins. So they are computed only when used. Empty if
    earlier stored messages were published, because their ids are unknown until they are read.
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
        """Return the ids in hexadecimal digits, or the first and the last of many."""
        if self.message_count <= _SHOWN_IDS_MAX:
            return f"Published({', '.join(each.hex() for each in self)})"
        return f"Published({self[0].hex()}, …, {self[-1].hex()}; {self.message_count} ids)"


NO_IDS = Published(bytes(KEY_BYTES), 0)
"""The ids if stored messages were published, or if a server returns none."""


@dataclass(frozen=True, slots=True)
class AllPublished:
    """The outcome of a publish to several topics in one transaction."""

    write_pointer: int
    """The transaction's id; if it was done before, that of the first time."""
    is_duplicate: bool = False
    """Whether the owner's sequence was committed before, so that nothing was done now."""


NO_ENTRIES = b""
"""The value of `if_last` for a topic without entries."""
EMPTY = "empty"
"""The text for it."""


def too_many_topics_at_once(count: int, topics_max: int) -> TooLarge:
    """Return the error of a request to more topics than a server has in memory."""
    return TooLarge("too_many_topics_at_once", count=count, topics_in_memory_max=topics_max)


class Messaging(Protocol):
    """Topics and the five verbs. Each method may also raise `Unavailable` and `InternalError`.

    Methods that change something raise `NotPermitted` if `caller` may not
    (`tms.core.values.caller`): the topic is the service's own, or the transaction or owner belongs
    to another principal.
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
        """Delete a topic with all its messages. Raises `TopicNotFound`."""
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
        """Publish `payloads` in order, durable on return; return their ids.

        With `if_last`, an id, publish only if the topic has no entry of any kind after it; with
        `NO_ENTRIES`, only if the topic is empty. With a write pointer the messages belong to that
        transaction, and the range to roll them back is returned too. With a write pointer and no
        payloads, what was stored under it is published once: a repeated call does nothing and
        returns the range of the first. Raises `TopicNotFound`, `InvalidRequest` (empty_publish,
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

        All or nothing, also for readers; durable when it returns. Its commit also does the rest of
        the request. With an owner and a sequence (`tms.core.services.transactions`) it may be
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

        Raises as `publish`, and `InvalidRequest` (invalid_store) if there are none.
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
        *,
        passed: Passed | None = None,
    ) -> AsyncIterator[MessageBlock]:
        """Yield the messages that `reading` describes, in blocks.

        They are those that its view sees, up to the first that may still commit. If there are none,
        wait up to `wait_s` seconds, unless there is an end. `stopped` is called with a transaction
        at which the reader has waited for `STOPPED_S`, and with one at which it ends. With a
        filter, `passed` is called after each part. Raises `TopicNotFound`, `InvalidRequest`
        (invalid_limit, invalid_wait), and for the id of a transaction `TransactionNotInProgress`,
        `TransactionUnknown`.
        """
        ...


class MessagingService(Messaging, Protocol):
    """Further calls that the service in the process offers to the REST server."""

    @property
    def values(self) -> PayloadValues | None:
        """Checks and decodes values; None if no registry is installed."""
        ...

    def page_in_memory(self, topic_id: TopicId, reading: Reading) -> Page | None:
        """Return what `page` would if all of it is in memory and visible to everybody; else None.

        It is the fast path of the most common poll: no snapshot, no end, no wait.
        """
        ...

    async def page(
        self,
        topic_id: TopicId,
        reading: Reading,
        wait_s: float = 0.0,
        stopped: Stopped | None = None,
    ) -> Page:
        """Return the first part of what `poll` would yield, from memory if possible.

        `stopped` is called with a transaction at which the reader has waited for `STOPPED_S`. The
        caller continues at `next_position` (`Reading.behind`). Raises as `poll`.
        """
        ...

    async def end(self, topic_id: TopicId) -> bytes:
        """Return the position after the last entry of a topic."""
        ...

    def limit_of(self, limit: int | None) -> int:
        """Return the effective limit: the default for None, never above the maximum.

        Raises `InvalidRequest` (invalid_limit) if it is zero or negative.
        """
        ...

    @property
    def is_stopping(self) -> bool:
        """Whether polls that wait are answered at once, because the service will close."""
        ...

    def check_ready(self) -> None:
        """Raise `Unavailable` if a publish would be refused now: stopping, or no room."""
        ...
