"""Ranges of a topic: its present start and end, splits, and reaches.

For readers of a whole topic, or of its new messages, that work in parallel or repeat their work: a
range below the `end` of a `TopicRange` always has the same messages until they expire. Positions
are 20 bytes, as message ids (`tms.core.values.message`); an end is exclusive.

The messages of a topic are those of the reader's isolation: committed ones, or all.
"""

from collections.abc import Collection, Mapping, Sequence
from typing import NamedTuple, Protocol

from tms.core.errors import InvalidRequest, TooLarge
from tms.core.values.message import shown
from tms.core.values.reading import Isolation
from tms.core.values.topic import TopicId

TOPICS_MAX = 10_000
"""The most topics in one request."""


def check_topics_count(count: int) -> None:
    """Raise `TooLarge` (too_many_topics) for more than `TOPICS_MAX` topics."""
    if count > TOPICS_MAX:
        raise TooLarge("too_many_topics", count=count, topics_max=TOPICS_MAX)


class TopicRange(NamedTuple):
    """The readable range of a topic."""

    start: bytes
    """The first entry that has not expired; `end` if there is none."""
    end: bytes
    """Nothing is ever added below it, and readers of this isolation find nothing in progress
    below it.
    """
    generation: int
    """Counts the topic's creations; positions of another generation are meaningless."""

    def __repr__(self) -> str:
        """Return the fields, ids in hexadecimal digits."""
        return shown("TopicRange", **self._asdict())


class TopicRanges(NamedTuple):
    """The ranges of several topics at one time."""

    topics: Mapping[TopicId, TopicRange | None]
    """None if the topic does not exist."""
    time_ms: int
    """The server's clock, in milliseconds since 1970."""
    expired_before: Mapping[TopicId, bytes]
    """For each topic that exists: all messages before this id have expired, and none after it."""


class Split(NamedTuple):
    """A part of a range, start <= id < end."""

    start: bytes
    end: bytes
    size_bytes: int
    """An estimate of the bytes; 0 if unknown."""

    def __repr__(self) -> str:
        """Return the fields, ids in hexadecimal digits."""
        return shown("Split", **self._asdict())


class Reach(NamedTuple):
    """How far a number of messages extends from a position."""

    end: bytes
    messages: int
    payload_bytes: int

    def __repr__(self) -> str:
        """Return the fields, ids in hexadecimal digits."""
        return shown("Reach", **self._asdict())


class Ranges(Protocol):
    """Ranges of topics. Each method may also raise `Unavailable` and `InternalError`."""

    async def ranges(
        self, topic_ids: Collection[TopicId], isolation: Isolation = Isolation.COMMITTED
    ) -> TopicRanges:
        """Return the range of each topic's committed messages, or of all.

        With `COMMITTED`, a range ends before the first entry of a transaction in progress. Raises
        `TooLarge` (too_many_topics), and for `COMMITTED` `TransactionsElsewhere`.
        """
        ...

    async def splits(
        self, topic_id: TopicId, start: bytes, end: bytes, parts: int
    ) -> Sequence[Split]:
        """Return at most `parts` ranges of about equal size that cover start <= id < end.

        The messages are not read. Raises `TopicNotFound`, `InvalidRequest` (invalid_range).
        """
        ...

    async def reach(
        self,
        topic_id: TopicId,
        start: bytes,
        end: bytes,
        *,
        messages: int | None = None,
        payload_bytes: int | None = None,
        isolation: Isolation = Isolation.COMMITTED,
    ) -> Reach:
        """Return the furthest end, up to `end`, within a number of messages and bytes.

        It includes at least one message if there is one, and never exceeds the topic's range; None
        means no bound. Raises `TopicNotFound`, `InvalidRequest` (invalid_range),
        `TransactionsElsewhere`.
        """
        ...


def check_range(start: bytes, end: bytes) -> None:
    """Raise `InvalidRequest` (invalid_range) if a range ends before it starts."""
    if end < start:
        raise InvalidRequest("invalid_range", start=start.hex(), end=end.hex())


def check_count(name: str, count: int | None) -> None:
    """Raise `InvalidRequest` (invalid_range) if a bound of a range is below 1."""
    if count is not None and count < 1:
        raise InvalidRequest("invalid_range", **{name: count})
