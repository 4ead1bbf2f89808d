"""Scheduled messages: they wait in their topic's schedule, and are published when they are due.

A scheduled message has no message id: it gets one when it is published, as any other message. Until
then it is known by its place in the schedule.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple, Protocol

from tms.core.errors import InvalidRequest, ScheduledNotFound
from tms.core.limits import INT64_MAX
from tms.core.values.caller import ANYBODY, Caller
from tms.core.values.message import Message
from tms.core.values.topic import TopicId

LISTED_MAX = 1_000
"""The most scheduled messages that are listed at once."""
LISTED_DEFAULT = 100
_ID = re.compile("[0-7][0-9a-f]{15}[0-7][0-9a-f]{15}", re.ASCII)
_DIGITS = 16


class DuePlace(NamedTuple):
    """A place in a topic's schedule. Messages are published in the order of their places."""

    due_ms: int
    """When the message is due, in milliseconds since 1970."""
    number: int
    """Ascends with each scheduled message; never used twice in a store."""

    @property
    def id(self) -> str:
        """The place as text: 32 hexadecimal digits."""
        return f"{self.due_ms:0{_DIGITS}x}{self.number:0{_DIGITS}x}"


FIRST_PLACE = DuePlace(0, 0)
"""A place before all others."""
LAST_PLACE = DuePlace(INT64_MAX, INT64_MAX)


def place_of(scheduled_id: str) -> DuePlace:
    """Return the place that an id names.

    Raises `ScheduledNotFound` if no scheduled message can have that id.
    """
    text = scheduled_id.lower()
    if not _ID.fullmatch(text):
        raise ScheduledNotFound(id=scheduled_id[: 4 * _DIGITS])
    return DuePlace(int(text[:_DIGITS], 16), int(text[_DIGITS:], 16))


class ScheduledRow(NamedTuple):
    """A message that waits, as it is stored."""

    place: DuePlace
    body: bytes
    """As `tms.core.values.frame` has bodies."""


def place_in(key: bytes) -> DuePlace:
    """Return the place that a row key ends with."""
    return DuePlace(int.from_bytes(key[-16:-8]), int.from_bytes(key[-8:]))


@dataclass(frozen=True, slots=True)
class SchedulePage:
    """Some rows of a schedule, ascending."""

    keys: Sequence[bytes]
    """The row keys of messages that wait. Each ends with its place."""
    bodies: Sequence[bytes]
    """The messages, in the same order."""
    cancelled: Sequence[DuePlace]
    """Places within the page with a tombstone."""
    next: DuePlace | None
    """The first place after the page, whether it is within the range or behind it."""

    @property
    def is_empty(self) -> bool:
        """Whether there is nothing to publish, and nothing to clear away."""
        return not self.keys and not self.cancelled

    @property
    def rows(self) -> Sequence[ScheduledRow]:
        """The messages with their places."""
        return [*map(ScheduledRow, map(place_in, self.keys), self.bodies)]

    def through(self, closed: DuePlace) -> DuePlace:
        """Return up to where nothing is left, if the page was read up to `closed`."""
        if self.next is None or self.next > closed:
            return closed
        return max([*map(place_in, self.keys[-1:]), *self.cancelled[-1:]])


class DeliveryTime(NamedTuple):
    """When messages are to be published: at a time, or after one; exactly one of both."""

    at_ms: int | None = None
    """In milliseconds since 1970. A time in the past means now."""
    after_s: float | None = None
    """In seconds from when the server schedules them."""

    def due_ms(self, now_ms: int, ahead_s_max: int) -> int:
        """Return the time in milliseconds since 1970.

        Raises `InvalidRequest` (invalid_delivery_time) if it is not a time, or too far ahead.
        """
        detail = {"deliver_at": self.at_ms, "deliver_after": self.after_s}
        named = {name: value for name, value in detail.items() if value is not None}
        if len(named) != 1:
            raise InvalidRequest("invalid_delivery_time", **named)
        ahead_ms_max = ahead_s_max * 1000
        ahead_ms: float
        if self.after_s is not None:
            ahead_ms = self.after_s * 1000
        else:
            assert self.at_ms is not None
            ahead_ms = max(0, self.at_ms - now_ms) if self.at_ms >= 0 else -1
        if not 0 <= ahead_ms <= ahead_ms_max:  # not a number is neither
            raise InvalidRequest(
                "invalid_delivery_time", **named, now_ms=now_ms, scheduled_s_max=ahead_s_max
            )
        return now_ms + round(ahead_ms)


class CommitSchedule(NamedTuple):
    """Messages that a commit schedules in a topic."""

    topic_id: TopicId
    payloads: Sequence[bytes]
    delivery: DeliveryTime
    """`after_s` counts from when the server gets the commit."""


class Scheduled(NamedTuple):
    """The outcome of scheduling messages."""

    ids: Sequence[str]
    """The ids of the scheduled messages, in their order."""
    at_ms: int
    """When they will be published, in milliseconds since 1970."""


class ScheduledMessage(NamedTuple):
    """A message that waits to be published."""

    id: str
    """Its id in the schedule, by which it can be cancelled."""
    at_ms: int
    """When it will be published, in milliseconds since 1970."""
    message: Message
    """The message. It has no message id yet."""


class Schedules(Protocol):
    """The schedules of topics. Each method may raise `TopicNotFound`, `Unavailable`."""

    async def schedule(
        self,
        topic_id: TopicId,
        payloads: Sequence[bytes],
        delivery: DeliveryTime,
        *,
        caller: Caller = ANYBODY,
    ) -> Scheduled:
        """Schedule messages to be published in this order; durable when it returns.

        Raises as `Messaging.publish`, `InvalidRequest` (invalid_delivery_time), `TooLarge`
        (too_many_scheduled), and `StoreFormatOld`.
        """
        ...

    async def scheduled(
        self, topic_id: TopicId, after: str | None = None, limit: int = LISTED_DEFAULT
    ) -> Sequence[ScheduledMessage]:
        """Return the first messages that wait, by the times at which they are due.

        Those after the id `after`, if it is given. Raises `ScheduledNotFound` if that is not an id.
        """
        ...

    async def cancel_scheduled(
        self, topic_id: TopicId, scheduled_id: str, *, caller: Caller = ANYBODY
    ) -> None:
        """Cancel a scheduled message: it is never published. Durable when it returns.

        Raises `ScheduledNotFound` if it was published or cancelled before.
        """
        ...
