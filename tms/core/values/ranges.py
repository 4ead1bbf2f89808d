"""Ranges of a topic: where it begins and ends now, how it splits, how far so many messages reach.

For readers of a whole topic, or of what has come to it, that work in parallel or repeat their work:
a range below the `end` of a `TopicRange` has the same messages whenever it is read, until they
expire. Positions are 20 bytes, as message ids (`tms.core.values.message`); an end is exclusive.

The messages of a topic are those of the reader's isolation: committed ones, or all.
"""

from collections.abc import Collection, Mapping, Sequence
from typing import NamedTuple, Protocol

from tms.core.errors import InvalidRequest, TooLarge
from tms.core.values.message import shown
from tms.core.values.reading import Isolation
from tms.core.values.topic import TopicId

TOPICS_MAX = 10_000
"""Topics asked for at once, at most."""


def check_topics_asked(count: int) -> None:
    """Raise `TooLarge` (too_many_topics) for more than `TOPICS_MAX` topics."""
    if count > TOPICS_MAX:
        raise TooLarge("too_many_topics", count=count, topics_max=TOPICS_MAX)


class TopicRange(NamedTuple):
    """The readable range of a topic."""

    start: bytes
    """The first entry that has not expired; `end` where there is none."""
    end: bytes
    """Nothing is ever added below it. Before it, nothing is in progress for who reads by it."""
    generation: int
    """Counts how often the topic was created: of another generation, positions mean nothing."""

    def __repr__(self) -> str:
        """Return the fields, ids in hexadecimal digits."""
        return shown("TopicRange", **self._asdict())


class TopicRanges(NamedTuple):
    """The ranges of several topics, as of one time."""

    topics: Mapping[TopicId, TopicRange | None]
    """None where a topic does not exist."""
    time_ms: int
    """The server's clock, in milliseconds since 1970."""
    expired_before: Mapping[TopicId, bytes]
    """For each topic that exists: all messages before this id have expired, and none after it."""


class Split(NamedTuple):
    """A part of a range, start <= id < end."""

    start: bytes
    end: bytes
    size_bytes: int
    """About how many; 0 where that is not known."""

    def __repr__(self) -> str:
        """Return the fields, ids in hexadecimal digits."""
        return shown("Split", **self._asdict())


class Reach(NamedTuple):
    """How far from a position so many messages go."""

    end: bytes
    messages: int
    payload_bytes: int

    def __repr__(self) -> str:
        """Return the fields, ids in hexadecimal digits."""
        return shown("Reach", **self._asdict())


class Ranges(Protocol):
    """Ranges of topics. Each method may raise `Unavailable` and `InternalError` too."""

    async def ranges(
        self, topic_ids: Collection[TopicId], isolation: Isolation = Isolation.COMMITTED
    ) -> TopicRanges:
        """Return what there is of each topic: of what is committed, or of all.

        With `COMMITTED`, a range ends before the first entry of a transaction in progress. Raises
        `TooLarge` (too_many_topics), and for `COMMITTED` `TransactionsElsewhere`.
        """
        ...

    async def splits(
        self, topic_id: TopicId, start: bytes, end: bytes, parts: int
    ) -> Sequence[Split]:
        """Return at most `parts` ranges of about equal size that make up start <= id < end.

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
        """Return the furthest end, at most `end`, that so many messages and bytes reach.

        At least one message, if there is one; None means no bound. No further than the topic's
        range. Raises `TopicNotFound`, `InvalidRequest` (invalid_range), `TransactionsElsewhere`.
        """
        ...


def check_range(start: bytes, end: bytes) -> None:
    """Raise `InvalidRequest` (invalid_range) where a range ends before it starts."""
    if end < start:
        raise InvalidRequest("invalid_range", start=start.hex(), end=end.hex())


def check_count(name: str, count: int | None) -> None:
    """Raise `InvalidRequest` (invalid_range) where a bound of a range is below 1."""
    if count is not None and count < 1:
        raise InvalidRequest("invalid_range", **{name: count})
