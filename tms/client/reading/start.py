"""Starts of polls and references to messages, in the forms that callers may use."""

from datetime import UTC, datetime, timedelta
from typing import Literal, Protocol, runtime_checkable

from tms.core.services.messaging import EMPTY, NO_ENTRIES
from tms.core.values.message import (
    MessageId,
    check_id,
    check_start_ms,
    parse_id,
    position_of,
)


@runtime_checkable
class HasId(Protocol):
    """A message in any form: from a poll, from a group, or with values."""

    @property
    def id(self) -> bytes:
        """The id of 20 bytes."""
        ...


WhichMessage = HasId | bytes | str | MessageId
"""A message, or its id: 20 bytes, 40 hexadecimal digits or a `MessageId`."""

Start = WhichMessage | int | datetime
"""A message, or its id; or a publish time in milliseconds since 1970 or as a datetime with a time
zone."""

IfLast = WhichMessage | Literal["empty"]
"""The last message that a publisher knows in a topic, or "empty" for none."""

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def position(*, after: Start | None, start: Start | None) -> bytes:
    """Return the smallest id to give: just after `after`, or `start` itself, or the lowest id.

    Raises `InvalidRequest` (invalid_message_id, invalid_start_time, start_time_in_seconds),
    `ValueError` if both are given or a datetime has no time zone, `TypeError` for another type.
    """
    if after is None:
        return position_of(None if start is None else id_or_ms(start))
    if start is not None:
        raise ValueError("give either after or start")
    return position_of(id_or_ms(after), inclusive=False)


def place_of(start: Start) -> bytes:
    """Return the beginning or end of a range, perhaps not a message's id. Raises as `position`.

    Any 20 bytes are valid, because the end of a topic's range is after its last message.
    """
    return start if isinstance(start, bytes) else position_of(id_or_ms(start))


def last_id_of(if_last: IfLast) -> bytes:
    """Return the id, or `NO_ENTRIES`. Raises `InvalidRequest` (invalid_message_id), `TypeError`."""
    return NO_ENTRIES if if_last == EMPTY else id_of(if_last)


def id_of(which: WhichMessage) -> bytes:
    """Return the id of a message. Raises `InvalidRequest` (invalid_message_id), `TypeError`."""
    match which:
        case HasId():
            return check_id(which.id)
        case MessageId():
            return which.encode()
        case str():
            return parse_id(which)
        case bytes():
            return check_id(which)
        case _:
            raise TypeError(f"{which!r} is not a message or a message id")


def ms_of(moment: datetime) -> int:
    """Convert a time with a time zone to whole milliseconds since 1970."""
    return (moment - _EPOCH) // timedelta(milliseconds=1)


def id_or_ms(start: Start) -> bytes | int:
    """Return the id, or the time in milliseconds since 1970. Raises as `position`."""
    match start:
        case MessageId() | str() | bytes() | HasId():
            return id_of(start)
        case int():
            return check_start_ms(start)
        case datetime():
            if start.tzinfo is None:
                raise ValueError(f"{start} has no time zone: add tzinfo=UTC, or another")
            return ms_of(start)
        case _:
            raise TypeError(f"{start!r} is not a message, a message id, a time in ms or a datetime")
